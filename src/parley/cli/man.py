"""`parley man`: the manual pages of all commands."""

from pathlib import Path
from typing import Annotated

import typer

from parley.durable import make_folder
from parley.report.terminal import console


def man_command(
    to: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the pages go; those of an earlier version are replaced.")
    ],
) -> None:
    """Write the manual pages of all commands, for `man parley`, `man parley-train` and so on.

    Example:  parley man --to ~/.local/share/man/man1
    """
    from parley.cli.man_pages import man_pages

    make_folder(to)
    pages = man_pages()
    for name, text in pages.items():
        (to / name).write_text(text, encoding="utf-8")
    console.print(f"{to}  {len(pages)} pages; man {to / 'parley.1'} shows the first", soft_wrap=True)
