"""Files and their versions, on this machine or in object stores such as s3://bucket/loans (also gs:// and abfs://).

Credentials stay in the environment or the machine (AWS_ACCESS_KEY_ID, an instance's role, ...). An address that holds a
key is refused, and no key is kept, pickled or quoted here.
"""

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as arrow_fs

from parley.errors import DataError

Stamp = tuple[Hashable, ...]

READ_BYTES = 1 << 20  # bytes that are read at a time


class DataFile(ABC):
    """A file of a table, here or in a store."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Its name in messages."""

    @property
    def name(self) -> str:
        """The last part of `where`."""
        return self.where.rpartition("/")[2]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about its place that whoever accepts terms should read."""
        return ()

    @abstractmethod
    def stamp(self) -> Stamp:
        """Return what identifies this version of the file."""

    @abstractmethod
    def size(self) -> int:
        """Return its size in bytes."""

    @abstractmethod
    def opened(self) -> pa.NativeFile:
        """Open it for reading at any position."""

    @abstractmethod
    def is_folder(self) -> bool:
        """Whether files lie below it."""

    @abstractmethod
    def below(self) -> "list[DataFile]":
        """Return all files in this folder and its subfolders."""

    def digest(self) -> bytes:
        """Return the SHA-256 of its bytes."""
        hasher = hashlib.sha256()
        with discreet(self.where), self.opened() as file:
            while piece := file.read(READ_BYTES):
                hasher.update(piece)
        return hasher.digest()


@dataclass(frozen=True)
class LocalFile(DataFile):
    """A file of this machine."""

    path: Path

    @property
    def where(self) -> str:
        return str(self.path)

    def stamp(self) -> Stamp:
        """Return name, size, time of change and inode."""
        try:
            about = self.path.stat()
        except OSError as error:
            raise DataError(
                f"{self.path.parent}: the files in this folder cannot be read ({type(error).__name__})"
            ) from None
        return self.path.name, about.st_size, about.st_mtime_ns, about.st_ino

    def size(self) -> int:
        return self.path.stat().st_size

    def opened(self) -> pa.NativeFile:
        return pa.OSFile(str(self.path))

    def is_folder(self) -> bool:
        return self.path.is_dir()

    def below(self) -> list[DataFile]:
        return [LocalFile(Path(folder, name)) for folder, _, names in os.walk(self.path) for name in names]

    def digest(self) -> bytes:
        return file_digest(self.path)


def file_digest(path: Path) -> bytes:
    """Return the SHA-256 of a file's bytes."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({type(error).__name__})") from None


@contextmanager
def discreet(where: Path | str, form: str = "") -> Iterator[None]:
    """Hide what pyarrow says about a file: it may quote cells."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise DataError(f"{where}: cannot be read{form and f' as {form}'} ({type(error).__name__})") from None


UNTRIED_NOTE = "Parley is tested with S3 only: check the result"
STORE_TIMEOUT = timedelta(seconds=20)  # for a store that does not answer
_ADDRESS = re.compile(r"(s3|gs|abfss?)://([^/]+)(/.*)?", re.DOTALL)


@dataclass(frozen=True)
class StoredFile(DataFile):
    """An object of a store, or all objects below an address."""

    address: str

    def __post_init__(self) -> None:
        parts = _ADDRESS.fullmatch(self.address)
        if parts is None:
            raise DataError("expected an object store's address, such as s3://bucket/folder/loans.parquet")
        keyed = ":" in parts[2] or ("@" in parts[2] and not parts[1].startswith("abfs"))  # abfs://container@account
        if keyed or "?" in self.address:
            raise DataError(
                f"{_plain(self.address)}: an address must not contain keys or options; pass credentials in environment "
                "variables or through the machine's role"
            )

    @property
    def where(self) -> str:
        return self.address

    @property
    def remarks(self) -> tuple[str, ...]:
        return () if self.address.startswith("s3:") else (f"The table is at {self.address}; {UNTRIED_NOTE}.",)

    @contextmanager
    def _discreet(self) -> Iterator[None]:
        """Replace a store's error by one sentence, with a note for untried stores."""
        try:
            with discreet(self.where):
                yield
        except DataError as error:
            raise (DataError(f"{error}; {UNTRIED_NOTE}") if self.remarks else error) from None

    def stamp(self) -> Stamp:
        """Return address, size and ETag, which every write changes."""
        with self._discreet(), self.opened() as file:
            about: dict[str, Any] = file.metadata() or {}
            tag = about.get("ETag")
            if not tag:
                raise DataError(
                    f"{self.where}: the object store returns no ETag, so a change would go unnoticed; use a store that "
                    "returns ETags"
                )
            return self.address, file.size(), bytes(tag)

    def size(self) -> int:
        with self._discreet(), self.opened() as file:
            return int(file.size())

    def opened(self) -> pa.NativeFile:
        store, path = _store(self.address)
        return store.open_input_file(path)

    def is_folder(self) -> bool:
        with self._discreet():
            store, path = _store(self.address)
            kind = store.get_file_info(path).type
        if kind is arrow_fs.FileType.NotFound:
            raise DataError(f"{self.where}: no such table; check the address")
        return bool(kind is arrow_fs.FileType.Directory)

    def below(self) -> list[DataFile]:
        with self._discreet():
            store, path = _store(self.address)
            entries = store.get_file_info(arrow_fs.FileSelector(path, recursive=True))
        start = self.address.rstrip("/")
        return [StoredFile(start + f.path[len(path) :]) for f in entries if f.type is arrow_fs.FileType.File]


def _plain(address: str) -> str:
    """Return an address without anything that may be a key."""
    return re.sub(r"://.*@", "://", address).partition("?")[0]


def _store(address: str) -> tuple[arrow_fs.FileSystem, str]:
    """Return (the store, the path in it)."""
    scheme, _, path = address.partition("://")
    path = path.rstrip("/")
    if scheme == "s3":
        return _s3(path.partition("/")[0], _endpoint()), path
    if scheme == "gs":
        return arrow_fs.GcsFileSystem(retry_time_limit=STORE_TIMEOUT), path
    store, inner_path = arrow_fs.FileSystem.from_uri(address)
    return store, inner_path.rstrip("/")


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


@lru_cache(maxsize=8)
def _s3(bucket: str, endpoint: str | None) -> arrow_fs.FileSystem:
    """Return the store of a bucket, by the environment's region, else by asking for it."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = arrow_fs.resolve_s3_region(bucket)
    return arrow_fs.S3FileSystem(endpoint_override=endpoint, region=region)
