"""CSV files: a line of names, then rows."""

import csv
import re
import warnings
from collections import Counter
from typing import ClassVar

import pandas as pd

from parley.data.sources.text_file import TextFile
from parley.errors import DataError


class CsvFile(TextFile):
    """Cells between commas, or semicolons where the line of names has more of them."""

    form: ClassVar[str] = "csv"
    drops_words: ClassVar[bool] = True

    def parsed(self) -> pd.DataFrame:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # cells without a column would be dropped
            return pd.read_csv(self.path, dtype=str, index_col=False, sep=self._separator())

    def _separator(self) -> str:
        """Whichever the line of names has more of: names are public, so no record decides how others are read."""
        with self.path.open(encoding="utf-8") as file:
            head = re.sub('"[^"]*"', "", file.readline())  # what is quoted separates nothing
        return _more_of(head)

    def require_header(self) -> None:
        """Refuse a line of names that has one twice: pandas gives the second another name, and nobody would notice."""
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                head = file.readline()
        except (OSError, UnicodeError):  # whoever reads the rows says so
            return
        if not head.strip():
            raise DataError(f"{self.path}: is empty, or its first line is; expected the names of the columns there")
        found = Counter(next(csv.reader([head], delimiter=_more_of(head)), []))
        twice = [name for name, count in found.items() if count > 1 and name]
        if twice:
            raise DataError(f"{self.path}: column {twice[0]!r} appears more than once; give one of them another name")


def _more_of(head: str) -> str:
    return ";" if head.count(";") > head.count(",") else ","
