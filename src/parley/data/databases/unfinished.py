"""A folder that is being written: this process's own, and gone if it does not come to its end."""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parley.durable import explained
from parley.errors import SettingError

ENDING = ".parley-unfinished"


@contextmanager
def unfinished_folder(folder: Path) -> Iterator[Path]:
    """An empty folder beside `folder`, for this account and process alone; gone afterwards unless it was renamed.

    What processes left beside it that were killed is removed before, whatever it was to become.
    """
    fresh = folder.with_name(f".{folder.name}{ENDING}")
    remove_abandoned(folder.parent)
    with explained(fresh):
        fresh.mkdir(mode=0o700, exist_ok=True)
        descriptor = _opened(fresh)
    try:
        _lock(descriptor, fresh)
        with explained(fresh):
            _require_own(descriptor, fresh)
            _empty(fresh)
        try:
            yield fresh
        finally:
            if _is(descriptor, fresh):
                shutil.rmtree(fresh)
    finally:
        os.close(descriptor)


@contextmanager
def sorting_folder(beside: Path) -> Iterator[str]:
    """Where a database may put rows that it sorts: a folder as above, beside this file or folder; nowhere ("") where
    nothing may be written there."""
    place = beside.absolute()
    if not os.access(place.parent, os.W_OK | os.X_OK):
        yield ""
        return
    with unfinished_folder(place.with_name(f"{place.name}.{secrets.token_hex(4)}")) as fresh:
        yield str(fresh)


def remove_abandoned(folder: Path) -> None:
    """Remove what processes of this account left in the folder that did not come to their end."""
    for left in folder.glob(f".*{ENDING}"):
        with suppress(OSError):  # a link, gone by now, of another account, or held by a process that is at it
            descriptor = _opened(left)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _is(descriptor, left):
                        shutil.rmtree(left)
            finally:
                os.close(descriptor)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _lock(descriptor: int, fresh: Path) -> None:
    """Hold the folder until the process ends, however it ends; refuse one that another process holds or held just
    now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SettingError(f"{fresh}: another snapshot is being written there; wait for its end") from None
    if not _is(descriptor, fresh):
        raise SettingError(f"{fresh}: another snapshot just ended there; repeat the command")


def _require_own(descriptor: int, fresh: Path) -> None:
    """Refuse a folder that another account made, who could change what is put there; nobody else enters this one."""
    if os.fstat(descriptor).st_uid != os.geteuid():
        raise SettingError(f"{fresh}: belongs to another account; remove it, or choose another place")
    os.fchmod(descriptor, 0o700)


def _empty(folder: Path) -> None:
    """Remove all that lies in the folder."""
    for left in folder.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def _is(descriptor: int, path: Path) -> bool:
    """Whether the path leads to what was opened."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
