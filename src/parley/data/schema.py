"""The declared schema of a table: the names of its columns and the types that they are said to have. It counts as
public.

A cell is read by its own value and its column's declared type (`cells`), so whoever changes a type may
change how every record is read. The schema is therefore fixed when terms are accepted (`Ledger.accept`), and tables
that differ in it are no neighbours. A CSV file declares names alone: all of its cells are text. A data frame declares
its columns' dtypes, of a categorical column also that of its categories (not which there are: those are cells).
"""

import hashlib
import json
from typing import Any

import pandas as pd
import pyarrow as pa

from parley.data.cells import READABLE, readable, usual
from parley.errors import DataError
from parley.validate import printable

Schema = tuple[tuple[str, str], ...]  # (name, declared type) of every column


def declared_by_frame(frame: pd.DataFrame) -> Schema:
    """The schema of a data frame.

    >>> declared_by_frame(pd.DataFrame({"a": [1], "b": pd.Categorical(["x"])}))
    (('a', 'int64'), ('b', 'category of str'))
    """
    return tuple((str(name), _dtype_words(frame.dtypes.iloc[place])) for place, name in enumerate(frame.columns))


def declared_by_arrow(schema: pa.Schema) -> Schema:
    """The schema of a Parquet file. Whether a column may have gaps is no part of its type."""
    return tuple((field.name, str(field.type)) for field in schema)


def schema_digest(schema: Schema) -> str:
    """A digest of names and types, in their order."""
    return hashlib.sha256(b"parley-schema-1" + json.dumps(schema).encode()).hexdigest()


def require_readable(kind: Any, column: str, name: str) -> None:
    """Refuse a column whose declared type gives its cells no meaning; no cell is looked at."""
    arrow = kind.pyarrow_dtype if isinstance(kind, pd.ArrowDtype) else kind
    if not isinstance(arrow, pa.DataType):
        return
    if not readable(arrow):
        raise DataError(f"{name}: column {column!r} is declared as {printable(str(arrow), 80)}; expected {READABLE}")
    if arrow is not kind and usual(arrow) != arrow:  # a data frame of it: pandas selects no rows of such columns
        raise DataError(f"{name}: column {column!r} is declared as {arrow}; expected {usual(arrow)}")


def _dtype_words(dtype: Any) -> str:
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category of {dtype.categories.dtype}"
    return str(dtype)
