"""The name and the number of a cell, and the declared schema of a table. Equal values have one name, whatever type
holds them: 1, 1.0, True, Decimal("1.00") and "1". That type may depend on other records: a gap makes floats of whole
numbers.

Formal guarantee: `cell_name` and `cell_number` give the same for a cell and for the form that a wider column type gives
it, or nothing: a float from 2^53 on may stand for several whole numbers, so it has no name.

Formal guarantee: the number and the name of a cell in an Arrow column are functions of that cell and the declared type.
Other cells do not matter: a gap makes no floats of whole numbers, and a batch of a file means the same as in the whole
file. A type whose cells have no meaning here (`readable`) is refused by the schema, before any cell is read.

The schema, names and declared types of columns, counts as public. Changing a type may change how every record is read,
so the schema is fixed when terms are accepted (`Ledger.accept`), and tables that differ in it are no neighbours. A CSV
file declares names alone: all cells are text. A data frame declares dtypes, and for a categorical column the dtype of
its categories, not the categories, which are cells.
"""

import hashlib
import json
import math
import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parley.errors import DataError
from parley.validate import Floats, printable

# characters of a cell that are looked at: a longer one is cut, or one record could slow down every round
MAX_CELL_CHARACTERS = 1000
FIRST_INEXACT_FLOAT = 2**53  # from here on floats skip whole numbers
LARGEST_NAMED_INTEGER = 10**100  # whole numbers have names below

# What pandas takes for a gap when it reads a CSV file.
MISSING_WORDS = frozenset(
    [
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
    ]
)
TRUTH_VALUES = {"False": 0.0, "false": 0.0, "FALSE": 0.0, "True": 1.0, "true": 1.0, "TRUE": 1.0}

_DECIMALS = re.compile(r"(-?[0-9]+)\.0+")
_PYTHON_NUMBERS = (int, float, Decimal)
_OTHER_NUMBERS = (np.number, np.bool_, complex, Fraction)


def cell_name(cell: Any) -> str | None:
    """Return the name of a cell; None if it has none.

    >>> cell_name(1), cell_name(1.0), cell_name(Decimal("1.00")), cell_name("1"), cell_name(0.5), cell_name(2.0**53)
    ('1', '1', '1', '1', '0.5', None)
    """
    if isinstance(cell, str):
        return str.__str__(cell)[:MAX_CELL_CHARACTERS]  # not what a subclass of it prints
    if isinstance(cell, _PYTHON_NUMBERS):
        return _number_name(cell)
    if isinstance(cell, timedelta | np.timedelta64 | np.datetime64):
        return _time_name(cell)
    if isinstance(cell, _OTHER_NUMBERS):
        return _number_name(cell)
    if isinstance(cell, pd.Interval):
        ends = [cell_name(cell.left), cell_name(cell.right)]
        brackets = "[" if cell.closed_left else "(", "]" if cell.closed_right else ")"
        return None if None in ends else f"{brackets[0]}{ends[0]}, {ends[1]}{brackets[1]}"
    if isinstance(cell, bytes):
        return str(cell[:MAX_CELL_CHARACTERS])[:MAX_CELL_CHARACTERS]
    return str(cell)[:MAX_CELL_CHARACTERS] if _prints_its_value(type(cell)) else None


def plain_name(name: str) -> str:
    """Return the digits of a whole number written with decimals ("1.0", beside gaps); other names as they are.

    >>> plain_name("1.0"), plain_name("-3.00"), plain_name("1.5"), plain_name("v1.0"), plain_name("1.")
    ('1', '-3', '1.5', 'v1.0', '1.')
    """
    whole = _DECIMALS.fullmatch(name)
    return name if whole is None else whole[1]


