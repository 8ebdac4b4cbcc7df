"""Locks on names of files that jobs will write, so that no two studios give one name twice.

The lock is an empty file beside the name, created with O_EXCL and locked until the last process of the job ends. A
killed job's lock is free and is taken over. Its content is never read or written, and links are not followed, so a
planted file can only make the studio refuse.
"""

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from parley.durable import PRIVATE_MODE, as_disk_errors
from parley.errors import SettingError

OUTPUT_OPTIONS = ("--write", "--save", "--out")  # options that name what a command writes
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def outputs(command: Sequence[str]) -> list[Path]:
    """Return the files that a command writes, by its options."""
    return [Path(value) for key, value in pairwise(command) if key in OUTPUT_OPTIONS]


def lock_of(file: Path) -> Path:
    """Return the lock file for a file's name."""
    return file.with_name(f".{file.name}.parley-lock")


@contextmanager
def claimed(files: Sequence[Path]) -> Iterator[list[int]]:
    """Lock the names of files that do not exist, for processes that inherit these descriptors; refuse names that are
    taken. The names are free again if starting fails."""
    held: list[int] = []
    try:
        for file in files:
            held.append(_claim(file))
            if os.path.lexists(file):  # after its name is held: the job that wrote it may just have ended
                raise SettingError(f"{file.name} already exists and was not overwritten; choose another name")
        yield held
    except BaseException:
        unclaim(files[: len(held)])
        raise
    finally:
        for descriptor in held:
            os.close(descriptor)


def unclaim(files: Sequence[Path]) -> None:
    """Remove the locks of names that the caller holds."""
    for file in files:
        with suppress(OSError):
            lock_of(file).unlink(missing_ok=True)


def is_claimed(file: Path) -> bool:
    """Return whether a job holds this name."""
    try:
        descriptor = os.open(lock_of(file), _OPEN_FLAGS)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # no lock of this account: who claims the name is told
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: who looks does not hold it
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _claim(file: Path) -> int:
    path = lock_of(file)
    while True:
        descriptor = _open_lock(file, path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.lstat()):
                    return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise SettingError(f"a running job is writing {file.name}; choose another name") from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the job that held it removed it meanwhile


def _open_lock(file: Path, path: Path) -> int:
    """Open the lock, or create it; refuse any other file, and leave it as it is."""
    with suppress(FileExistsError), as_disk_errors(path):
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_MODE)
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
        about = os.fstat(descriptor)
        if stat.S_ISREG(about.st_mode) and about.st_size == 0 and about.st_uid == os.geteuid():
            return descriptor
        os.close(descriptor)
    except FileNotFoundError:
        return _open_lock(file, path)
    except OSError:
        pass
    raise SettingError(
        f"{path.name} exists but is not a lock file of this account's studio. If no other program is "
        f"using {file.name}, remove {path.name}; otherwise choose another name"
    )
