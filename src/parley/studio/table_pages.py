"""Tables that somebody brings to the From files tab. Of cells nothing is shown."""

import os
import secrets
import shutil
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from parley.durable import PRIVATE, explained
from parley.errors import DataError, SettingError
from parley.numerals import counted
from parley.studio.interview_form import require_names
from parley.studio.pages import TABLES, page, studio_of

LARGEST = 2 << 30  # bytes of a table that is brought by a browser; larger ones are put into the folder


async def bring(request: Request) -> Response:
    """Write a table to a new file of the folder: whole, readable by its owner alone, or not at all."""
    studio = studio_of(request)
    name = request.query_params.get("name", "")
    if not studio.brings:
        raise SettingError("tables are brought on this machine alone: nothing encrypts them on their way here")
    if Path(name).name != name or name.startswith(".") or Path(name).suffix.lower() not in TABLES:
        raise SettingError(f"table: expected the name of a file that ends in {' or '.join(TABLES)}")
    path = studio.new(name, "table")
    _require_room(request.headers.get("content-length", ""), path.parent)
    fresh = path.with_name(f".brought-{secrets.token_hex(4)}-{name}")
    try:
        with explained(path):
            await _written(request, fresh)
        words = await run_in_threadpool(_words, fresh, name)
        os.link(fresh, path)
    except ClientDisconnect:
        return Response(status_code=204)
    except FileExistsError:
        raise SettingError(f"table: {name} exists; nothing is overwritten") from None
    finally:
        fresh.unlink(missing_ok=True)
    return page(request, "said.html", sentences=[words])


async def _written(request: Request, path: Path) -> None:
    size = 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
        async for part in request.stream():
            size += len(part)
            if size > LARGEST:
                raise SettingError("table: too large for a browser to bring; put the file into the folder")
            file.write(part)


def _require_room(said: str, folder: Path) -> None:
    """Refuse what is said to be larger than may be brought, or than the disk has room for, before a byte is read."""
    size = int(said) if said.isdecimal() else 0
    if size > LARGEST:
        raise SettingError("table: too large for a browser to bring; put the file into the folder")
    if size > shutil.disk_usage(folder).free:
        raise SettingError("table: the disk has no room for it")


def _words(path: Path, name: str) -> str:
    """How many rows and columns it has, as terms would say in public; refused where it is no table."""
    from parley.data.headers import read_header  # with libraries that take their time

    try:
        header = read_header(path)
        require_names(header.columns)
    except DataError as error:
        raise SettingError(f"{name}: {str(error).removeprefix(str(path)).lstrip(': ')}") from None
    return f"{name}: {counted(header.rows, 'row')}, {counted(len(header.columns), 'column')}."


def tables(request: Request) -> Response:
    """The folder's tables to choose from, those just brought chosen."""
    studio = studio_of(request)
    return page(request, "tables.html", all_tables=studio.files(*TABLES), tables=request.query_params.getlist("table"))


ROUTES = [
    Route("/files/bring", bring, methods=["POST"]),
    Route("/files/tables", tables),
]
