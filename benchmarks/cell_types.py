"""One cell changed in a column of every declared type: does any other row read differently?

A setting is a declared type, what its cells are, which one is changed into what (a gap, an extreme, another magnitude,
NaN, 2^53 + 1, ...), where the table lies (a Parquet file, a folder of several files and row groups, a CSV file, a data
frame of declared or of object columns) and who reads it: features as numbers and as names, gaps filled or not; targets
of numbers, of two and of several classes; people; users, items and ratings; recordings and their states; scales, by
numbers and by names. A violation is
- another row that reads differently, or a place of `scales` that moves by more than the changed row;
- a refusal without a cell, or a declared type, to blame: every cell alone is taken, all together are not;
- a name that `scales` counts and a model's `codes` refuses, or the other way round.

    python benchmarks/cell_types.py [--old]      (--old: cells by way of pandas, as they were once read; it must find
    violations)
"""

import argparse
import contextlib
import csv
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import parley
from parley.data import table
from parley.data.schema import declared_by_frame
from parley.data.sources import open_table
from parley.data.streamed import StreamedDesign
from parley.errors import DataError
from parley.protocol.task import task_of
from parley.tasks.column_statistics.cell_table import CellTable
from parley.tasks.column_statistics.question import MAGNITUDES, NAMES, placed
from parley.tasks.ratings.user_ratings import RatingPreparation, rating_preparation

BIG = 2**53 + 1
ROWS = 6
NAMED = [str(BIG), str(BIG + 2), "1", "0", "2.5", "a", "2020-01-01", "12:00:00", "1 days 00:00:00", "b'x'"]
DAY, NOON = date(2020, 1, 1), datetime(2020, 1, 1, 12, tzinfo=UTC)


def decimals(*words: str) -> list[Any]:
    return [Decimal(word) for word in words]


# What is declared, the cells of a column, and what one of them becomes.
WHOLE: list[Any] = [0, 1, 2, 3, 1, 0]
LARGE: list[Any] = [BIG, BIG + 2, BIG, BIG + 4, BIG + 2, BIG]
FLOATS: list[Any] = [0.0, 1.0, 2.5, 1.0, -3.0, 2.5]
WORDS: list[Any] = ["a", "b", "1", "a", "1.0", "b"]
STRANGE: list[Any] = [None, "", "nan", "1e400", "x" * 3000, str(BIG), "n/a", "True", "ä"]
ODD: list[Any] = [None, float("nan"), float("inf"), -0.0, 1e300, 5e-324, float(2**53), 0.1]
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

Row = list[Any]  # what each row reads as


@dataclass(frozen=True)
class Reader:
    """What reads the column `x` of a table: the rows' own values, or sums of which one row moves two by 1."""

    name: str
    read: Callable[[Any], Any]
    summed: bool = False
    related: bool = False  # what a row reads as tells which rows belong together, and nothing else


def terms(**model: Any) -> parley.Terms:
    content: dict[str, Any] = {
        "model": {"kind": "linear-regression", "target": "y", "features": ["x"], **model},
        "learning": {"horizon": 2},
        "privacy": {"clip": 1.0},
        "owners": [{"name": "a", "records": ROWS, "epsilon": 1.0}],
    }
    return parley.Terms.from_dict(content)


def prepared(**model: Any) -> Callable[[Any], list[Any]]:
    """Rows as they are learned from: numbers, target and weight."""
    agreed = terms(**model)
    preparation = task_of(agreed).preparation(agreed)[0]

    def read(opened: Any) -> list[Any]:
        design, found = preparation.designs(opened, agreed, "a")[0], []
        if isinstance(design, StreamedDesign):
            blocks = [block for piece in design.places for block in design._blocks(piece)]
        else:
            blocks = [design.in_memory()]
        for block in blocks:
            found += [
                (*x, y, w) for x, y, w in zip(block.X.tolist(), block.y.tolist(), block.weight.tolist(), strict=True)
            ]
        return found

    return read


def survey(kind: float) -> Callable[[Any], Any]:
    def read(opened: Any) -> Any:
        cells = CellTable(opened, ("x",), "a")
        if kind == NAMES:
            cells.require_names()
            named: Counter[Any] = Counter()
            for (part,) in cells.parts():
                named["missing"] += int(part.missing.sum())
                for code in part.place[part.place >= 0]:
                    named[part.names[code]] += 1
            return named
        return Counter(
            {place: int(n) for (part,) in cells.parts() for place, n in enumerate(placed(part, kind, 0, 0)) if n}
        )

    return read


def people(opened: Any) -> list[Any]:
    rows = opened.frame(["x"])
    return table.groups(rows, "x", "a", "its person").tolist()


