"""The rows of a table, part by part in one fixed order, whatever it lies in; and which of them count where people have
several, and which are about people who are held out."""

import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from parley.data.holdout import is_held_out
from parley.data.sources import Rows, TableSource
from parley.data.sources.rows import chosen_rows
from parley.data.table import PERSON, first_rows, names_of, require_columns
from parley.errors import DataError
from parley.terms import Privacy, Terms

Kept = NDArray[np.bool_] | None  # which rows count; None: all


def parts_of(table: TableSource, columns: Sequence[str], kept: Kept = None) -> Iterator[tuple[int, Rows]]:
    """(how many counted rows come before, some rows of these columns), every row that counts once, or an error."""
    place = counted = 0
    table.require_unchanged()
    for rows in table.batches(columns):
        here = None if kept is None else kept[place : place + len(rows)]
        place += len(rows)
        _require(place <= len(table), table)
        if here is not None and not here.all():
            rows = chosen_rows(rows, here)
        yield counted, rows
        counted += len(rows)
    table.require_unchanged()
    _require(place == len(table), table)


def small_parts(parts: Iterable[tuple[int, Rows]], most: int) -> Iterator[tuple[int, Rows]]:
    """The same with at most so many rows in each."""
    for start, rows in parts:
        if len(rows) <= most:
            yield start, rows
            continue
        place = np.arange(len(rows)) // most
        for piece in range(int(place[-1]) + 1):
            yield start + piece * most, chosen_rows(rows, place == piece)


def _require(whole: bool, table: TableSource) -> None:
    if not whole:
        raise DataError(f"{table.where}: it holds another number of rows than when the table was opened")


def counted_rows(table: TableSource, privacy: Privacy, name: str) -> Kept:
    """Of every person the first `privacy.records_per_person` rows count; without `privacy.person` all do."""
    if privacy.person is None:
        return None
    if table.streams:
        raise DataError(
            f"{name}: privacy.person: a streamed table cannot count each person's rows; give one file, or one row a "
            f"person"
        )
    require_columns(table.example, [privacy.person], name)
    return first_rows(table.frame([privacy.person]), privacy.person, privacy.records_per_person, name)


def held_out_people(table: TableSource, terms: Terms, name: str, kept: Kept) -> NDArray[np.bool_]:
    """Which of the rows that count are about people who are held out, as truth values; all rows of a person are on one
    side.

    Formal guarantee: a row's mark is a function of the terms and of the cell that says whom it is about.
    """
    person = str(terms.privacy.person)
    place, called = names_of(table.frame([person]), person, name, PERSON)
    marks = np.array([is_held_out(terms.model, text) for text in called], dtype=bool)[place]
    return marks if kept is None else marks[kept]


def require_room(table: TableSource, rows: int, width: int) -> None:
    """Refuse a table whose prepared rows, `width` numbers each with target and weight, this machine has no memory
    for."""
    needed, memory = 8 * rows * (width + 2), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise DataError(
            f"{table.where}: its prepared rows need {needed / 1e9:.0f} GB, this machine has {memory / 1e9:.0f}; a "
            f"release streams a folder of Parquet files, everything else takes some of its rows"
        )


def how_many(table: TableSource, kept: Kept) -> int:
    """The number of rows that count."""
    return len(table) if kept is None else int(np.count_nonzero(kept))
