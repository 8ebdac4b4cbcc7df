"""Files and folders of one party: private to its account, and after a crash either old or new as a whole; and addresses
of object stores."""

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from parley.errors import DiskError, SettingError, StateFolderError

PRIVATE_MODE = 0o600  # for its owner alone
DEFAULT_MODE = 0o666  # less what the account takes away (umask)
TEMPORARY_FOLDERS = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - nothing is kept there
Version = tuple[int, int, int] | None

_SET_STATE = "set PARLEY_STATE to a permanent folder that this account can write to"

_ADDRESS = re.compile(r"(s3|gs|abfss?):/{1,2}(?=[^/])", re.ASCII)


def store_address(place: str | Path) -> str | None:
    """Return the object store's address, or None for a local path. A `Path` of an address has lost one of its slashes.

    >>> store_address("s3://bucket/loans.csv"), store_address(Path("s3://bucket/loans.csv")), store_address("loans.csv")
    ('s3://bucket/loans.csv', 's3://bucket/loans.csv', None)
    """
    start = _ADDRESS.match(str(place))
    return None if start is None else f"{start[1]}://{str(place)[start.end() :]}"


def resolved_against(folder: Path, place: str) -> str:
    """Return a path resolved against `folder`, and an address unchanged."""
    return store_address(place) or str(folder / place)


def write_file(path: str | Path, content: str | bytes) -> None:
    """Replace a file that the user named by `content` (see `replacing`)."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file that the user named for writing. Afterwards it is whole and on the disk, or (a `DiskError`)
    unchanged. An existing file keeps its permissions; pipes and devices are written directly."""
    named, place = Path(path), Path(path).resolve()
    with as_disk_errors(named):
        if place.exists() and not place.is_file():
            with place.open("wb") as file:
                yield file
            return
        mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else None
        with _replaced(place, DEFAULT_MODE if mode is None else mode, lasting=True) as file:
            yield file
        if mode is not None:
            place.chmod(mode)  # whatever the account takes away from new files


def replace_text(path: Path, text: str, mode: int = PRIVATE_MODE, lasting: bool = True) -> None:
    """Replace the file by `text`; it is on the disk on return, unless not `lasting`."""
    replace_bytes(path, text.encode(), mode, lasting)


def replace_bytes(path: Path, content: bytes, mode: int = PRIVATE_MODE, lasting: bool = True) -> None:
    """Replace the file by `content`, as `replace_text` does."""
    with as_disk_errors(path), _replaced(path, mode, lasting) as file:
        file.write(content)


@contextmanager
def _replaced(path: Path, mode: int, lasting: bool) -> Iterator[IO[bytes]]:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)  # left by a crash of an earlier process with this number
    with _created(fresh, mode, lasting) as file:
        yield file
    try:
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if lasting:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the folder's list of files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create(path: Path, content: bytes, mode: int = PRIVATE_MODE, lasting: bool = True) -> None:
    """Create a file with these permissions from its first byte (else FileExistsError). Afterwards it is on the disk, or
    (a `DiskError`) absent."""
    with as_disk_errors(path), _created(path, mode, lasting) as file:
        file.write(content)


@contextmanager
def _created(path: Path, mode: int, lasting: bool) -> Iterator[IO[bytes]]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if lasting:
                os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


@contextmanager
def as_disk_errors(path: Path) -> Iterator[None]:
    """Turn system errors about writing this file into a `DiskError`; FileExistsError passes."""
    try:
        yield
    except (FileExistsError, DiskError):
        raise
    except OSError as error:
        raise disk_error(path, error) from None


def disk_is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def disk_error(path: Path, error: OSError) -> DiskError:
    """Return an error that says what went wrong with a file, and what to do."""
    full = disk_is_full(error)
    reason = "the disk is full" if full else error.strerror or type(error).__name__
    failure = DiskError(
        f"{path}: cannot be written ({reason}){'; free some space and run the command again' if full else ''}"
    )
    failure.errno, failure.strerror, failure.filename = error.errno, reason, str(path)
    return failure


def create_once(path: Path, content: bytes) -> bytes:
    """Return a private file's content, created atomically with `content` if missing; all who race get the same."""
    if not path.exists():
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        with as_disk_errors(path):
            create(fresh, content)
            try:
                os.link(fresh, path)
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
            sync_folder(path.parent)
    return path.read_bytes()


def make_folder(path: Path) -> None:
    """Create the folder and missing parents, for this account alone."""
    if not path.exists():
        make_folder(path.parent)
        with as_disk_errors(path):
            path.mkdir(mode=0o700, exist_ok=True)


def state_folder(*parts: str, lasting: bool = False) -> Path:
    """Create and return the folder where this account's programs keep their state, or one inside it.

    It is `PARLEY_STATE`, else `parley` in `XDG_STATE_HOME`, else `~/.local/state/parley`. New folders have mode 0700. A
    `StateFolderError` refuses links, folders of another account and folders that other accounts may write to, from the
    state folder down. If the state must be `lasting`, it also refuses a home in a folder for temporary files.
    """
    folder = _state_root()
    if (
        lasting
        and not os.environ.get("PARLEY_STATE")
        and any(folder.is_relative_to(place) for place in TEMPORARY_FOLDERS)
    ):
        raise StateFolderError(
            f"{folder}: the state folder is in a temporary folder, where Parley could lose its state; {_SET_STATE}"
        )
    for part in ("", *parts):
        folder /= part
        try:
            if not folder.is_symlink():
                make_folder(folder)
            about = folder.lstat()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StateFolderError(f"{folder}: the state folder cannot be created ({reason}); {_SET_STATE}") from None
        _require_own_folder(folder, about)
    return folder