def cell_number(cell: Any) -> float:
    """Return the number that a cell stands for, 1 for True and 0 for False; NaN if none."""
    try:
        if isinstance(cell, _PYTHON_NUMBERS):
            return float(cell)
        if isinstance(cell, str):
            text = str.__str__(cell)[:MAX_CELL_CHARACTERS]
            return TRUTH_VALUES[text] if text in TRUTH_VALUES else float(text)
        if isinstance(cell, complex | np.complexfloating):
            return float(cell.real) if cell.imag == 0 else math.nan
        if isinstance(cell, bytes):
            return float(cell[:MAX_CELL_CHARACTERS])
        return math.nan if isinstance(cell, np.timedelta64 | np.datetime64) else float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def missing_cells(cells: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Mark the cells that are gaps of any kind: None, NaN, NA, NaT, a decimal NaN."""
    try:
        return np.asarray(pd.isna(cells))
    except ArithmeticError:  # a signalling NaN among decimals
        quiet = cells.copy()
        for place, cell in enumerate(cells):
            if isinstance(cell, Decimal) and cell.is_nan():
                quiet[place] = None
        return np.asarray(pd.isna(quiet))


def is_missing_word(cell: Any) -> bool:
    """Whether a cell is text that stands for a gap, with or without blanks around it.

    >>> is_missing_word(" n/a "), is_missing_word("no"), is_missing_word(0)
    (True, False, False)
    """
    return isinstance(cell, str) and str.__str__(cell)[:MAX_CELL_CHARACTERS].strip() in MISSING_WORDS


def _number_name(cell: Any) -> str | None:
    """Name whole numbers by their digits, others by the nearest float."""
    value = cell_number(cell)
    if abs(value) < FIRST_INEXACT_FLOAT:
        return str(int(value)) if value.is_integer() else repr(value)
    if math.isnan(value):
        return str(cell)  # a complex number: gaps are not asked for
    whole = _exact_integer(cell)
    return str(whole) if whole is not None else repr(value) if math.isinf(value) else None


def _exact_integer(cell: Any) -> int | None:
    """Return the whole number in a cell of an exact type, up to a hundred digits; else None."""
    if isinstance(cell, int | np.integer):
        return int(cell) if abs(int(cell)) < LARGEST_NAMED_INTEGER else None
    if isinstance(cell, Decimal) and cell.is_finite() and cell.adjusted() < 100 and cell == cell.to_integral_value():
        return int(cell)
    return None


def _prints_its_value(kind: Any) -> bool:
    """Whether cells of this type print as their value: not lists, and not objects that print their address."""
    return kind.__hash__ is not None and (kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__)


def _time_name(cell: Any) -> str | None:
    """Name a time as pandas prints it, because a column of times alone is pandas' own."""
    try:
        return str(pd.Timestamp(cell) if isinstance(cell, np.datetime64) else pd.Timedelta(cell))
    except (ValueError, OverflowError):  # further away than pandas counts
        return None


CellCodes = tuple[NDArray[np.int64], list[Any]]  # which of the cells listed each row holds, -1 for a gap; the list

_TEXT_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES_TYPES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_NUMBER_TYPES = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
_OTHER_TYPES = (
    pa.types.is_null,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_duration,
)
READABLE_TYPES = (
    "truth values, whole numbers, floats, decimals, text, bytes, dates, times or durations, also dictionary-encoded"
)
# Decimals that Arrow and Python read alike: both round to the nearest float, and none of these is too large for one.
_PLAIN_DECIMAL = r"^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?$"
_UNREADABLE_CELL = (
    object()
)  # stands for a cell beyond what Python's dates and times hold: it has neither name nor number


@lru_cache(maxsize=1024)
def readable(kind: pa.DataType) -> bool:
    """Whether cells of this type have a meaning.

    >>> readable(pa.decimal128(20, 2)), readable(pa.dictionary(pa.int8(), pa.string())), readable(pa.list_(pa.int64()))
    (True, True, False)
    """
    if pa.types.is_dictionary(kind):
        return readable(kind.value_type)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            pa.scalar(0, kind).as_py()
        except (pa.ArrowException, ValueError, KeyError):  # a time zone that nobody knows
            return False
    return any(test(kind) for test in (*_TEXT_TYPES, *_BYTES_TYPES, *_NUMBER_TYPES, *_OTHER_TYPES))


def floats(cells: pa.Array) -> Floats | None:
    """Return the numbers of a column declared numeric, each rounded by itself, NaN for a gap; None for other types.

    >>> floats(pa.array([1, None, 2**53 + 1]))
    array([1.00000000e+00,            nan, 9.00719925e+15])
    """
    cells = decoded(cells)
    if pa.types.is_null(cells.type):
        return np.full(len(cells), np.nan)
    if not any(test(cells.type) for test in _NUMBER_TYPES):
        return None
    if pa.types.is_float16(cells.type):
        cells = cells.cast(pa.float32())
    gaps = cells.is_null().to_numpy(zero_copy_only=False) if cells.null_count else None
    plain = cells if gaps is None else cells.fill_null(pa.scalar(0).cast(cells.type))
    values = np.asarray(plain.to_numpy(zero_copy_only=False), dtype=np.float64)
    return values if gaps is None else np.where(gaps, np.nan, values)


def plain_decimals(cells: pa.Array) -> Floats | None:
    """Return the floats that `cell_number` gives, faster, if all text cells are plain decimals or gaps (NaN); else
    None.

    >>> plain_decimals(pa.array(["1.50", None, "-2e3"])), plain_decimals(pa.array(["1.5", "many"]))
    (array([ 1.5e+00,      nan, -2.0e+03]), None)
    """
    cells = decoded(cells)
    if not any(test(cells.type) for test in _TEXT_TYPES):
        return None
    try:
        cells = cells.cast(selectable_type(cells.type))
        plain = pc.all(pc.match_substring_regex(cells, _PLAIN_DECIMAL), min_count=0).as_py()
    except pa.ArrowException:  # no text at all, which others say
        return None
    return np.asarray(cells.cast(pa.float64()).to_numpy(zero_copy_only=False)) if plain else None


def distinct_cells(cells: pa.Array) -> CellCodes:
    """List every different cell once, as a Python value; text that is not UTF-8 is a `UnicodeError`."""
    cells = decoded(cells)
    cells = cells.cast(selectable_type(cells.type))
    if pa.types.is_floating(cells.type) or pa.types.is_null(cells.type):
        place, kinds = pd.factorize(np.asarray(floats(cells)))  # NaN is a gap
        return np.asarray(place, dtype=np.int64), kinds.tolist()
    if any(test(cells.type) for test in _TEXT_TYPES):
        encoded = _cut_text(cells).dictionary_encode()
        values = encoded.dictionary.to_pylist()
    else:
        encoded = _cut_bytes(cells).dictionary_encode()
        values = [_cell(each) for each in encoded.dictionary]
    return encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), values


