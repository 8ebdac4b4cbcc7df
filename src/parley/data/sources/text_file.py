"""Files of text: they declare the names of their columns alone. Cells stay text until converted, one by one."""

import hashlib
from abc import abstractmethod
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import pandas as pd

from parley.data.sources.files import file_digest
from parley.data.sources.source import HeldTable
from parley.durable import file_version
from parley.errors import DataError


class TextFile(HeldTable):
    """A file of text, held in memory once it was read. A kind of it says how its lines become cells."""

    form: ClassVar[str]  # what messages call it
    path: Path

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._version = file_version(path)

    @abstractmethod
    def parsed(self) -> pd.DataFrame:
        """The cells, all of them text: guessing a column's type would let one cell change how all others are read."""

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
        """Of the bytes of its file, which is read between two looks at them: the rows held are those it speaks of."""
        before, known = file_digest(self.path), vars(self).get("held")
        rows = self._read()
        if file_digest(self.path) != before or not (known is None or known.equals(rows)):
            raise DataError(f"{self.path}: it changed while it was read; open it when it is complete")
        self.held = rows
        return hashlib.sha256(b"file" + before).digest()

    def unchanged(self) -> bool:
        return file_version(self.path) == self._version


COLUMNS = ("user", "item", "rating")


class DatFile(TextFile):
    """The first three cells of every line."""

    form: ClassVar[str] = "dat"
    named: ClassVar[bool] = False

    def parsed(self) -> pd.DataFrame:
        lines = self.path.read_text(encoding="latin-1").split("\n")
        cells = [line.split("::")[: len(COLUMNS)] for line in lines if line]
        if not cells or any(len(line) < len(COLUMNS) for line in cells):
            raise ValueError("expected user::item::rating in every line")
        return pd.DataFrame(cells, columns=list(COLUMNS), dtype=str)
