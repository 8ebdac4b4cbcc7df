"""`parley owner snapshot`: from a database to a table that stays as it is."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from parley.errors import SettingError
from parley.numerals import counted
from parley.report.extras import extras
from parley.report.terminal import console, print_json, progress_bar, warn

if TYPE_CHECKING:
    from parley.data.sources.manifest import Manifest

URI = "Database: postgresql://USER@HOST:PORT/NAME, sqlite:FILE or duckdb:FILE; without password."
QueryFile = Annotated[
    Path | None, typer.Option("--query-file", metavar="FILE", help="A file with the query, instead of --query.")
]
AskPassword = Annotated[bool, typer.Option("--ask-password", help="Ask for the database's password, without echo.")]


def snapshot_command(
    uri: Annotated[str, typer.Option("--uri", metavar="URI", help=URI)],
    order_by: Annotated[
        list[str], typer.Option(metavar="KEY", help="Column that orders the rows; it counts as public. Repeatable.")
    ],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the table; must not exist.")],
    query: Annotated[str | None, typer.Option(metavar="SQL", help="The query; one row per record.")] = None,
    query_file: QueryFile = None,
    ask_password: AskPassword = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the manifest without its digest as one JSON object.")
    ] = False,
) -> None:
    """Copy the rows of a query, as of one moment, from a database into a folder of Parquet files that never changes.

    Types are those that the database declares or the query casts to. Rows are in the order of KEY, and no two keys may
    be equal. If the command ends early, nothing is left; it is never resumed.

    Example:  parley owner snapshot --uri postgresql://anna@db/loans --query 'SELECT * FROM loans' --order-by id --to
    loans-2026-03
    """
    asked = query_text(query, query_file)
    if asked is None:
        raise SettingError("--query SQL or --query-file FILE: expected one of the two")
    manifest, spreads = take(uri, asked, order_by, to, ask_password)
    if as_json:
        told = {key: value for key, value in manifest.to_json().items() if key != "digest"}  # it would tell rows
        print_json({**told, "spreads": list(spreads)}, inside=False)
        return
    console.print(
        f"{to}  {counted(manifest.rows, 'row')} of {counted(len(manifest.columns), 'column')}",
        markup=False,
        soft_wrap=True,
    )
    console.print(manifest.sentence(), markup=False, soft_wrap=True)
    console.print(
        f"Next: if the table already has a ledger, keep it: set table = {str(to.resolve())!r} in its owner.toml and "
        "agree on new terms. Only a table without a ledger gets one: parley owner init",
        style="dim",
        markup=False,
        soft_wrap=True,
    )


def query_text(query: str | None, file: Path | None) -> str | None:
    """The query, as it was given or as it stands in a file; None where there is neither."""
    if file is None:
        return query
    if query is not None:
        raise SettingError("--query SQL or --query-file FILE: expected one of the two")
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise SettingError(f"--query-file {file}: cannot be read ({type(error).__name__}); expected SQL") from None


def take(
    uri: str, query: str, keys: Sequence[str], folder: Path, ask_password: bool
) -> "tuple[Manifest, tuple[str, ...]]":
    """(the manifest of the snapshot that was taken; what in the query brings people's rows together, which was warned
    of)."""
    from parley.data.databases import Request, open_database, take_snapshot
    from parley.data.databases.database import require_no_password

    require_no_password(uri)
    password = typer.prompt("Password", hide_input=True, err=True) if ask_password else None
    request = Request(query, tuple(keys))
    with (
        extras(),
        stopped_tidily(),
        open_database(uri, password, folder) as database,
        progress_bar("taking rows") as progress,
    ):
        if not database.tried:
            warn("This kind of database should work but was never tried: check the result.")
        if request.unstable:
            warn(
                f"The query calls {', '.join(f'{name}()' for name in request.unstable)}. Such a key puts people in "
                f"other places in the next snapshot: order by a stored column."
            )
        plan = database.plan(request)
        manifest = take_snapshot(database, request, folder, progress, plan.rows)
    if plan.spreads:
        warn(
            f"The query holds {', '.join(plan.spreads)}. So one person may have several rows, or a row may be about "
            f"several people. The promise covers one person's rows, at most as many as the terms say. Check this."
        )
    return manifest, plan.spreads


@contextmanager
def stopped_tidily() -> Iterator[None]:
    """Being told to stop (SIGTERM, SIGHUP) ends this block as Ctrl-C does, so that nothing of it is left."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