def ratings(column: str) -> Callable[[Any], Any]:
    """Users, items and ratings of a table in which `x` plays one of the parts."""
    parts = {"user": "who", "item": "what", "target": "y"} | {column: "x"}
    model = {
        "kind": "matrix-factorization",
        "items": 5 if column != "item" else NAMED,
        "factors": 1,
        "bounds": {parts["target"]: [0, 5]},
    }
    content = {
        "model": {**model, **parts},
        "learning": {"horizon": 2},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 1.0},
        "owners": [{"name": "a", "records": ROWS, "epsilon": 1.0}],
    }
    agreed = parley.Terms.from_dict(content)
    preparation: RatingPreparation = rating_preparation(agreed.model)

    def read(opened: Any) -> Any:
        found = preparation.read(opened, agreed, "a")
        each = zip(found.users, found.items, found.values, strict=True)
        return Counter((found.user_names[user], found.item_names[item], float(value)) for user, item, value in each)

    return read


def recordings(column: str) -> Callable[[Any], Any]:
    states, which = (["x"], "who") if column == "state" else (["y"], "x")
    model = {
        "kind": "delayed-dynamics",
        "trajectory": which,
        "states": states,
        "inputs": ["z"],
        "period": 1.0,
        "max_delay": 1,
    }
    content = {
        "model": {**model, "samples": 6, "bounds": {states[0]: [-5, 5], "z": [-5, 5]}},
        "learning": {"algorithm": "identification"},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6},
        "owners": [{"name": "a", "records": ROWS, "epsilon": 1.0}],
    }
    agreed = parley.Terms.from_dict(content)
    preparation = task_of(agreed).preparation(agreed)[0]

    def read(opened: Any) -> Any:
        rows = opened.frame([*states, "z", which])
        if column == "state":
            found = [states[:, 0].tolist() for states, _ in preparation.recordings(rows, "a")]  # type: ignore[attr-defined]
            return [found[row % 2][row // 2] for row in range(ROWS)]
        return table.groups(rows, which, "a", "its recording").tolist()

    return read


def readers() -> list[Reader]:
    named, classes = {"categories": {"x": NAMED}}, [*NAMED, "3", str(BIG + 4)]
    return [
        Reader("numbers", prepared()),
        Reader("numbers, gaps filled", prepared(missing="fill", bounds={"x": [-10, 10]})),
        Reader("names", prepared(**named)),
        Reader("names, gaps filled", prepared(**named, missing="fill", coding="one-hot")),
        Reader("target, a number", prepared(target="x", features=["y"])),
        Reader("target, two classes", prepared(kind="linear-svm", target="x", features=["y"], positive=str(BIG))),
        Reader(
            "target, classes",
            prepared(kind="softmax-regression", target="x", features=["y"], categories={"x": classes}),
        ),
        Reader("people", people, related=True),
        Reader("scales, numbers", survey(MAGNITUDES), summed=True),
        Reader("scales, names", survey(NAMES), summed=True),
        Reader("states", recordings("state")),
        Reader("recordings", recordings("which"), related=True),
        *(Reader(f"ratings, {part}", ratings(part), summed=True) for part in ("user", "item", "target")),
    ]


def columns(cells: pa.Array) -> dict[str, Any]:
    rows = range(len(cells))
    return {
        "x": cells,
        "y": pa.array([float(row) for row in rows]),
        "z": pa.array([0.5] * len(cells)),
        "who": pa.array([f"u{row % 2}" for row in rows]),
        "what": pa.array([str(row % 5 + 1) for row in rows]),
    }


def written(folder: Path, cells: pa.Array, everywhere: bool = True) -> Iterator[tuple[str, Any]]:
    """The same table wherever tables lie (`everywhere`: not in Parquet alone); what a format cannot hold is left
    out."""
    whole = pa.table(columns(cells))
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "parts").mkdir(parents=True)
    with contextlib.suppress(pa.ArrowException):
        pq.write_table(whole, folder / "t.parquet", row_group_size=4)
        yield "file", open_table(folder / "t.parquet")
        for number, start in enumerate(range(0, len(whole), 3)):
            pq.write_table(whole.slice(start, 3), folder / "parts" / f"{number}.parquet", row_group_size=2)
        yield "folder", open_table(folder / "parts")
    if not everywhere:
        return
    frame = whole.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    yield "declared frame", open_table(frame)
    with contextlib.suppress(pa.ArrowException, ValueError, OverflowError, TypeError):
        held = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
        loose = np.empty(len(cells), dtype=object)
        loose[:] = [*held.to_pylist(), None][:-1]
        yield "object frame", open_table(frame.assign(x=pd.Series(loose, dtype=object)))
        with (folder / "t.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(frame.columns)
            for row, cell in zip(frame.drop(columns="x").itertuples(index=False), loose, strict=True):
                writer.writerow(["" if cell is None else cell, *row])
        yield "CSV", open_table(folder / "t.csv")
    with contextlib.suppress(pa.ArrowException, ValueError, OverflowError, TypeError):
        yield "numpy frame", open_table(frame.assign(x=cells.to_pandas()))


def outcome(reader: Reader, opened: Any) -> Any:
    """What is read, or None where it is refused."""
    try:
        return reader.read(opened)
    except DataError:
        return None


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


def moved(reader: Reader, before: Any, after: Any, place: int) -> bool:
    """Whether anything but the changed row reads differently."""
    if reader.summed:
        return sum(((before - after) + (after - before)).values()) > 2
    others = [row for row in range(ROWS) if row != place]
    if reader.related:
        return any((before[i] == before[j]) != (after[i] == after[j]) for i in others for j in others)
    if len(before) != len(after):
        return True
    return any(not same(before[row], after[row]) for row in others)


@dataclass
class Findings:
    settings: int = 0
    read: int = 0  # of them, where both tables were taken
    all: list[str] = field(default_factory=list)

    @property
    def violations(self) -> int:
        return len(self.all)


def search(places: tuple[int, ...] = (0, 3), types: list[Any] | None = None, everywhere: bool = True) -> Findings:
    """All settings with the cell changed at these places."""
    found, asked = Findings(), readers()
    with tempfile.TemporaryDirectory() as folder:

        def read(cells: list[Any], kind: pa.DataType) -> dict[str, tuple[Any, dict[str, Any]]]:
            """What is declared, and what everybody reads, wherever the table lies."""
            tables = written(Path(folder), pa.array(cells, kind), everywhere)
            return {name: (schema(opened), {r.name: outcome(r, opened) for r in asked}) for name, opened in tables}

        for kind, cells, changes in TYPES if types is None else types:
            base = read(cells, kind)
            agree(base, kind, found)
            for change in changes:
                alone = read([change] * ROWS, kind)
                for place in places:
                    now = read([*cells[:place], change, *cells[place + 1 :]], kind)
                    agree(now, kind, found)
                    for source in base.keys() & now.keys():
                        if base[source][0] != now[source][0]:
                            continue  # another schema is no neighbour, and refused where terms were accepted
                        for reader in asked:
                            said = f"{kind}, row {place + 1} to {str(change)[:30]!r}, {source}, {reader.name}"
                            lonely = alone[source][1] if source in alone else {}
                            compare(reader, base[source][1], now[source][1], lonely, place, said, found)
    return found


def schema(opened: Any) -> Any:
    return declared_by_frame(opened) if isinstance(opened, pd.DataFrame) else opened.schema


def compare(reader: Reader, before: Any, after: Any, lonely: Any, place: int, said: str, found: Findings) -> None:
    one, two, alone = (each.get(reader.name) for each in (before, after, lonely))
    found.settings += 1
    if one is not None and two is not None:
        found.read += 1
        if moved(reader, one, two, place):
            found.all.append(f"{said}: another row reads differently")
    elif one is not None and alone is not None and two is None:
        found.all.append(f"{said}: refused, and no cell is to blame")


def agree(tables: Any, kind: pa.DataType, found: Findings) -> None:
    """Whether scales count exactly the names that a model's codes would take."""
    for source, (_, read) in tables.items():
        named, coded = read["scales, names"], read["names, gaps filled"]
        if (named is None) != (coded is None):
            found.all.append(f"{kind}, {source}: scales and codes do not agree on which cells have names")


@contextlib.contextmanager
def old_reading() -> Iterator[None]:
    """Columns of Parquet files by way of pandas, which makes floats of whole numbers beside a gap; scales that skip
    what has no name."""
    declared = table._declared

    def by_pandas(frame: Any, column: str, name: str) -> Any:
        if isinstance(frame, pd.DataFrame) and not isinstance(frame[column].dtype, pd.ArrowDtype):
            return declared(frame, column, name)
        cells = frame.column(column) if isinstance(frame, pa.RecordBatch) else pa.array(frame[column].array)
        try:
            return pa.table({column: cells}).to_pandas()[column]
        except Exception as error:
            raise DataError(f"{name}: column {column!r}: its cells cannot be read ({type(error).__name__})") from None

    with mock.patch.object(table, "_declared", by_pandas), mock.patch.object(CellTable, "require_names"):
        yield


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", action="store_true")
    options = parser.parse_args()
    began = time.perf_counter()
    with old_reading() if options.old else contextlib.nullcontext():
        found = search((0, 3))
    print(f"{found.settings:,} settings, {found.read:,} of them read both times; violations: {found.violations:,}")
    for words in found.all[:12]:
        print(f"  {words}")
    print(f"  {time.perf_counter() - began:.0f} s")
    if bool(found.violations) != options.old:
        raise SystemExit("a cell changed how another row is read" if found.violations else "the old hole was not found")


if __name__ == "__main__":
    main()
