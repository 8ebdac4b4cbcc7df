"""What is looked at to tell people and copies of rows, also of a table that is too long to be held."""

import re

import pandas as pd

from parley.data.holdout import Kept, parts_of
from parley.data.sources import TableSource
from parley.data.sources.source import column_names


def rows_looked_at(table: TableSource, kept: Kept, people: re.Pattern[str]) -> pd.DataFrame:
    """The rows that count; of a long table the columns that sound like people, and what tells copies."""
    if table.long:
        return hashed_rows(table, kept, people)
    return table.frame() if kept is None else table.frame()[kept]


def hashed_rows(table: TableSource, kept: Kept, whole: re.Pattern[str]) -> pd.DataFrame:
    """A hash of every row that counts, beside the columns whose names have the pattern `whole`: rows that are alike
    have one hash, and others of a billion rows with a probability below 3 %."""
    names = column_names(table.example)
    found = []
    for _, rows in parts_of(table, names, kept):
        frame = rows if isinstance(rows, pd.DataFrame) else rows.to_pandas()
        beside = frame[[name for name in names if whole.search(name.lower())]].copy()
        beside.insert(0, "all cells", pd.util.hash_pandas_object(frame, index=False).to_numpy(), allow_duplicates=True)
        found.append(beside)
    return pd.concat(found, ignore_index=True) if found else table.example
