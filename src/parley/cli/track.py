"""`--track`: keep a run where MLflow opens it."""

import os
from pathlib import Path
from typing import Annotated

import typer

from parley.errors import SettingError

Track = Annotated[
    Path | None,
    typer.Option(
        "--track",
        metavar="DIR",
        help="Keep this run in DIR as MLflow opens it: parameters, metrics, figures, the terms' hash, ends of ledgers.",
    ),
]


def require_store(folder: Path | None) -> None:
    """Refuse a folder of runs that could not be written to, before any work is done."""
    if folder is None:
        return
    above = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise SettingError(f"--track {folder}: is a file, or lies where this account may not write; expected a folder")
