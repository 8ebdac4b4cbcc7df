"""The rows of a table that count, those for training and those held out, by place or by person.

Formal guarantee: the rules by place are functions of the number of rows and of the terms alone. Neighbouring tables
have the same size, so they hold out the same places, exactly as many as the terms say (`terms.sections`): the choice
reveals nothing, and a mean over either part has a public number of rows. If people are held out (`is_held_out`), a
row's side follows from its own cell and the terms. How many rows are on a side is private, so every row keeps its place
on both sides and counts 0 on one (`data.preparation`).
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

import numpy as np
from numpy.typing import NDArray

from parley.data.cells import plain_name
from parley.data.design import Design
from parley.data.sources import Rows, TableSource
from parley.data.sources.source import chosen_rows
from parley.data.table import PERSON_NAME, first_rows, names_of, require_columns
from parley.errors import DataError
from parley.terms import Model, Privacy, Terms, held_out_records, training_records

STRATUM_ROWS = 4096  # neighbouring places among which some are chosen
_ROWS_DOMAIN = b"parley holdout"
_PEOPLE_DOMAIN = b"parley holdout by person"

Marks = NDArray[np.bool_]


class Choice(ABC):
    """Chosen places of a table."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of chosen places."""

    @abstractmethod
    def marks(self, start: int, stop: int) -> Marks:
        """Mark the chosen ones of the places from start to stop - 1 [stop - start]."""

    @abstractmethod
    def count(self, start: int, stop: int) -> int:
        """Return how many of these places are chosen."""

    @abstractmethod
    def within(self, start: int, stop: int) -> "Choice":
        """Return the choice for these places alone, small enough to send to another machine."""


