"""Facts of files: their digests, and what tells one version of them from another."""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from parley.errors import DataError

READERS = 4  # files of a folder that are digested at once
Stamps = tuple[tuple[str, int, int, int], ...]


def file_digest(path: Path) -> bytes:
    """The SHA-256 of a file's bytes."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({type(error).__name__})") from None


def files_digest(kind: bytes, files: Sequence[Path]) -> bytes:
    """The SHA-256 of what a table is and of the digests of its files, in their order."""
    with ThreadPoolExecutor(READERS) as pool:
        return hashlib.sha256(kind + b"".join(pool.map(file_digest, files))).digest()


def stamped(files: tuple[Path, ...]) -> Stamps:
    """Name, size, time of change and place on the disk of every file."""
    try:
        facts = [(file.name, file.stat()) for file in files]
    except OSError as error:
        raise DataError(f"{files[0].parent}: its files cannot be looked at ({type(error).__name__})") from None
    return tuple((name, about.st_size, about.st_mtime_ns, about.st_ino) for name, about in facts)


@contextmanager
def discreet(where: Path | str, form: str = "") -> Iterator[None]:
    """What pyarrow says about a file may quote its cells."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise DataError(f"{where}: cannot be read{form and f' as {form}'} ({type(error).__name__})") from None