def _state_root() -> Path:
    named = os.environ.get("PARLEY_STATE", "")
    if named and not Path(named).is_absolute():
        raise StateFolderError(f"PARLEY_STATE = {named!r}: expected an absolute path")
    if named:
        return Path(named)
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    if base.is_absolute():  # the XDG specification ignores relative ones
        return base / "parley"
    try:
        return Path.home() / ".local" / "state" / "parley"
    except RuntimeError:
        raise StateFolderError(f"this account has no home folder for Parley's state; {_SET_STATE}") from None


def _require_own_folder(folder: Path, about: os.stat_result) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise StateFolderError(
            f"{folder}: the state folder is a link; set PARLEY_STATE to the folder that the link points to"
        )
    if not stat.S_ISDIR(about.st_mode):
        raise StateFolderError(
            f"{folder}: expected a folder, found a file; move the file away or set PARLEY_STATE to a folder"
        )
    if about.st_uid != os.geteuid():
        raise StateFolderError(
            f"{folder}: the folder belongs to another account (user {about.st_uid}); set PARLEY_STATE to a folder of "
            f"this account (user {os.geteuid()})"
        )
    if about.st_mode & 0o022:
        raise StateFolderError(
            f"{folder}: other accounts can write to this folder; to prevent this, run chmod go-w {folder}"
        )


def exposed(path: Path) -> bool:
    """Whether accounts other than the file's owner may read or change it."""
    return path.stat().st_mode & 0o077 != 0


def file_version(path: Path | None) -> Version:
    """Return what identifies a version of a file; None without a file."""
    try:
        about = None if path is None else path.stat()
    except OSError:
        return None
    return None if about is None else (about.st_mtime_ns, about.st_size, about.st_ino)


def require_file(place: Path) -> None:
    """Refuse a missing file or folder before any work; object stores are checked when read."""
    if store_address(place) is None and not place.exists():
        raise SettingError(f"{place}: no such file or folder; check the name")


def why_not_writable(beside: Path, size: int = 1 << 20) -> str | None:
    """Return why this many bytes cannot be written beside a file now; None if they can."""
    trial = beside.with_name(f".{beside.name}.room.{os.getpid()}.{threading.get_ident()}")
    try:
        descriptor = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_MODE)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)
            trial.unlink()
    except OSError as error:
        return "the disk is full" if disk_is_full(error) else error.strerror or type(error).__name__
    return None


def require_store(folder: Path | None) -> None:
    """Refuse a folder of runs that cannot be written to, before any work."""
    if folder is None:
        return
    above = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise SettingError(f"--track {folder}: expected a folder that this account can write to; choose another folder")


def require_folder(file: Path | None) -> None:
    """Refuse an output file that cannot be written, before any work."""
    if file is None:
        return
    folder, there = file.resolve().parent, file.exists()
    if not folder.is_dir():
        raise SettingError(f"{file}: the folder of this file does not exist; create the folder first")
    if file.is_dir():
        raise SettingError(f"{file}: expected a file, found a folder; give the name of a file")
    plain = not there or file.is_file()  # which is replaced, not written to
    if (there and not os.access(file, os.W_OK)) or (plain and not os.access(folder, os.W_OK)):
        raise SettingError(f"{file}: this account cannot write this file; choose a file in another folder")


UNFINISHED = ".parley-unfinished"


@contextmanager
def unfinished_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside `folder`, for this account and process alone; it is removed unless renamed.

    Leftovers of killed processes beside it are removed first.
    """
    fresh = folder.with_name(f".{folder.name}{UNFINISHED}")
    remove_abandoned(folder.parent)
    with as_disk_errors(fresh):
        fresh.mkdir(mode=0o700, exist_ok=True)
        descriptor = _opened(fresh)
    try:
        _lock(descriptor, fresh)
        with as_disk_errors(fresh):
            _require_own(descriptor, fresh)
            _empty(fresh)
        try:
            yield fresh
        finally:
            if _still_leads_to(descriptor, fresh):
                shutil.rmtree(fresh)
    finally:
        os.close(descriptor)


@contextmanager
def sorting_folder(beside: Path) -> Iterator[str]:
    """Yield a temporary folder beside this place for a database to sort in; "" if nothing may be written there."""
    place = beside.absolute()
    if not os.access(place.parent, os.W_OK | os.X_OK):
        yield ""
        return
    with unfinished_folder(place.with_name(f"{place.name}.{secrets.token_hex(4)}")) as fresh:
        yield str(fresh)


def remove_abandoned(folder: Path) -> None:
    """Remove unfinished folders that killed processes of this account left here."""
    for abandoned in folder.glob(f".*{UNFINISHED}"):
        with suppress(OSError):  # a link, gone by now, of another account, or held by a process that is at it
            descriptor = _opened(abandoned)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _still_leads_to(descriptor, abandoned):
                        shutil.rmtree(abandoned)
            finally:
                os.close(descriptor)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _lock(descriptor: int, fresh: Path) -> None:
    """Hold the folder until the process ends; refuse one that another process holds or just finished."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SettingError(
            f"{fresh}: another snapshot is being written at this path; wait until it is complete"
        ) from None
    if not _still_leads_to(descriptor, fresh):
        raise SettingError(f"{fresh}: another snapshot has just finished at this path; run the command again")


def _require_own(descriptor: int, fresh: Path) -> None:
    """Refuse a folder of another account, who could change its content; close it to others."""
    if os.fstat(descriptor).st_uid != os.geteuid():
        raise SettingError(
            f"{fresh}: this temporary folder belongs to another account; remove the folder, or choose another name for "
            "the snapshot"
        )
    os.fchmod(descriptor, 0o700)


def _empty(folder: Path) -> None:
    for left in folder.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def _still_leads_to(descriptor: int, path: Path) -> bool:
    """Whether the path leads to the opened file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
