"""Facts of files: their digests, and what tells one version of them from another."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from parley.errors import DataError

Stamp = tuple[Hashable, ...]

PIECE = 1 << 20  # bytes that are read at a time


class DataFile(ABC):
    """A file that a table lies in, wherever that is."""

    @property
    @abstractmethod
    def where(self) -> str:
        """What messages call it."""

    @property
    def name(self) -> str:
        """The last part of that."""
        return self.where.rpartition("/")[2]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences that whoever accepts terms for its table should read, of where it lies."""
        return ()

    @abstractmethod
    def stamp(self) -> Stamp:
        """What tells this version of the file from another one."""

    @abstractmethod
    def size(self) -> int:
        """How many bytes it has."""

    @abstractmethod
    def opened(self) -> pa.NativeFile:
        """Its bytes, at any place."""

    @abstractmethod
    def is_folder(self) -> bool:
        """Whether files lie below it."""

    @abstractmethod
    def below(self) -> "list[DataFile]":
        """All files in this folder and in those below it."""

    def digest(self) -> bytes:
        """The SHA-256 of its bytes."""
        found = hashlib.sha256()
        with discreet(self.where), self.opened() as file:
            while piece := file.read(PIECE):
                found.update(piece)
        return found.digest()


@dataclass(frozen=True)
class LocalFile(DataFile):
    """A file of this machine."""

    path: Path

    @property
    def where(self) -> str:
        return str(self.path)

    def stamp(self) -> Stamp:
        """Name, size, time of change and place on the disk."""
        try:
            about = self.path.stat()
        except OSError as error:
            raise DataError(f"{self.path.parent}: its files cannot be looked at ({type(error).__name__})") from None
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
    """The SHA-256 of a file's bytes."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({type(error).__name__})") from None


@contextmanager
def discreet(where: Path | str, form: str = "") -> Iterator[None]:
    """What pyarrow says about a file may quote its cells."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise DataError(f"{where}: cannot be read{form and f' as {form}'} ({type(error).__name__})") from None
