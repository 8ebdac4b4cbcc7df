"""Cells that a search tries in a column: expected ones, and easily misread ones (gaps, extremes, huge integers)."""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from parley.audit.canary import cell_values, ends, outcome_cells
from parley.data.sources import Table
from parley.data.sources.catalogue import FOLDER_KIND
from parley.errors import DataError
from parley.protocol.setup import Setup
from parley.terms.catalogue import PREDICTION

DAT_COLUMNS = ("user", "item", "rating")  # columns of a .dat file
# what writing says of cells that a form cannot hold
UNWRITABLE = (pa.ArrowException, ValueError, OverflowError, TypeError, DataError)


@dataclass(frozen=True)
class Form:
    """A way to write rows, read by `source` (`data.sources.SOURCES`); `declares`: whether it keeps declared types."""

    name: str
    source: str | type
    write: Callable[[pa.Table, Path], Table]
    declares: bool = True


def _frame(rows: pa.Table, folder: Path) -> Table:
    frame: pd.DataFrame = rows.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    return frame


def _objects(rows: pa.Table, folder: Path) -> Table:
    return pd.DataFrame({name: pd.Series(_python_cells(rows[name]), dtype=object) for name in rows.column_names})


def _numpy(rows: pa.Table, folder: Path) -> Table:
    frame: pd.DataFrame = rows.to_pandas(ignore_metadata=True)
    return frame


def _csv(rows: pa.Table, folder: Path) -> Table:
    columns = [_python_cells(rows[name]) for name in rows.column_names]
    with (folder / "t.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows.column_names)
        writer.writerows([["" if cell is None else cell for cell in row] for row in zip(*columns, strict=True)])
    return folder / "t.csv"


def _dat(rows: pa.Table, folder: Path) -> Table:
    if set(rows.column_names) != set(DAT_COLUMNS):
        raise DataError(f"columns: expected {', '.join(DAT_COLUMNS)}")
    columns = [_python_cells(rows[name]) for name in DAT_COLUMNS]
    lines = ["::".join("" if cell is None else str(cell) for cell in row) for row in zip(*columns, strict=True)]
    (folder / "t.dat").write_text("\n".join(lines), encoding="latin-1")
    return folder / "t.dat"


def _parquet(rows: pa.Table, folder: Path) -> Table:
    pq.write_table(rows, folder / "t.parquet", row_group_size=4)
    return folder / "t.parquet"


def _arrow(rows: pa.Table, folder: Path) -> Table:
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, rows.schema) as written:
        written.write_table(rows.unify_dictionaries(), max_chunksize=4)
    return folder / "t.arrow"


def _parquet_folder(rows: pa.Table, folder: Path) -> Table:
    place = folder / "parts"
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    for number, start in enumerate(range(0, len(rows), 3)):
        pq.write_table(rows.slice(start, 3), place / f"{number:04}.parquet", row_group_size=2)
    return place


FORMS: Sequence[Form] = (
    Form("Parquet file", ".parquet", _parquet),
    Form("Parquet folder", FOLDER_KIND, _parquet_folder),
    Form("Arrow file", ".arrow", _arrow),
    Form("declared frame", pd.DataFrame, _frame),
    Form("object frame", pd.DataFrame, _objects, declares=False),
    Form("NumPy frame", pd.DataFrame, _numpy),
    Form("CSV", ".csv", _csv, declares=False),
    Form("dat", ".dat", _dat, declares=False),
)

DECLARED_FRAME = next(form for form in FORMS if form.name == "declared frame")


def _python_cells(column: pa.ChunkedArray) -> Any:
    """Return cells as Python objects [n]."""
    cells = column.combine_chunks()
    held = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
    loose = np.empty(len(held), dtype=object)
    loose[:] = [*held.to_pylist(), None][:-1]
    return loose


