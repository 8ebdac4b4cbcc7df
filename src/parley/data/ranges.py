"""How a table's own values lie beside agreed ranges. For the owner alone: nothing here is noised, and nothing here may leave."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from parley.data.streamed import ParquetFolder, discreet
from parley.data.table import Rows, numbers
from parley.validate import Floats

AT_ONCE = 65536  # rows of a streamed table in memory


@dataclass(frozen=True)
class Range:
    """The ends of a column, and the share of its rows beyond the agreed ones."""

    low: float
    high: float
    outside: float


def ranges(table: pd.DataFrame | ParquetFolder, agreed: Mapping[str, tuple[float, float]], name: str) -> dict[str, Range]:
    """The range of every column that `agreed` names, in one pass over the table; none for a table without rows."""
    if not agreed:
        return {}
    low, high = np.array(list(agreed.values())).T[:, :, None]
    lows, highs, beyond, rows = [], [], np.zeros(len(agreed)), 0
    for part in _parts(table, list(agreed)):
        values: Floats = np.stack([numbers(part, column, name, gaps=True) for column in agreed])
        if values.shape[1]:
            lows.append(np.fmin.reduce(values, axis=1))  # a gap is nowhere
            highs.append(np.fmax.reduce(values, axis=1))
            beyond += ((values < low) | (values > high)).sum(axis=1)
            rows += values.shape[1]
    if not rows:
        return {}
    found = zip(np.fmin.reduce(lows, axis=0), np.fmax.reduce(highs, axis=0), beyond / rows, strict=True)
    return {column: Range(*map(float, facts)) for column, facts in zip(agreed, found, strict=True)}


def _parts(table: pd.DataFrame | ParquetFolder, columns: list[str]) -> Iterator[Rows]:
    if isinstance(table, pd.DataFrame):
        yield table
        return
    for file in table.files:
        with discreet(file), pq.ParquetFile(file) as source:
            yield from source.iter_batches(AT_ONCE, columns=columns, use_threads=False)
