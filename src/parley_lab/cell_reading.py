"""One cell changed in a column of every declared type, in every form of table: does any other row read differently?

A violation is another row that reads differently, a count that moves by more than the changed row, or a refusal without
a cell, or a declared type, to blame: every cell alone is taken, all together are not.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from parley.audit.exact.cell_pool import COLUMN_ROWS, COLUMN_TYPES, FORMS, UNWRITABLE, Form
from parley.data.cells import Schema
from parley.data.sources import TableSource, open_table
from parley.errors import DataError

OutcomeByForm = Mapping[str, tuple[Schema, Mapping[str, Any]]]  # by form: what is declared, and what each reader reads


@dataclass(frozen=True)
class Reader:
    """What reads the column `x` of a table: the rows' own values, or counts of which one row moves two by 1."""

    name: str
    read: Callable[[TableSource], Any]
    summed: bool = False
    related: bool = False  # what a row reads as tells which rows belong together, and nothing else

    def outcome(self, opened: TableSource) -> Any:
        """What is read, or None where it is refused."""
        try:
            return self.read(opened)
        except DataError:
            return None

    def moved(self, before: Any, after: Any, place: int) -> bool:
        """Whether anything but the changed row reads differently."""
        if self.summed:
            return int(sum(((before - after) + (after - before)).values())) > 2
        others = [row for row in range(COLUMN_ROWS) if row != place]
        if self.related:
            return any((before[i] == before[j]) != (after[i] == after[j]) for i in others for j in others)
        return len(before) != len(after) or any(repr(before[row]) != repr(after[row]) for row in others)


@dataclass
class Findings:
    """How many settings were looked at, of those how many where both tables were taken, and every violation."""

    settings: int = 0
    read: int = 0
    all: list[str] = field(default_factory=list)

    @property
    def violations(self) -> int:
        return len(self.all)

    def compare(self, reader: Reader, before: Any, after: Any, alone: Any, place: int, said: str) -> None:
        """Look at one setting: what a reader made of the column, of the one with a cell changed, and of one with
        nothing but that cell."""
        self.settings += 1
        if before is not None and after is not None:
            self.read += 1
            if reader.moved(before, after, place):
                self.all.append(f"{said}: another row reads differently")
        elif before is not None and alone is not None and after is None:
            self.all.append(f"{said}: refused, and no cell is to blame")


def columns_beside(cells: pa.Array) -> pa.Table:
    """The column `x` and others that readers need."""
    rows = range(len(cells))
    return pa.table(
        {
            "x": cells,
            "y": pa.array([float(row) for row in rows]),
            "z": pa.array([0.5] * len(cells)),
            "who": pa.array([f"u{row % 2}" for row in rows]),
            "what": pa.array([str(row % 5 + 1) for row in rows]),
        }
    )


def search_cells(
    readers: Sequence[Reader],
    places: Sequence[int],
    types: Sequence[tuple[pa.DataType, list[Any], list[Any]]] = COLUMN_TYPES,
    forms: Sequence[Form] = FORMS,
    also: Callable[[OutcomeByForm, pa.DataType, Findings], None] = lambda outcomes, kind, found: None,
) -> Findings:
    """All settings with the cell changed at these places; `also` looks at every table by itself."""
    found = Findings()
    with tempfile.TemporaryDirectory() as folder:

        def read(cells: list[Any], kind: pa.DataType) -> OutcomeByForm:
            tables = _written(Path(folder), pa.array(cells, kind), forms)
            return {name: (opened.schema, {r.name: r.outcome(opened) for r in readers}) for name, opened in tables}

        for kind, cells, changes in types:
            base = read(cells, kind)
            also(base, kind, found)
            for change in changes:
                alone = read([change] * COLUMN_ROWS, kind)
                for place in places:
                    now = read([*cells[:place], change, *cells[place + 1 :]], kind)
                    also(now, kind, found)
                    context = f"{kind}, row {place + 1} to {str(change)[:30]!r}"
                    _compare_all(readers, (base, now, alone), place, context, found)
    return found


def _compare_all(
    readers: Sequence[Reader],
    tables: tuple[OutcomeByForm, OutcomeByForm, OutcomeByForm],
    place: int,
    said: str,
    found: Findings,
) -> None:
    base, now, alone = tables
    for form in base.keys() & now.keys():
        if base[form][0] != now[form][0]:
            continue  # another schema is no neighbour, and refused where terms were accepted
        lonely = alone[form][1] if form in alone else {}
        for reader in readers:
            before, after = base[form][1][reader.name], now[form][1][reader.name]
            where = f"{said}, {form}, {reader.name}"
            found.compare(reader, before, after, lonely.get(reader.name), place, where)


def _written(folder: Path, cells: pa.Array, forms: Sequence[Form]) -> Iterator[tuple[str, TableSource]]:
    """The same table in each form; what a form cannot hold is left out."""
    for form in forms:
        try:
            opened = open_table(form.write(columns_beside(cells), folder))
        except UNWRITABLE:
            continue
        yield form.name, opened