WHOLE_NOT_FLOAT = 2**53 + 1  # no float
COLUMN_ROWS = 6  # of a column below
DAY, NOON = date(2020, 1, 1), datetime(2020, 1, 1, 12, tzinfo=UTC)
WHOLE_CELLS: list[Any] = [0, 1, 2, 3, 1, 0]
LARGE_CELLS: list[Any] = [
    WHOLE_NOT_FLOAT,
    WHOLE_NOT_FLOAT + 2,
    WHOLE_NOT_FLOAT,
    WHOLE_NOT_FLOAT + 4,
    WHOLE_NOT_FLOAT + 2,
    WHOLE_NOT_FLOAT,
]
FLOAT_CELLS: list[Any] = [0.0, 1.0, 2.5, 1.0, -3.0, 2.5]
WORD_CELLS: list[Any] = ["a", "b", "1", "a", "1.0", "b"]
UNLISTED, BEYOND_ALL = "a name that no terms list", 1e12  # of what is counted, or not
DEFAULT_CELLS: tuple[object, ...] = ("1", "2", "3", 0.0)  # of a column that the terms say nothing about
USUAL_RATE, GAP_RATE = 0.6, 0.12  # how often a usual cell, or a gap, is tried


def decimals(*words: str) -> list[Any]:
    """Read decimal numbers."""
    return [Decimal(word) for word in words]


STRANGE_WORDS: list[Any] = [None, "", "nan", "1e400", "x" * 3000, str(WHOLE_NOT_FLOAT), "n/a", "True", "ä"]
ODD_FLOATS: list[Any] = [None, float("nan"), float("inf"), -0.0, 1e300, 5e-324, float(2**53), 0.1]
# What is declared, the cells of a column, and what one of them becomes.
COLUMN_TYPES: list[tuple[pa.DataType, list[Any], list[Any]]] = [
    *((kind(), WHOLE_CELLS, [None, 100, 7]) for kind in (pa.int8, pa.uint8, pa.int16, pa.uint16, pa.int32, pa.uint32)),
    (pa.int64(), WHOLE_CELLS, [None, WHOLE_NOT_FLOAT, -(2**63), 2**63 - 1]),
    (pa.int64(), LARGE_CELLS, [None, 1, 2**63 - 1]),
    (pa.uint64(), LARGE_CELLS, [None, 1, 2**64 - 1]),
    (pa.float16(), FLOAT_CELLS, [None, float("nan"), float("inf"), -0.0, 65504.0]),
    (pa.float32(), FLOAT_CELLS, [None, float("nan"), float("inf"), -0.0, 3e38, float(2**60)]),
    (pa.float64(), FLOAT_CELLS, ODD_FLOATS),
    (pa.float64(), [float(value) for value in LARGE_CELLS], [None, 1.0]),
    (pa.bool_(), [True, False, True, True, False, True], [None, False]),
    (pa.decimal32(9, 2), decimals("1.00", "2.50", "0", "1", "2.5", "1"), [None, *decimals("9999999.99", "-0.01")]),
    (
        pa.decimal64(18, 2),
        decimals("1.00", "2.50", "0", "1", "2.5", "1"),
        [None, *decimals("9007199254740993.00", "0.01")],
    ),
    (pa.decimal128(38, 0), [Decimal(value) for value in LARGE_CELLS], [None, Decimal(1), Decimal(10) ** 37]),
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
    *((kind(), WORD_CELLS, STRANGE_WORDS) for kind in (pa.string, pa.large_string, pa.string_view)),
    (pa.dictionary(pa.int32(), pa.string()), WORD_CELLS, STRANGE_WORDS),
    (pa.dictionary(pa.int8(), pa.int64()), LARGE_CELLS, [None, 1]),
    (pa.dictionary(pa.int8(), pa.float64()), FLOAT_CELLS, ODD_FLOATS[:4]),
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
    (pa.null(), [None] * COLUMN_ROWS, [None]),
    (pa.list_(pa.int64()), [[1], [2], [1], [], [3], [1]], [None]),
    (pa.struct([("x", pa.int64())]), [{"x": 1}] * COLUMN_ROWS, [None]),
]


EXTREME_CELLS = (
    *(0.0, -0.0, 5e-324, -2.3e-308, 1e-300, 1e-50, -1e-50, 1.0, -1.0, 0.1, 1e16, 2.0**53, float(2**60)),
    *(1e50, -1e50, 1e300, -1.7e308, 1.7e308, math.inf, math.nan),
)
ALL_KINDS = tuple(dict.fromkeys(kind for kind, _, _ in COLUMN_TYPES))


