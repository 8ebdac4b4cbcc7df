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
# The others: DIR and FOLDER are made where they are missing, TERMS|HASH may be a hash, and the FILE of `owner backup`
# must not exist; `owner restore` and `certs show` look at theirs first.


def path_check(name: str, shown: str) -> Callable[[Path], None] | None:
    """What is asked of a path before the command runs, by the name of its parameter and what help shows for it."""
    if name in WRITTEN and shown not in ("DIR", "FOLDER"):
        return require_folder
    if name in READ_FILES or shown in READ:
        return require_file
    return None


def require_paths(ctx: Any) -> None:
    """Look at every path among the parameters of a command that is about to run; where a version of Typer does not say
    which are paths, the command itself finds what is missing."""
    for param in ctx.command.params:
        kind = getattr(getattr(param, "type", None), "name", None)
        check = path_check(param.name, param.metavar or "") if kind in ("path", "file", "directory") else None
        value = ctx.params.get(param.name)
        for path in value if isinstance(value, tuple | list) else (value,):
            if check is not None and path is not None:
                check(Path(path))
