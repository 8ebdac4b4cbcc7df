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
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

import parley
from parley.audit.exact.cell_pool import COLUMN_ROWS, WHOLE_NOT_FLOAT
from parley.data import table
from parley.data.streamed import StreamedDesign
from parley.protocol.task import task_of
from parley.tasks.ratings.table import RatingPreparation, rating_preparation
from parley.tasks.statistics.column_statistics.question import MAGNITUDES, NAMES, CellTable, placed
from parley_lab.cell_reading import Findings, OutcomeByForm, Reader, search_cells

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from mutants import read_by_pandas  # type: ignore[import-not-found]

NAMED = [
    str(WHOLE_NOT_FLOAT),
    str(WHOLE_NOT_FLOAT + 2),
    "1",
    "0",
    "2.5",
    "a",
    "2020-01-01",
    "12:00:00",
    "1 days 00:00:00",
    "b'x'",
]


def terms(**model: Any) -> parley.Terms:
    content: dict[str, Any] = {
        "model": {"kind": "linear-regression", "target": "y", "features": ["x"], **model},
        "learning": {"horizon": 2},
        "privacy": {"clip": 1.0},
        "owners": [{"name": "a", "records": COLUMN_ROWS, "epsilon": 1.0}],
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
        "owners": [{"name": "a", "records": COLUMN_ROWS, "epsilon": 1.0}],
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
        "owners": [{"name": "a", "records": COLUMN_ROWS, "epsilon": 1.0}],
    }
    agreed = parley.Terms.from_dict(content)
    preparation = task_of(agreed).preparation(agreed)[0]

    def read(opened: Any) -> Any:
        rows = opened.frame([*states, "z", which])
        if column == "state":
            found = [states[:, 0].tolist() for states, _ in preparation.recordings(rows, "a")]  # type: ignore[attr-defined]
            return [found[row % 2][row // 2] for row in range(COLUMN_ROWS)]
        return table.groups(rows, which, "a", "its recording").tolist()

    return read


def readers() -> list[Reader]:
    named, classes = {"categories": {"x": NAMED}}, [*NAMED, "3", str(WHOLE_NOT_FLOAT + 4)]
    return [
        Reader("numbers", prepared()),
        Reader("numbers, gaps filled", prepared(missing="fill", bounds={"x": [-10, 10]})),
        Reader("names", prepared(**named)),
        Reader("names, gaps filled", prepared(**named, missing="fill", coding="one-hot")),
        Reader("names, merged", prepared(**named, merged=["x"], missing="fill", coding="one-hot")),
        Reader("dates", prepared(dates={"x": "%Y-%m-%d"}, missing="fill", bounds={"x": [0, 20000]})),
        Reader("target, a number", prepared(target="x", features=["y"])),
        Reader(
            "target, two classes",
            prepared(kind="linear-svm", target="x", features=["y"], positive=str(WHOLE_NOT_FLOAT)),
        ),
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


def agree(tables: OutcomeByForm, kind: pa.DataType, found: Findings) -> None:
    """Whether scales count exactly the names that a model's codes would take."""
    for source, (_, read) in tables.items():
        named, coded = read["scales, names"], read["names, gaps filled"]
        if (named is None) != (coded is None):
            found.all.append(f"{kind}, {source}: scales and codes do not agree on which cells have names")


@contextlib.contextmanager
def old_reading() -> Iterator[None]:
    """Columns of Parquet files by way of pandas, which makes floats of whole numbers beside a gap; scales that skip
    what has no name."""
    with mock.patch.object(table, "_declared", read_by_pandas), mock.patch.object(CellTable, "require_names"):
        yield


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", action="store_true")
    options = parser.parse_args()
    began = time.perf_counter()
    with old_reading() if options.old else contextlib.nullcontext():
        found = search_cells(readers(), (0, 3), also=agree)
    print(f"{found.settings:,} settings, {found.read:,} of them read both times; violations: {found.violations:,}")
    for words in found.all[:12]:
        print(f"  {words}")
    print(f"  {time.perf_counter() - began:.0f} s")
    if bool(found.violations) != options.old:
        raise SystemExit("a cell changed how another row is read" if found.violations else "the old hole was not found")


if __name__ == "__main__":
    main()
