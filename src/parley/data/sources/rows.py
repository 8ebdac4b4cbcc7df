"""Some rows of a table as its source hands them out: a data frame, or a batch of Arrow columns; asked here alone."""

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


def declared_type(rows: Rows, column: str) -> Any:
    """The type that a column is declared to have: pandas' or Arrow's."""
    return rows[column].dtype if isinstance(rows, pd.DataFrame) else rows.schema.field(column).type


def declared_cells(rows: Rows, column: str) -> "pa.Array | pd.Series[Any]":
    """A column as its table declares it: of an Arrow type, or as pandas holds it otherwise."""
    if not isinstance(rows, pd.DataFrame):
        return rows.column(column)
    series = rows[column]
    if not isinstance(series.dtype, pd.StringDtype | pd.ArrowDtype) and not isinstance(series.array, BaseMaskedArray):
        return series
    cells = pa.array(series.array, from_pandas=True)
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def chosen_rows(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    """The rows that are marked, in their order."""
    return rows[chosen] if isinstance(rows, pd.DataFrame) else rows.filter(pa.array(chosen))
