"""Tables in memory: data frames, which declare dtypes, and small text files, which declare names alone: their cells
stay text until each is converted by itself."""

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from parley.data.sources.files import file_digest
from parley.data.sources.source import TableSource
from parley.durable import file_version
from parley.errors import DataError


class HeldTable(TableSource):
    """A table in memory: later changes of its file change no row."""

    @property
    @abstractmethod
    def held(self) -> pd.DataFrame:
        """All rows as a data frame."""

    @cached_property
    def example(self) -> pd.DataFrame:
        return self.held.iloc[:0]

    def __len__(self) -> int:
        return len(self.held)

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        return self.held

    def require_unchanged(self) -> None:
        """Do nothing: all rows were read when the table was opened."""


class FrameTable(HeldTable):
    """The rows of a data frame, numbered from its first, under names that are text."""

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__()
        self._held = frame.reset_index(drop=True)
        if not all(type(name) is str for name in frame.columns):  # once a run in studies: pandas takes long
            self._held.columns = frame.columns.map(str)

    @property
    def held(self) -> pd.DataFrame:
        return self._held

    def digest(self) -> bytes:
        """Return a digest of the cells and of the columns' names and types."""
        frame = self._held
        names = "\n".join(f"{column!r} {kind}" for column, kind in zip(frame.columns, frame.dtypes, strict=True))
        rows = pd.util.hash_pandas_object(frame, index=False).to_numpy(dtype=np.uint64)
        return hashlib.sha256(b"frame" + names.encode() + b"\n" + rows.astype("<u8").tobytes()).digest()


class TextFile(HeldTable):
    """A text file, held in memory once read; subclasses say how lines become cells."""

    form: ClassVar[str]  # what messages call it
    path: Path

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._version = file_version(path)

    @abstractmethod
    def parsed(self) -> pd.DataFrame:
        """Return all cells as text: guessing a type would let one cell change how all others are read."""

    @cached_property
    def held(self) -> pd.DataFrame:
        return self._read()

    def _read(self) -> pd.DataFrame:
        try:
            return self.parsed()
        except DataError:
            raise
        except Exception as error:  # there are many kinds, and their texts may quote cells
            raise DataError(f"{self.path}: cannot be read as {self.form} ({type(error).__name__})") from None

    def digest(self) -> bytes:
        """Return a digest of its file's bytes, read before and after the rows: it covers the rows held."""
        before, known = file_digest(self.path), vars(self).get("held")
        rows = self._read()
        if file_digest(self.path) != before or not (known is None or known.equals(rows)):
            raise DataError(f"{self.path}: the file changed while it was being read; open the file when it is complete")
        self.held = rows
        return hashlib.sha256(b"file" + before).digest()

    def unchanged(self) -> bool:
        return file_version(self.path) == self._version


RATING_COLUMNS = ("user", "item", "rating")


class DatFile(TextFile):
    """A file with user::item::rating in every line; further cells are ignored."""

    form: ClassVar[str] = "dat"
    named: ClassVar[bool] = False

    def parsed(self) -> pd.DataFrame:
        lines = self.path.read_text(encoding="latin-1").split("\n")
        cells = [line.split("::")[: len(RATING_COLUMNS)] for line in lines if line]
        if not cells or any(len(line) < len(RATING_COLUMNS) for line in cells):
            raise ValueError("expected user::item::rating in every line")
        return pd.DataFrame(cells, columns=list(RATING_COLUMNS), dtype=str)
