"""The Audit tab: `parley audit` as a job, and its page."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.studio.form import field, fields, whole
from parley.studio.pages import TERMS, page, studio_of


def show(request: Request) -> Response:
    """Which terms to attack; what came of earlier attacks."""
    studio = studio_of(request)
    return page(request, "audit.html", files=studio.files(TERMS), jobs=studio.jobs.listed("audit"))


async def start(request: Request) -> Response:
    """Start `parley audit`: tables are made up, nobody's data are read."""
    form, studio = await fields(request), studio_of(request)
    file = studio.inside(field(form, "file"), "terms")
    runs = whole(form.get("runs") or "100000", "runs")
    command = ["audit", str(file), "--runs", str(runs), "--json"]
    job = studio.jobs.start(command, f"Audit of {file.name}", report=True)
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


ROUTES = [Route("/audit", show), Route("/audit/start", start, methods=["POST"])]
