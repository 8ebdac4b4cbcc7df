"""Object stores: tables at addresses such as s3://bucket/loans (also gs:// and abfs://).

Who may read them is known to the environment or to the machine alone (AWS_ACCESS_KEY_ID, an instance's role, ...): an
address that holds a key is refused, and no key is kept, pickled or quoted here.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.fs as arrow_fs

from parley.data.sources.files import DataFile, Stamp, discreet
from parley.errors import DataError

UNTRIED = "of object stores only S3 has been tried here: look at what comes of it"
PATIENCE = timedelta(seconds=20)  # for a store that does not answer
_ADDRESS = re.compile(r"(s3|gs|abfss?)://([^/]+)(/.*)?", re.DOTALL)


@dataclass(frozen=True)
class StoredFile(DataFile):
    """An object of a store, or all objects below an address."""

    address: str

    def __post_init__(self) -> None:
        parts = _ADDRESS.fullmatch(self.address)
        if parts is None:
            raise DataError("an object store's address: expected one such as s3://bucket/folder/loans.parquet")
        keyed = ":" in parts[2] or ("@" in parts[2] and not parts[1].startswith("abfs"))  # abfs://container@account
        if keyed or "?" in self.address:
            raise DataError(
                f"{_plain(self.address)}: an address holds no keys and no options; credentials come from the "
                f"environment or the machine's own role"
            )

    @property
    def where(self) -> str:
        return self.address

    @property
    def remarks(self) -> tuple[str, ...]:
        return () if self.address.startswith("s3:") else (f"The table lies at {self.address}; {UNTRIED}.",)

    @contextmanager
    def _discreet(self) -> Iterator[None]:
        """What a store says becomes one sentence of ours, with a note where nobody has tried its kind."""
        try:
            with discreet(self.where):
                yield
        except DataError as error:
            raise (DataError(f"{error}; {UNTRIED}") if self.remarks else error) from None

    def stamp(self) -> Stamp:
        """Address, size and ETag: whoever writes an object gives it a new one."""
        with self._discreet(), self.opened() as file:
            about: dict[str, Any] = file.metadata() or {}
            tag = about.get("ETag")
            if not tag:
                raise DataError(f"{self.where}: its store gives no ETag, so that nobody would notice a change")
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
            raise DataError(f"{self.where}: no such table")
        return bool(kind is arrow_fs.FileType.Directory)

    def below(self) -> list[DataFile]:
        with self._discreet():
            store, path = _store(self.address)
            found = store.get_file_info(arrow_fs.FileSelector(path, recursive=True))
        start = self.address.rstrip("/")
        return [StoredFile(start + f.path[len(path) :]) for f in found if f.type is arrow_fs.FileType.File]


def _plain(address: str) -> str:
    """An address without what may be a key."""
    return re.sub(r"://.*@", "://", address).partition("?")[0]


def _store(address: str) -> tuple[arrow_fs.FileSystem, str]:
    """(the store, the path in it)."""
    scheme, _, path = address.partition("://")
    path = path.rstrip("/")
    if scheme == "s3":
        return _s3(path.partition("/")[0], _endpoint()), path
    if scheme == "gs":
        return arrow_fs.GcsFileSystem(retry_time_limit=PATIENCE), path
    store, found = arrow_fs.FileSystem.from_uri(address)
    return store, found.rstrip("/")


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


@lru_cache(maxsize=8)
def _s3(bucket: str, endpoint: str | None) -> arrow_fs.FileSystem:
    """Where a bucket lies: by the environment, else by asking for its region."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = arrow_fs.resolve_s3_region(bucket)
    return arrow_fs.S3FileSystem(endpoint_override=endpoint, region=region)