@dataclass(frozen=True, eq=False)
class Marked(Choice):
    """Places that are marked one by one, eight to a byte; the first mark is that of place `first`."""

    bits: NDArray[np.uint8]
    first: int = 0

    @classmethod
    def from_marks(cls, marks: Marks, first: int = 0) -> "Marked":
        return cls(np.packbits(marks), first)

    def __len__(self) -> int:
        return int(np.bitwise_count(self.bits).sum())

    def marks(self, start: int, stop: int) -> Marks:
        start, stop = start - self.first, stop - self.first
        byte = start // 8
        bits = np.unpackbits(self.bits[byte : -(-stop // 8)], count=stop - 8 * byte)
        return bits[start - 8 * byte :].astype(bool)

    def count(self, start: int, stop: int) -> int:
        return int(np.count_nonzero(self.marks(start, stop)))

    def within(self, start: int, stop: int) -> "Marked":
        return self.from_marks(self.marks(start, stop), start)


@dataclass(frozen=True)
class ByPlace(Choice):
    """`held` of `rows` places, by words of SHAKE-256; with `others` all other places.

    From the stratum of places a to b - 1, floor(b held/rows) - floor(a held/rows) places are chosen, `held` in all:
    those with the smallest words that follow from the seed and the stratum's number. So one place can be looked up
    without the rest of the table.

    >>> choice = ByPlace(10_000, 2_000, seed=7)
    >>> len(choice), int(choice.marks(0, 10_000).sum()), choice.count(0, 4096)
    (2000, 2000, 819)
    """

    rows: int
    held: int
    seed: int
    others: bool = False

    def __len__(self) -> int:
        return self.rows - self.held if self.others else self.held

    def marks(self, start: int, stop: int) -> Marks:
        first, last = start // STRATUM_ROWS, -(-stop // STRATUM_ROWS)
        found = [np.empty(0, dtype=bool), *(self._stratum(number) for number in range(first, last))]
        return np.concatenate(found)[start - first * STRATUM_ROWS : stop - first * STRATUM_ROWS]

    def count(self, start: int, stop: int) -> int:
        return self._before(stop) - self._before(start)

    def within(self, start: int, stop: int) -> "ByPlace":
        return self

    def _before(self, place: int) -> int:
        """Return how many places before this one are chosen."""
        whole = place // STRATUM_ROWS * STRATUM_ROWS
        held = whole * self.held // self.rows if whole < self.rows else self.held
        chosen = whole - held if self.others else held
        return chosen + (int(np.count_nonzero(self.marks(whole, place))) if place > whole else 0)

    def _stratum(self, number: int) -> Marks:
        start, stop = number * STRATUM_ROWS, min((number + 1) * STRATUM_ROWS, self.rows)
        size, chosen = stop - start, stop * self.held // self.rows - start * self.held // self.rows
        if chosen in (0, size):
            return np.full(size, (chosen == size) is not self.others)
        key = _ROWS_DOMAIN + self.seed.to_bytes(8, "little") + number.to_bytes(8, "little")
        words = np.frombuffer(hashlib.shake_256(key).digest(4 * size), dtype="<u4").astype(np.uint64)
        ranked = words * STRATUM_ROWS + np.arange(size, dtype=np.uint64)  # no two alike
        return np.asarray((ranked <= np.partition(ranked, chosen - 1)[chosen - 1]) ^ self.others)


def split_places(model: Model, rows: int) -> tuple[Choice | None, Choice]:
    """Return (training places, None for all; held-out places), as the terms say."""
    held = held_out_records(rows, model.holdout)
    if not held:
        return None, ByPlace(rows, 0, 0)
    if model.holdout_seed is not None:
        return ByPlace(rows, held, model.holdout_seed, others=True), ByPlace(rows, held, model.holdout_seed)
    train = _permuted(rows, training_records(rows, model.holdout))
    return Marked.from_marks(train), Marked.from_marks(~train)


def trained_places(model: Model, rows: int) -> Marks:
    """Mark the training places [rows]."""
    if model.holdout_seed is None:
        return _permuted(rows, training_records(rows, model.holdout))
    return ByPlace(rows, held_out_records(rows, model.holdout), model.holdout_seed, others=True).marks(0, rows)


def is_held_out(model: Model, person: str) -> bool:
    """Whether the first word of SHAKE-256 of the seed and the name is below the share. Whole numbers written with
    decimals and outer spaces do not change a name."""
    key = (
        _PEOPLE_DOMAIN
        + (model.holdout_seed or 0).to_bytes(8, "little")
        + plain_name(person.strip()).encode(errors="surrogatepass")
    )
    word = int.from_bytes(hashlib.shake_256(key).digest(8), "little")
    return word < Fraction(model.holdout) * 2**64


def name_on_side(model: Model, stem: str, held_out: bool) -> str:
    """Return `stem`, or the first numbered variant of it, that names somebody on this side of a split by person."""
    names = (stem if not number else f"{stem} {number}" for number in count())
    return next(name for name in names if is_held_out(model, name) is held_out)


def _permuted(rows: int, kept: int) -> Marks:
    """Mark the first `kept` places of one permutation of all: the rule of terms without a seed."""
    train = np.ones(rows, dtype=bool)
    train[np.random.default_rng(0).permutation(rows)[kept:]] = False
    return train


CountedRows = NDArray[np.bool_] | None  # which rows count; None: all


def parts_of(table: TableSource, columns: Sequence[str], kept: CountedRows = None) -> Iterator[tuple[int, Rows]]:
    """Yield (number of counted rows before, some rows of these columns): every row that counts once, or an error."""
    place = counted = 0
    table.require_unchanged()
    for rows in table.batches(columns):
        counted_here = None if kept is None else kept[place : place + len(rows)]
        place += len(rows)
        _require_same_size(place <= len(table), table)
        if counted_here is not None and not counted_here.all():
            rows = chosen_rows(rows, counted_here)
        yield counted, rows
        counted += len(rows)
    table.require_unchanged()
    _require_same_size(place == len(table), table)


def small_parts(parts: Iterable[tuple[int, Rows]], most: int) -> Iterator[tuple[int, Rows]]:
    """Yield the same parts cut to at most `most` rows."""
    for start, rows in parts:
        if len(rows) <= most:
            yield start, rows
            continue
        place = np.arange(len(rows)) // most
        for piece in range(int(place[-1]) + 1):
            yield start + piece * most, chosen_rows(rows, place == piece)


def _require_same_size(whole: bool, table: TableSource) -> None:
    if not whole:
        raise DataError(f"{table.where}: the number of rows changed since the table was opened; open the table again")


def counted_rows(table: TableSource, privacy: Privacy, name: str) -> CountedRows:
    """Mark the first `privacy.records_per_person` rows of every person; None, for all, without `privacy.person`."""
    if privacy.person is None:
        return None
    if table.streams:
        raise DataError(
            f"{name}: privacy.person: Parley cannot count rows per person in a folder of Parquet files; give all rows "
            "in one file"
        )
    require_columns(table.example, [privacy.person], name)
    return first_rows(table.frame([privacy.person]), privacy.person, privacy.records_per_person, name)


def held_out_people(table: TableSource, terms: Terms, name: str, kept: CountedRows) -> NDArray[np.bool_]:
    """Mark the counted rows about people who are held out; all rows of a person are on one side.

    Formal guarantee: a row's mark is a function of the terms and of the cell that says whom it is about.
    """
    person = str(terms.privacy.person)
    place, called = names_of(table.frame([person]), person, name, PERSON_NAME)
    marks = np.array([is_held_out(terms.model, text) for text in called], dtype=bool)[place]
    return marks if kept is None else marks[kept]


def require_room(table: TableSource, rows: int, width: int) -> None:
    """Refuse a table whose prepared rows, `width` numbers each with target and weight, exceed this machine's memory."""
    needed, memory = 8 * rows * (width + 2), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise DataError(
            f"{table.where}: the table's prepared rows need {needed / 1e9:.0f} GB of memory, but this machine has "
            f"{memory / 1e9:.0f} GB; use fewer rows, or a folder of Parquet files, which a release reads in parts"
        )


def count_rows(table: TableSource, kept: CountedRows) -> int:
    """Return the number of rows that count."""
    return len(table) if kept is None else int(np.count_nonzero(kept))


def gather_designs(
    parts: Iterable[tuple[int, Rows]], train: Marks, width: int, prepare: Callable[[Rows, str], Design], name: str
) -> tuple[Design, Design]:
    """Return the (training, held-out) rows in memory, prepared part by part: nothing else of the table is held."""
    sizes = int(np.count_nonzero(train)), int(np.count_nonzero(~train))
    designs = [Design(np.empty((size, width)), np.empty(size), np.empty(size)) for size in sizes]
    filled = [0, 0]
    for start, rows in parts:
        block = prepare(rows, name if not start else f"{name}, counted from row {start + 1} on")
        in_training = train[start : start + len(block)]
        for which, chosen in enumerate((in_training, ~in_training)):
            some, whole, first = block if chosen.all() else block.where(chosen), designs[which], filled[which]
            filled[which] = last = first + len(some)
            whole.X[first:last], whole.y[first:last], whole.weight[first:last] = some.X, some.y, some.weight
    return designs[0], designs[1]
