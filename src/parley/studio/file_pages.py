"""The From files tab: tables as they are become planned terms, as `parley init` makes them."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import SettingError
from parley.studio.form import all_fields, decimal, field
from parley.studio.pages import TABLES, TERMS, Studio, page, studio_of

KINDS = {
    "linear-regression": "a number",
    "logistic-regression": "one of two classes",
    "softmax-regression": "one of several classes",
    "poisson-regression": "a count",
}


def show(request: Request) -> Response:
    """Which tables, what to predict, which promise."""
    studio = studio_of(request)
    jobs = [job for kind in ("init", "demo") for job in studio.jobs.listed(kind)]
    return page(
        request, "files.html", tables=studio.files(*TABLES), chosen=[], jobs=jobs, brings=studio.brings, kinds=KINDS
    )


async def make(request: Request) -> Response:
    """Start `parley init` with what the form says."""
    given = await all_fields(request)
    studio = studio_of(request)
    command = init_command(studio, given)
    job = studio.jobs.start(command, f"Terms from {len([1 for key, _ in given if key == 'table'])} tables")
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


def init_command(studio: Studio, given: list[tuple[str, str]]) -> list[str]:
    """What somebody would type behind `parley`."""
    form, tables = dict(given), [value for key, value in given if key == "table"]
    if len(tables) < 2:
        raise SettingError("tables: expected at least two, one for each owner")
    public, delta = form.get("public", ""), form.get("delta", "").strip()
    if public in tables:
        raise SettingError("public sample: expected a table of nobody's; it is one of the owners' here")
    name = field(form, "write")
    write = studio.new(name if name.endswith(TERMS) else name + TERMS, "terms")
    command = ["init", *(str(studio.inside(each, "tables")) for each in tables)]
    command += ["--target", field(form, "target"), "--write", str(write)]
    command += ["--epsilon", str(decimal(field(form, "epsilon"), "epsilon"))]
    command += ["--public", str(studio.inside(public, "public sample"))] if public else []
    kind, positive = form.get("kind", ""), form.get("positive", "").strip()
    if kind and kind not in KINDS:
        raise SettingError(f"what it is: expected one of {', '.join(KINDS)}")
    command += ["--kind", kind] if kind else []
    command += ["--positive", positive] if positive else []
    command += ["--delta", str(decimal(delta, "delta"))] if delta else []
    return [*command, "--json"]


async def demo(request: Request) -> Response:
    """Start `parley demo`, which writes tables and terms to play with."""
    studio = studio_of(request)
    out = studio.new("parley-demo", "folder")
    job = studio.jobs.start(["demo", "--out", str(out), "--unions", "19"], "Files of the demo")
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


ROUTES = [
    Route("/files", show),
    Route("/files/make", make, methods=["POST"]),
    Route("/files/demo", demo, methods=["POST"]),
]
