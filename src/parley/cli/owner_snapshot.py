"""`parley owner snapshot`: copy a database query to a table that never changes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.errors import SettingError
from parley.numerals import counted
from parley.report.extras import extras
from parley.report.terminal import Terminal, console, print_json

if TYPE_CHECKING:
    from parley.data.sources.manifest import Manifest

URI = "Database address without a password: postgresql://USER@HOST:PORT/NAME, sqlite:FILE or duckdb:FILE."
QueryFile = Annotated[
    Path | None,
    typer.Option("--query-file", metavar="FILE", help="File with the SQL query, to use instead of --query."),
]
AskPassword = Annotated[
    bool, typer.Option("--ask-password", help="Ask for the database's password without displaying it.")
]


def snapshot_command(
    uri: Annotated[str, typer.Option("--uri", metavar="URI", help=URI)],
    order_by: Annotated[
        list[str],
        typer.Option(metavar="KEY", help="Column to sort rows by, which Parley treats as public. Repeatable."),
    ],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="New folder for the table.")],
    query: Annotated[
        str | None, typer.Option(metavar="SQL", help="An SQL query that returns one row per record.")
    ] = None,
    query_file: QueryFile = None,
    ask_password: AskPassword = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the manifest without its digest as one JSON object.")
    ] = False,
) -> None:
    """Copy the rows that a database query returns at one moment into a new folder of Parquet files.

    Each column has the type that the database declares or that the query casts to. The command sorts the rows by KEY
    and requires unique keys. An interrupted command leaves no files and cannot be resumed, so run the command again.

    Example:  parley owner snapshot --uri postgresql://anna@db/loans --query 'SELECT * FROM loans' --order-by id --to
    loans-2026-03
    """
    sql = query_text(query, query_file)
    if sql is None:
        raise SettingError("--query SQL, --query-file FILE: both are missing; give one of the two options")
    manifest, spreads = take_with_prompt(uri, sql, order_by, to, ask_password)
    if as_json:
        facts = {key: value for key, value in manifest.to_json().items() if key != "digest"}  # it would tell rows
        print_json({**facts, "spreads": list(spreads)}, inside=False)
        return
    console.print(
        f"{to}  {counted(manifest.rows, 'row')} of {counted(len(manifest.columns), 'column')}",
        markup=False,
        soft_wrap=True,
    )
    console.print(manifest.sentence(), markup=False, soft_wrap=True)
    console.print(
        f"Next: if the table already has a ledger, keep the ledger, set table = {str(to.resolve())!r} in "
        "owner.toml, and agree on new terms. Run parley owner init only if the table has no ledger.",
        style="dim",
        markup=False,
        soft_wrap=True,
    )


def query_text(query: str | None, file: Path | None) -> str | None:
    """Return the query as given or from its file; None without either."""
    if file is None:
        return query
    if query is not None:
        raise SettingError("--query SQL, --query-file FILE: both are given; give only one of the two options")
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise SettingError(
            f"--query-file {file}: cannot be read ({type(error).__name__}); expected a UTF-8 text file with one SQL "
            "query"
        ) from None


def take_with_prompt(
    uri: str, query: str, keys: Sequence[str], folder: Path, ask_password: bool
) -> "tuple[Manifest, tuple[str, ...]]":
    """Run `workflows.snapshot.take` at this terminal."""
    with extras():
        from parley.workflows.snapshot import take

        password = (lambda: str(typer.prompt("Password", hide_input=True, err=True))) if ask_password else None
        return take(uri, query, keys, folder, password, Terminal())