def selectable_type(kind: pa.DataType) -> pa.DataType:
    """Return a type of the same values whose rows Arrow can select: it cannot for views and short decimals.

    >>> selectable_type(pa.string_view()), selectable_type(pa.decimal32(5, 2)), selectable_type(pa.int8())
    (DataType(large_string), Decimal128Type(decimal128(5, 2)), DataType(int8))
    """
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def decoded(cells: pa.Array) -> pa.Array:
    """Return the same cells without a dictionary: shared entries mean nothing."""
    return cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells


def _cell(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return _UNREADABLE_CELL


def _cut_bytes(cells: pa.Array) -> pa.Array:
    if any(test(cells.type) for test in _BYTES_TYPES):
        return pc.binary_slice(cells.cast(pa.large_binary()), 0, MAX_CELL_CHARACTERS)
    return cells


def _cut_text(words: pa.Array) -> pa.Array:
    longest = pc.max(pc.binary_length(words)).as_py()
    return (
        words
        if longest is None or longest <= MAX_CELL_CHARACTERS
        else pc.utf8_slice_codeunits(words, 0, MAX_CELL_CHARACTERS)
    )


Schema = tuple[tuple[str, str], ...]  # (name, declared type) of every column


def declared_by_frame(frame: pd.DataFrame) -> Schema:
    """Return the schema of a data frame.

    >>> declared_by_frame(pd.DataFrame({"a": [1], "b": pd.Categorical(["x"])}))
    (('a', 'int64'), ('b', 'category of str'))
    """
    return tuple((str(name), _dtype_words(frame.dtypes.iloc[place])) for place, name in enumerate(frame.columns))


def declared_by_arrow(schema: pa.Schema) -> Schema:
    """Return the schema of a Parquet file. Whether a column may have gaps is not part of its type."""
    return tuple((field.name, str(field.type)) for field in schema)


def schema_digest(schema: Schema) -> str:
    """Return a digest of names and types, in their order."""
    return hashlib.sha256(b"parley-schema-1" + json.dumps(schema).encode()).hexdigest()


def require_readable(kind: Any, column: str, name: str) -> None:
    """Refuse a column whose declared type gives its cells no meaning, without reading a cell."""
    arrow = kind.pyarrow_dtype if isinstance(kind, pd.ArrowDtype) else kind
    if not isinstance(arrow, pa.DataType):
        return
    if not readable(arrow):
        raise DataError(
            f"{name}: column {column!r} has the type {printable(str(arrow), 80)}, which Parley cannot read; convert "
            f"the column to one of: {READABLE_TYPES}"
        )
    if (
        arrow is not kind and selectable_type(arrow) != arrow
    ):  # a data frame of it: pandas selects no rows of such columns
        raise DataError(
            f"{name}: column {column!r} has the type {arrow}, whose rows pandas cannot select; convert the column to "
            f"{selectable_type(arrow)}"
        )


def _dtype_words(dtype: Any) -> str:
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category of {dtype.categories.dtype}"
    return str(dtype)