@dataclass(frozen=True, eq=False)
class CellPool:
    """The cells of every column of one agreement's tables."""

    setup: Setup
    _held: dict[tuple[str, str], tuple[Sequence[Any], Sequence[Any]]] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator, column: str, kind: pa.DataType) -> Any:
        """Draw a cell of this declared type; None is a gap."""
        usual, odd = self._cells(column, kind)
        chance = float(rng.random())
        if chance < USUAL_RATE and usual:
            return usual[int(rng.integers(len(usual)))]
        return None if chance > 1 - GAP_RATE or not odd else odd[int(rng.integers(len(odd)))]

    def usual(self, rng: np.random.Generator, column: str, kind: pa.DataType) -> Any:
        """Draw an expected cell, where the type holds any."""
        usual = self._cells(column, kind)[0]
        return usual[int(rng.integers(len(usual)))] if usual else self.draw(rng, column, kind)

    def plain_kind(self, column: str) -> pa.DataType:
        """The type an analyst would declare."""
        return pa.string() if any(isinstance(cell, str) for cell in self._expected(column)) else pa.float64()

    def fitting_kinds(self, column: str) -> Sequence[pa.DataType]:
        """The types that can hold expected cells of this column."""
        return [kind for kind in ALL_KINDS if self._cells(column, kind)[0]]

    def _cells(self, column: str, kind: pa.DataType) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return (expected cells, other cells) of this type."""
        key = column, str(kind)
        if key not in self._held:
            self._held[key] = converted(self._expected(column), kind), _odd_cells(kind)
        return self._held[key]

    def _expected(self, column: str) -> Sequence[object]:
        """Return cells at the limits of the terms."""
        preparation, model = self.setup.preparation, self.setup.terms.model
        if column in preparation.features:
            return cell_values(preparation, column)
        if listed := self.setup.task.listed_cells(model, column):
            return listed
        if self.setup.terms.task == PREDICTION or self.setup.task.predicts:
            cells = [row[column] for row in outcome_cells(preparation) if column in row]
        elif column in model.categories:
            cells = [*model.categories[column], UNLISTED]
        else:
            cells = [*ends(*model.bounds[column]), BEYOND_ALL] if column in model.bounds else []
        return cells or DEFAULT_CELLS

    def patterned(self, rng: np.random.Generator, column: str, kind: pa.DataType, rows: int) -> list[Any]:
        """Return one record's cells: all alike, two alternating, one giving way to another halfway, or each in turn."""
        usual = self._cells(column, kind)[0]
        if not usual:
            return [self.draw(rng, column, kind)] * rows
        one, two = (usual[int(rng.integers(len(usual)))] for _ in range(2))
        half = rows // 2
        ways = ([one] * rows, [one, two] * rows, [one] * half + [two] * (rows - half), [*usual] * rows)
        return ways[int(rng.integers(len(ways)))][:rows]


@cache
def _odd_cells(kind: pa.DataType) -> tuple[Any, ...]:
    """Return cells of this type that are easily misread under any terms."""
    own = [cell for known, cells, changes in COLUMN_TYPES if known == kind for cell in (*cells, *changes)]
    return (*converted(EXTREME_CELLS, kind), *own)


def converted(cells: Sequence[object], kind: pa.DataType) -> list[Any]:
    """Convert cells to this type, and drop those that it cannot hold."""
    found = [next((made for made in _ways(cell) if _holds(kind, made)), None) for cell in cells]
    return [cell for cell in found if cell is not None]


def _ways(cell: Any) -> list[Any]:
    """Return the cell as several types would hold it."""
    ways: list[Callable[[], Any]] = [
        lambda: cell,
        lambda: str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell),
        lambda: int(str(cell)) if isinstance(cell, str) else int(cell) if cell == int(cell) else None,
        lambda: float(cell),
        lambda: Decimal(str(cell)),
        lambda: str(cell).encode(),
    ]
    made = []
    for way in ways:
        try:
            made.append(way())
        except (ValueError, ArithmeticError, TypeError):
            continue
    return [each for each in made if each is not None]


def _holds(kind: pa.DataType, cell: Any) -> bool:
    try:
        pa.array([cell], kind)
    except UNWRITABLE:
        return False
    return True
