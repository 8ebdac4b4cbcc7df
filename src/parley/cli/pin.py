"""`parley pin`: public numbers found once, for everybody."""

from pathlib import Path
from typing import Annotated

import typer

from parley.errors import SettingError
from parley.report.terminal import console, print_json
from parley.terms import load_terms, write_terms
from parley.terms.file import NOTES


def pins_beside(terms_file: Path) -> Path:
    """Where the numbers lie that terms written to this file pin."""
    return terms_file.with_suffix(".preparation.json")


def pin_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file, not yet accepted by anybody.")],
    write: Annotated[
        Path, typer.Option(metavar="TERMS2", help="Where the terms go that pin the numbers; their file lies beside it.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write the public numbers that terms lead to beside them, so that all parties use the same, whatever their
    machines are.

    Bounds, centres, scales, principal components, whitening and the points of a basis follow from the terms and the
    public sample; but where a sample spreads equally in several directions, machines find different ones. The new terms
    have another hash: everybody accepts them anew. Nothing is asked and nothing is spent.

    Example:  parley pin terms.toml --write pinned.toml
    """
    terms = load_terms(terms_file)
    if terms.model.public is None and terms.model.basis is None:
        raise SettingError(
            f"{terms_file}: nothing to pin: without a public sample or a basis the terms say every number themselves"
        )
    from parley.protocol.setup import pin

    file = pins_beside(write)
    pinned = pin(terms, file)
    write_terms(pinned, write, notes=NOTES)
    if as_json:
        print_json({"written": str(write), "pinned": str(file), "terms_hash": pinned.hash}, inside=False)
        return
    console.print(f"{write}  the terms, which pin public numbers: terms {pinned.hash[:16]}…", soft_wrap=True)
    console.print(f"{file}  the numbers: it travels with them", soft_wrap=True)
