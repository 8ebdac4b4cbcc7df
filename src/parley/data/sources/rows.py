"""Some rows of a table as its source hands them out: a data frame, or a batch of Arrow columns; asked here alone."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.core.arrays.masked import (
    BaseMaskedArray,  # nullable numbers and truth values: pandas has no public name for all of them
)

Rows: TypeAlias = "pd.DataFrame | pa.RecordBatch"


def column_names(rows: Rows) -> list[str]:
    """The names of the columns, in their order."""
    return [str(name) for name in (rows.columns if isinstance(rows, pd.DataFrame) else rows.schema.names)]


def declared_types(rows: Rows, columns: Sequence[str]) -> list[Any]:
    """The types that columns are declared to have: pandas' or Arrow's."""
    if not isinstance(rows, pd.DataFrame):
        return [rows.schema.field(column).type for column in columns]
    types = rows.dtypes.to_numpy()  # of all at once: it takes longer to take a column out of its frame
    return [types[rows.columns.get_loc(column)] for column in columns]


def declared_column(rows: Rows, column: str) -> "tuple[Any, pa.Array | pd.Series[Any]]":
    """(the type that a column is declared to have, the column as it is held)."""
    if not isinstance(rows, pd.DataFrame):
        return rows.schema.field(column).type, rows.column(column)
    series = rows[column]
    return series.dtype, series


def declared_cells(series: "pa.Array | pd.Series[Any]") -> "pa.Array | pd.Series[Any]":
    """A column as its table declares it: of an Arrow type, or as pandas holds it otherwise."""
    if not isinstance(series, pd.Series):
        return series
    if not isinstance(series.dtype, pd.StringDtype | pd.ArrowDtype) and not isinstance(series.array, BaseMaskedArray):
        return series
    cells = pa.array(series.array, from_pandas=True)
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def chosen_rows(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    """The rows that are marked, in their order."""
    return rows[chosen] if isinstance(rows, pd.DataFrame) else rows.filter(pa.array(chosen))
