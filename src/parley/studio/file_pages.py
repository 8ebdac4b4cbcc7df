"""The From files tab: uploaded tables become planned terms, as by `parley init`. No cell is shown."""

import os
import secrets
import shutil
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from parley.durable import PRIVATE_MODE, as_disk_errors
from parley.errors import DataError, SettingError
from parley.numerals import counted
from parley.studio.interview_form import FormFields, init_options, interview_fields, is_owners, require_names, tables_of
from parley.studio.pages import TABLES, TERMS, Studio, all_fields, decimal, field, page, studio_of

MAX_UPLOAD_BYTES = 2 << 30  # bytes of a table that is brought by a browser; larger ones are put into the folder
TOO_LARGE_MESSAGE = (
    f"table: the file is larger than {MAX_UPLOAD_BYTES >> 30} GiB, the limit for uploads; copy the file into the "
    "studio's folder"
)
DEMO_UNIONS = 19  # of the demo's files: with the bank they are twenty owners, a page of the Play tab


def show(request: Request) -> Response:
    """Show the choice of tables, target and promise."""
    return _files_page(request, [])


def again(request: Request) -> Response:
    """Show the form again with the answers from an earlier job."""
    return _files_page(request, studio_of(request).jobs.find(request.path_params["name"]).form)


def _files_page(request: Request, given: FormFields) -> Response:
    studio = studio_of(request)
    jobs = [job for kind in ("init", "demo") for job in studio.jobs.listed(kind)]
    there = [pair for pair in given if pair[0] not in ("table", "public") or pair[1] in studio.files(*TABLES)]
    shown = {"all_tables": studio.files(*TABLES), "jobs": jobs, "brings": studio.brings, "unions": DEMO_UNIONS}
    return page(request, "files.html", **shown, **interview_fields(studio, there))


async def columns(request: Request) -> Response:
    """Show the questions about the chosen tables: names and declared types of columns are read, and no cell."""
    given = await all_fields(request)
    return page(request, "interview.html", **await run_in_threadpool(interview_fields, studio_of(request), given))


async def make(request: Request) -> Response:
    """Start `parley init` with the form's answers."""
    given = await all_fields(request)
    studio = studio_of(request)
    command = await run_in_threadpool(init_command, studio, given)
    job = studio.jobs.start(command, f"Terms from {counted(len(tables_of(given)), 'table')}", form=given)
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


def init_command(studio: Studio, given: FormFields) -> list[str]:
    """Return the `parley init` command for the form."""
    form, tables = dict(given), tables_of(given)
    if len(tables) < 2:
        raise SettingError("tables: choose at least two tables in the field “Owners' tables”, one table per owner")
    if form.get("public") and is_owners(studio, given, form["public"]):
        raise SettingError(
            "public sample: the chosen file is also one of the owners' tables; choose a file without private rows"
        )
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
    job = studio.jobs.start(["demo", "--out", str(out), "--unions", str(DEMO_UNIONS)], "Files of the demo")
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


async def bring(request: Request) -> Response:
    """Write an uploaded table to a new file of the folder, readable by its owner alone; whole or not at all."""
    studio = studio_of(request)
    name = request.query_params.get("name", "")
    if not studio.brings:
        raise SettingError(
            "table: this studio accepts no uploads, because traffic from other machines is not encrypted; copy the "
            "file into the studio's folder"
        )
    if Path(name).name != name or name.startswith(".") or Path(name).suffix.lower() not in TABLES:
        raise SettingError(
            f"table: choose a file whose name ends in {' or '.join(TABLES)} and does not begin with a dot"
        )
    path = studio.new(name, "table")
    _require_room(request.headers.get("content-length", ""), path.parent)
    fresh = path.with_name(f".brought-{secrets.token_hex(4)}-{name}")
    try:
        with as_disk_errors(path):
            await _written(request, fresh)
        words = await run_in_threadpool(_table_size_words, fresh, name)
        os.link(fresh, path)
    except ClientDisconnect:
        return Response(status_code=204)
    except FileExistsError:
        raise SettingError(f"table: {name} already exists and was not overwritten; rename the new file") from None
    finally:
        fresh.unlink(missing_ok=True)
    return page(request, "said.html", sentences=[words])


async def _written(request: Request, path: Path) -> None:
    size = 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE), "wb") as file:
        async for part in request.stream():
            size += len(part)
            if size > MAX_UPLOAD_BYTES:
                raise SettingError(TOO_LARGE_MESSAGE)
            file.write(part)


def _require_room(said: str, folder: Path) -> None:
    """Refuse a declared size above the limit or the free disk space, before a byte is read."""
    size = int(said) if said.isdecimal() else 0
    if size > MAX_UPLOAD_BYTES:
        raise SettingError(TOO_LARGE_MESSAGE)
    if size > shutil.disk_usage(folder).free:
        raise SettingError("table: the disk has too little free space for the file; free some space and try again")


def _table_size_words(path: Path, name: str) -> str:
    """Say how many rows and columns the table has; raise an error if it is none."""
    from parley.data.headers import read_header  # with libraries that take their time

    try:
        header = read_header(path)
        require_names(header.columns)
    except DataError as error:
        raise SettingError(f"{name}: {str(error).removeprefix(str(path)).lstrip(': ')}") from None
    return f"{name}: {counted(header.rows, 'row')}, {counted(len(header.columns), 'column')}."


def show_tables(request: Request) -> Response:
    """List the folder's tables, with new ones selected."""
    studio = studio_of(request)
    return page(request, "tables.html", all_tables=studio.files(*TABLES), tables=request.query_params.getlist("table"))


ROUTES = [
    Route("/files", show),
    Route("/files/again/{name}", again),
    Route("/files/columns", columns, methods=["POST"]),
    Route("/files/make", make, methods=["POST"]),
    Route("/files/demo", demo, methods=["POST"]),
    Route("/files/bring", bring, methods=["POST"]),
    Route("/files/tables", show_tables),
]
