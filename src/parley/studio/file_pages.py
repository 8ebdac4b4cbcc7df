"""The From files tab: tables as they are become planned terms, as `parley init` makes them."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import SettingError
from parley.numerals import counted
from parley.studio.form import all_fields, decimal, field
from parley.studio.interview_form import Given, asked, init_options, is_owners, tables_of
from parley.studio.pages import TABLES, TERMS, Studio, page, studio_of

UNIONS = 19  # of the demo's files: with the bank they are twenty owners, a page of the Play tab


def show(request: Request) -> Response:
    """Which tables, what to predict, which promise."""
    return _shown(request, [])


def again(request: Request) -> Response:
    """The same with what somebody said before a job that did not do what they wanted."""
    return _shown(request, studio_of(request).jobs.find(request.path_params["name"]).form)


def _shown(request: Request, given: Given) -> Response:
    studio = studio_of(request)
    jobs = [job for kind in ("init", "demo") for job in studio.jobs.listed(kind)]
    there = [pair for pair in given if pair[0] not in ("table", "public") or pair[1] in studio.files(*TABLES)]
    shown = {"all_tables": studio.files(*TABLES), "jobs": jobs, "brings": studio.brings, "unions": UNIONS}
    return page(request, "files.html", **shown, **asked(studio, there))


async def columns(request: Request) -> Response:
    """What is asked about the tables that were chosen: names and declared types of columns are read, and no cell."""
    given = await all_fields(request)
    return page(request, "interview.html", **await run_in_threadpool(asked, studio_of(request), given))


async def make(request: Request) -> Response:
    """Start `parley init` with what the form says."""
    given = await all_fields(request)
    studio = studio_of(request)
    command = await run_in_threadpool(init_command, studio, given)
    job = studio.jobs.start(command, f"Terms from {counted(len(tables_of(given)), 'table')}", form=given)
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


def init_command(studio: Studio, given: Given) -> list[str]:
    """What somebody would type behind `parley`."""
    form, tables = dict(given), tables_of(given)
    if len(tables) < 2:
        raise SettingError("tables: expected at least two, one for each owner")
    if form.get("public") and is_owners(studio, given, form["public"]):
        raise SettingError("public sample: expected a table of nobody's; it is one of the owners' here")
    name, delta = field(form, "write"), form.get("delta", "").strip()
    write = studio.new(name if name.endswith(TERMS) else name + TERMS, "terms")
    command = ["init", *(str(studio.inside(each, "tables")) for each in tables)]
    command += ["--target", field(form, "target"), "--write", str(write)]
    command += ["--epsilon", str(decimal(field(form, "epsilon"), "epsilon"))]
    command += ["--delta", str(decimal(delta, "delta"))] if delta else []
    return [*command, *init_options(studio, given), "--json"]


async def demo(request: Request) -> Response:
    """Start `parley demo`, which writes tables and terms to play with."""
    studio = studio_of(request)
    out = studio.new("parley-demo", "folder")
    job = studio.jobs.start(["demo", "--out", str(out), "--unions", str(UNIONS)], "Files of the demo")
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


ROUTES = [
    Route("/files", show),
    Route("/files/again/{name}", again),
    Route("/files/columns", columns, methods=["POST"]),
    Route("/files/make", make, methods=["POST"]),
    Route("/files/demo", demo, methods=["POST"]),
]
