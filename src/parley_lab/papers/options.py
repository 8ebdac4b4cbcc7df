"""Options that commands of several documents have, and where real data lie."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Listing = Annotated[bool, typer.Option("--list", help="Say what there is to show, and compute nothing.")]
Recorded = Annotated[bool, typer.Option("--record", help="Keep the result for the listing; needs a checkout.")]
Kind = Annotated[str, typer.Option("--format", metavar="KIND", help="Of pictures in that folder: png, svg or pdf.")]
Jobs = Annotated[int, typer.Option(help="Parallel processes.")]


def which(option: str, words: str) -> Any:
    """An option that names what to show; it may be repeated."""
    return typer.Option(f"--{option}", metavar="N", help=f"Which {option}: {words}; repeatable. Default: all.")


def data(files: str) -> Any:
    """The option that names the folder of real data."""
    return typer.Option("--data", metavar="DIR", help=f"Folder with {files}. Default: PARLEY_DATA.")


def out(what: str) -> Any:
    """The option that names the folder to write to, with what goes there."""
    return typer.Option("--out", metavar="DIR", help=what)


def data_folder(given: Path | None = None) -> Path | None:
    """Where real data lie: the folder given, else PARLEY_DATA, else nowhere."""
    if given is not None:
        return given
    return Path(os.environ["PARLEY_DATA"]) if "PARLEY_DATA" in os.environ else None
