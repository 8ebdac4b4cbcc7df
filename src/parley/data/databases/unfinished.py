"""A folder that is being written: this process's own, and gone if it does not come to its end."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.durable import explained
from parley.errors import SettingError


@contextmanager
def unfinished_folder(folder: Path) -> Iterator[Path]:
    """An empty folder beside `folder`, for this account and process alone; gone afterwards unless it was renamed.

    What a process left there that was killed is removed before.
    """
    fresh = folder.with_name(f".{folder.name}.parley-unfinished")
    with explained(fresh):
        fresh.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _lock(descriptor, fresh)
        for left in fresh.iterdir():
            left.unlink()
        try:
            yield fresh
        finally:
            if _is(descriptor, fresh):
                shutil.rmtree(fresh)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, fresh: Path) -> None:
    """Hold the folder until the process ends, however it ends; refuse one that another process holds or held just
    now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SettingError(f"{fresh}: another snapshot is being written there; wait for its end") from None
    if not _is(descriptor, fresh):
        raise SettingError(f"{fresh}: another snapshot just ended there; repeat the command")


def _is(descriptor: int, path: Path) -> bool:
    """Whether the path leads to what was opened."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
