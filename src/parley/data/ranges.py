"""How a table's own values lie beside agreed ranges. For the owner alone: nothing here is noised, and nothing here may
leave."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from parley.data.holdout import Kept, parts_of
from parley.data.sources import Rows, Table, open_table
from parley.data.table import days, numbers
from parley.validate import Floats


@dataclass(frozen=True)
class Range:
    """The ends of a column, and the share of its rows beyond the agreed ones."""

    low: float
    high: float
    outside: float


def ranges(
    table: Table,
    agreed: Mapping[str, tuple[float, float]],
    name: str,
    kept: Kept = None,
    dates: Mapping[str, str] | None = None,
) -> dict[str, Range]:
    """The range of every column that `agreed` names, in one pass over the rows that count; none for a table without
    rows. `dates`: how columns of dates are written."""

    def read(part: Rows, column: str) -> Floats:
        written = (dates or {}).get(column)
        return numbers(part, column, name, gaps=True) if written is None else days(part, column, written, name, True)

    if not agreed:
        return {}
    low, high = np.array(list(agreed.values())).T[:, :, None]
    lows, highs, beyond, rows = [], [], np.zeros(len(agreed)), 0
    for _, part in parts_of(open_table(table), list(agreed), kept):
        values: Floats = np.stack([read(part, column) for column in agreed])
        if values.shape[1]:
            lows.append(np.fmin.reduce(values, axis=1))  # a gap is nowhere
            highs.append(np.fmax.reduce(values, axis=1))
            beyond += ((values < low) | (values > high)).sum(axis=1)
            rows += values.shape[1]
    if not rows:
        return {}
    found = zip(np.fmin.reduce(lows, axis=0), np.fmax.reduce(highs, axis=0), beyond / rows, strict=True)
    return {column: Range(*map(float, facts)) for column, facts in zip(agreed, found, strict=True)}
