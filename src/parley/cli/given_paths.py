"""Files and folders that a command is given: what it reads must be there and what it writes must have a place, before
its libraries are loaded and any work is done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from parley.durable import require_file, require_folder

# by what help shows for them
READ = {
    "ADDRESSES",
    "CERTIFICATE",
    "FILES...",
    "FOLDER|TERMS",
    "HOST",
    "JSON",
    "MODEL",
    "OWNER",
    "REQUEST",
    "ROWS",
    "TABLE",
    "TERMS",
    "TERMS|MODEL",
    "TOML",
}
# by their names, which say more than FILE
READ_FILES = {"certificate", "points", "preparation", "public", "query_file", "table"}
WRITTEN = {"agreement", "checkpoint", "out", "plot", "plot_owners", "report", "save", "save_own", "shapes", "write"}
# DIR and FOLDER are made where they are missing, or looked into by the command; a FILE argument is that of
# `owner backup`, which must not exist, of `owner restore` or of `certs show`, which are quick to look


def path_check(name: str, shown: str) -> Callable[[Path], None] | None:
    """What is asked of a path before the command runs, by the name of its parameter and what help shows for it."""
    if name in WRITTEN and shown not in ("DIR", "FOLDER"):
        return require_folder
    if name in READ_FILES or shown in READ:
        return require_file
    return None


def checked_value(ctx: Any, param: Any, value: Any) -> Any:
    """A parameter's own value, after a look at every path in it."""
    if (check := path_check(param.name, param.metavar or "")) is not None:
        for each in value if isinstance(value, tuple | list) else () if value is None else (value,):
            check(Path(each))
    return value
