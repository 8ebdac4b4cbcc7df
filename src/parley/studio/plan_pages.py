"""A plan beside terms as they are written: `parley plan` as a job."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.studio.form import field, fields
from parley.studio.pages import TERMS, studio_of


async def start(request: Request) -> Response:
    """Start `parley plan`, which compares what it finds with the file and writes the best to a new one."""
    form, studio = await fields(request), studio_of(request)
    file, name = studio.inside(field(form, "file"), "terms"), field(form, "write")
    write = studio.new(name if name.endswith(TERMS) else name + TERMS, "terms")
    job = studio.jobs.start(["plan", str(file), "--write", str(write)], f"Plan beside {file.name}")
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


ROUTES = [Route("/plan/start", start, methods=["POST"])]
