"""Types that a column may be declared to have, with cells that are likely to be read wrongly: gaps, extremes, other
magnitudes, whole numbers that no float holds."""

from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from typing import Any

import pyarrow as pa

BIG = 2**53 + 1  # no float
ROWS = 6  # of a column below
DAY, NOON = date(2020, 1, 1), datetime(2020, 1, 1, 12, tzinfo=UTC)


def decimals(*words: str) -> list[Any]:
    """The decimal numbers that are written so."""
    return [Decimal(word) for word in words]


WHOLE: list[Any] = [0, 1, 2, 3, 1, 0]
LARGE: list[Any] = [BIG, BIG + 2, BIG, BIG + 4, BIG + 2, BIG]
FLOATS: list[Any] = [0.0, 1.0, 2.5, 1.0, -3.0, 2.5]
WORDS: list[Any] = ["a", "b", "1", "a", "1.0", "b"]
STRANGE: list[Any] = [None, "", "nan", "1e400", "x" * 3000, str(BIG), "n/a", "True", "ä"]
ODD: list[Any] = [None, float("nan"), float("inf"), -0.0, 1e300, 5e-324, float(2**53), 0.1]
# What is declared, the cells of a column, and what one of them becomes.
TYPES: list[tuple[pa.DataType, list[Any], list[Any]]] = [
    *((kind(), WHOLE, [None, 100, 7]) for kind in (pa.int8, pa.uint8, pa.int16, pa.uint16, pa.int32, pa.uint32)),
    (pa.int64(), WHOLE, [None, BIG, -(2**63), 2**63 - 1]),
    (pa.int64(), LARGE, [None, 1, 2**63 - 1]),
    (pa.uint64(), LARGE, [None, 1, 2**64 - 1]),
    (pa.float16(), FLOATS, [None, float("nan"), float("inf"), -0.0, 65504.0]),
    (pa.float32(), FLOATS, [None, float("nan"), float("inf"), -0.0, 3e38, float(2**60)]),
    (pa.float64(), FLOATS, ODD),
    (pa.float64(), [float(value) for value in LARGE], [None, 1.0]),
    (pa.bool_(), [True, False, True, True, False, True], [None, False]),
    (pa.decimal32(9, 2), decimals("1.00", "2.50", "0", "1", "2.5", "1"), [None, *decimals("9999999.99", "-0.01")]),
    (
        pa.decimal64(18, 2),
        decimals("1.00", "2.50", "0", "1", "2.5", "1"),
        [None, *decimals("9007199254740993.00", "0.01")],
    ),
    (pa.decimal128(38, 0), [Decimal(value) for value in LARGE], [None, Decimal(1), Decimal(10) ** 37]),
    (
        pa.decimal128(20, 2),
        decimals("1.00", "2.50", "0", "1", "2.5", "1"),
        [None, *decimals("90071992547409.93", "1.01")],
    ),
    (
        pa.decimal256(60, 2),
        decimals("1.00", "2.50", "0", "1", "2.5", "1"),
        [None, Decimal(10) ** 57, Decimal("9007199254740993.5")],
    ),
    *((kind(), WORDS, STRANGE) for kind in (pa.string, pa.large_string, pa.string_view)),
    (pa.dictionary(pa.int32(), pa.string()), WORDS, STRANGE),
    (pa.dictionary(pa.int8(), pa.int64()), LARGE, [None, 1]),
    (pa.dictionary(pa.int8(), pa.float64()), FLOATS, ODD[:4]),
    *(
        (kind, [b"x", b"1", b"x", b"2", b"1", b"y"], [None, b"\xff"])
        for kind in (pa.binary(), pa.large_binary(), pa.binary(1))
    ),
    (
        pa.date32(),
        [DAY, DAY + timedelta(1), DAY, DAY, DAY, DAY + timedelta(1)],
        [None, date(1, 1, 1), date(9999, 12, 31)],
    ),
    (pa.date64(), [DAY, DAY + timedelta(1), DAY, DAY, DAY, DAY + timedelta(1)], [None, date(9999, 12, 31)]),
    (pa.time32("s"), [clock(12), clock(13), clock(12), clock(12), clock(0), clock(13)], [None, clock(23, 59, 59)]),
    (pa.time64("ns"), [clock(12), clock(13), clock(12), clock(12), clock(0), clock(13)], [None, 1, clock(0, 0, 0, 1)]),
    *(
        (
            pa.timestamp(unit, zone),
            [NOON, NOON, NOON + timedelta(1), NOON, NOON, NOON + timedelta(2)],
            [None, early, late],
        )
        for unit, zone in (("s", None), ("ms", "UTC"), ("us", "Europe/Paris"), ("ns", None))
        for early, late in [(datetime(1700, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC))]
    ),
    (pa.timestamp("s"), [0, 1, 0, 86400, 1, 0], [None, 10**14, -(10**14)]),
    (pa.duration("s"), [0, 86400, 0, 1, 86400, 1], [None, 10**15]),
    (
        pa.duration("ns"),
        [timedelta(1), timedelta(2), timedelta(1), timedelta(0), timedelta(1), timedelta(2)],
        [None, 1],
    ),
    (pa.null(), [None] * ROWS, [None]),
    (pa.list_(pa.int64()), [[1], [2], [1], [], [3], [1]], [None]),
    (pa.struct([("x", pa.int64())]), [{"x": 1}] * ROWS, [None]),
]
