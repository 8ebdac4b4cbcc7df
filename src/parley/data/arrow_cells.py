"""What the cells of an Arrow column mean, by the type that the column is declared to have.

Formal guarantee: which number and which name a cell has is a function of that cell and the declared type. Nothing is
asked of other cells: a gap makes no floats of whole numbers, and a batch of a file means what it means in the whole
file. A type whose cells have no meaning here (`readable`) is refused by the schema, before any cell is looked at.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parley.data.cells import LONGEST
from parley.validate import Floats

Listed = tuple[NDArray[np.int64], list[Any]]  # which of the cells listed each row holds, -1 for a gap; the list

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_NUMBERS = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
_OTHERS = (
    pa.types.is_null,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_duration,
)
READABLE = (
    "truth values, whole numbers, floats, decimals, text, bytes, dates, times or durations, also dictionary-encoded"
)
# Decimals that Arrow and Python read alike: both round to the nearest float, and none of these is too large for one.
_PLAIN = r"^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?$"
_NOTHING = object()  # stands for a cell beyond what Python's dates and times hold: it has neither name nor number


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
    return any(test(kind) for test in (*_TEXT, *_BYTES, *_NUMBERS, *_OTHERS))


def floats(cells: pa.Array) -> Floats | None:
    """The numbers of a column that is declared to hold some, NaN for a gap; None for other types.

    Whole numbers are rounded to the nearest float, each by itself.

    >>> floats(pa.array([1, None, 2**53 + 1]))
    array([1.00000000e+00,            nan, 9.00719925e+15])
    """
    cells = decoded(cells)
    if pa.types.is_null(cells.type):
        return np.full(len(cells), np.nan)
    if not any(test(cells.type) for test in _NUMBERS):
        return None
    if pa.types.is_float16(cells.type):
        cells = cells.cast(pa.float32())
    gaps = cells.is_null().to_numpy(zero_copy_only=False) if cells.null_count else None
    plain = cells if gaps is None else cells.fill_null(pa.scalar(0).cast(cells.type))
    values = np.asarray(plain.to_numpy(zero_copy_only=False), dtype=np.float64)
    return values if gaps is None else np.where(gaps, np.nan, values)


def plain_decimals(cells: pa.Array) -> Floats | None:
    """The numbers of a column of text whose cells are all plain decimals or gaps, NaN for a gap; None for others. Cell
    by cell (`cell_number`) it would come to the same floats, and takes ten times as long.

    >>> plain_decimals(pa.array(["1.50", None, "-2e3"])), plain_decimals(pa.array(["1.5", "many"]))
    (array([ 1.5e+00,      nan, -2.0e+03]), None)
    """
    cells = decoded(cells)
    if not any(test(cells.type) for test in _TEXT):
        return None
    try:
        cells = cells.cast(usual(cells.type))
        plain = pc.all(pc.match_substring_regex(cells, _PLAIN), min_count=0).as_py()
    except pa.ArrowException:  # no text at all, which others say
        return None
    return np.asarray(cells.cast(pa.float64()).to_numpy(zero_copy_only=False)) if plain else None


def listed(cells: pa.Array) -> Listed:
    """Every different cell once, as Python holds it; a text that is not UTF-8 is a `UnicodeError`."""
    cells = decoded(cells)
    cells = cells.cast(usual(cells.type))
    if pa.types.is_floating(cells.type) or pa.types.is_null(cells.type):
        place, kinds = pd.factorize(np.asarray(floats(cells)))  # NaN is a gap
        return np.asarray(place, dtype=np.int64), kinds.tolist()
    if any(test(cells.type) for test in _TEXT):
        encoded = _short(cells).dictionary_encode()
        found = encoded.dictionary.to_pylist()
    else:
        encoded = _cut(cells).dictionary_encode()
        found = [_cell(each) for each in encoded.dictionary]
    return encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), found


def usual(kind: pa.DataType) -> pa.DataType:
    """A type of the same values that Arrow can select rows of: views of text and bytes, and short decimals, have
    others.

    >>> usual(pa.string_view()), usual(pa.decimal32(5, 2)), usual(pa.int8())
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
    """The same cells without a dictionary: which cells share an entry there is nobody's meaning."""
    return cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells


def _cell(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return _NOTHING


def _cut(cells: pa.Array) -> pa.Array:
    """Bytes cut to the length that is looked at; other cells as they are."""
    if any(test(cells.type) for test in _BYTES):
        return pc.binary_slice(cells.cast(pa.large_binary()), 0, LONGEST)
    return cells


def _short(words: pa.Array) -> pa.Array:
    """Text cut to the length that is looked at."""
    longest = pc.max(pc.binary_length(words)).as_py()
    return words if longest is None or longest <= LONGEST else pc.utf8_slice_codeunits(words, 0, LONGEST)
