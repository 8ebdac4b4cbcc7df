"""From what drivers hand out to what Parquet declares: plain Arrow types, each cell by itself.

Formal guarantee: a cell of a snapshot is a function of that cell in the database and of its column's declared type; one
that is not of that type ends the snapshot.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parley.data.cells import decoded
from parley.data.databases.database import Column
from parley.errors import DataError

MOST_DIGITS = 76  # of decimals that Arrow and Parquet hold
FIRST_DAY, LAST_DAY = -719162, 2932896  # of the years 1 to 9999, counted from 1970
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the cells themselves: without a driver's extension, without a dictionary."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def decimal_type(digits: int, scale: int) -> pa.DataType:
    """The type of numbers with so many digits in all and behind the point; text where none holds as many.

    >>> decimal_type(12, 2), decimal_type(50, 0), decimal_type(80, 2)
    (Decimal128Type(decimal128(12, 2)), Decimal256Type(decimal256(50, 0)), DataType(string))
    """
    if not 0 <= scale <= digits or not 1 <= digits <= MOST_DIGITS:
        return pa.string()
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def plain_batch(batch: pa.RecordBatch, columns: Sequence[Column], where: str) -> pa.RecordBatch:
    """The same rows, each column of its declared type."""
    cells = []
    for place, column in enumerate(columns):
        try:
            cells.append(_plain_cells(batch.column(place), column.kind))
        except (pa.ArrowException, UnicodeError, OverflowError):  # what they say quotes cells
            raise not_as_declared(column, where) from None
        if not _in_calendar(cells[-1]):
            raise DataError(
                f"{where}: column {column.name!r} holds a day or time in no calendar, such as infinity; say in the "
                "query what stands in its place"
            )
    return pa.record_batch(cells, plain_schema(columns))


def not_as_declared(column: Column, where: str) -> DataError:
    """What is said of a cell that is not what its column is declared as."""
    declared = f"column {column.name!r}, declared as {column.declared}, holds a cell that is not"
    return DataError(f"{where}: {declared}; cast it in the query as it is meant")


def plain_schema(columns: Sequence[Column]) -> pa.Schema:
    """The columns as Parquet files declare them."""
    return pa.schema([pa.field(column.name, column.kind) for column in columns])


def _plain_cells(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    cells = decoded(cells.storage if isinstance(cells, pa.ExtensionArray) else cells)
    if pa.types.is_decimal(kind) and pa.types.is_string(cells.type):  # numbers as digits; one that is none is a gap
        cells = pc.if_else(pc.equal(cells, "nan"), pa.scalar(None, cells.type), cells)
    cells = cells.cast(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        cells.validate(full=True)
    return cells


def _in_calendar(cells: pa.Array) -> bool:
    """Whether all days and times lie in the years 1 to 9999, and all times of a day before its end."""
    if pa.types.is_date32(cells.type):
        first, last = FIRST_DAY, LAST_DAY
    elif pa.types.is_timestamp(cells.type):
        day = 86400 * _TICKS[cells.type.unit]
        first, last = FIRST_DAY * day, (LAST_DAY + 1) * day - 1
    elif pa.types.is_time(cells.type):
        first, last = 0, 86400 * _TICKS[cells.type.unit] - 1
    else:
        return True
    ends = pc.min_max(cells.view(pa.int32() if cells.type.bit_width == 32 else pa.int64())).as_py()
    return ends["min"] is None or (first <= ends["min"] and ends["max"] <= last)
