"""The question of counts: how many records lie in each cell that the terms declare, asked once.

Formal guarantee: a row lies in exactly one cell, by its own cell of the counted column and the terms alone; a gap, an
unlisted name and a number beyond the bounds lie elsewhere. A step includes its lower end and not its upper one, the
last includes both; ends are compared as floats, without arithmetic on a row's number. So replacing a row takes 1 from
one cell and adds 1 to one. Where names are counted, a cell without a name (a list, a float from 2^53 on) refuses the
whole table when its owner accepts or simulates, before anything is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from parley.data import Preparation
from parley.data.cells import is_missing_word
from parley.data.holdout import count_rows, counted_rows, parts_of
from parley.data.preparation import require_records
from parley.data.sources import Rows, Table, TableSource, open_table
from parley.data.table import codes, raw_cells, require_columns
from parley.errors import DataError
from parley.privacy.accounting import Series
from parley.privacy.accounting.series import GeometricSeries, PureSeries, per_round
from parley.privacy.mechanisms import Extent
from parley.privacy.mechanisms.geometric import WholeGeometric
from parley.privacy.mechanisms.randomised_response import RandomisedResponse
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, ReleasePlan, Tables
from parley.tasks.records import WholeTable
from parley.tasks.statistics.counts.terms import RANDOMISED_RESPONSE, cell_names, step_ends
from parley.terms import Model, Terms
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class CellCounts(WholeTable):
    """The number of rows in each cell; elsewhere is last."""

    called: ClassVar[str] = "counts"

    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def width(self) -> int:
        return len(self.counts)


class CountPreparation(Preparation):
    """The counted cells, which the terms fix; nothing is bounded or scaled."""

    @property
    def width(self) -> int:
        return len(cell_names(self.model))

    @property
    def classes(self) -> tuple[str, ...]:
        """Empty: nothing is predicted."""
        return ()

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[CellCounts, CellCounts]:
        """Return (counts of all rows, counts of none)."""
        source, columns = open_table(table), [self.model.target]
        require_columns(source.example, columns, name)
        listed = self.model.categories.get(self.model.target, ())
        require_told_apart(listed, f"model.categories.{self.model.target} lists", source, name, "terms")
        kept = counted_rows(source, terms.privacy, name)
        require_records(terms, name, count_rows(source, kept))
        cells = _cells(self.model)
        counts = np.zeros(cells + 1, dtype=np.int64)
        for _, rows in parts_of(source, columns, kept):
            counts += np.bincount(placed(self.model, rows, name), minlength=cells + 1)
        return CellCounts(counts), CellCounts(np.zeros_like(counts))


def require_told_apart(names: Sequence[str], where: str, source: TableSource, name: str, instead: str) -> None:
    """Refuse names that this kind of table cannot tell from a gap; no row is read."""
    lost = [word for word in names if source.drops_words and is_missing_word(word)]
    if lost:
        raise DataError(
            f"{name}: {where} {lost[0]!r}, but this name also means a missing cell in a CSV file; use a Parquet file, "
            f"or {instead} without this name"
        )


def placed(model: Model, rows: Rows, name: str) -> NDArray[np.int64]:
    """Return the cell of every row [n]; elsewhere is the last."""
    column, cells = model.target, _cells(model)
    if column in model.categories:
        names = model.categories[column]
        name_codes = codes(rows, column, names, name, gaps=True, listed=frozenset(names))
        return np.where(name_codes < len(names), name_codes if model.kind == "histogram" else 0, cells).astype(np.int64)
    place, numbers, _ = raw_cells(rows, column, name)
    values: Floats = np.array([*numbers, np.nan])[place]  # the last is for gaps
    ends = np.array(step_ends(model))
    inside = (values >= ends[0]) & (values <= ends[-1])
    return np.where(inside, np.searchsorted(ends[1:-1], values, side="right"), cells).astype(np.int64)


def _cells(model: Model) -> int:
    """Return the number of cells without elsewhere."""
    if model.kind == "count":
        return 1
    return len(model.categories.get(model.target, ())) or len(step_ends(model)) - 1


def count_preparation(model: Model) -> CountPreparation:
    """Return the preparation that the terms alone fix."""
    none = np.zeros(0)
    return CountPreparation(model, (), dict(model.categories), none, none, (-np.inf, np.inf), none, none)


@dataclass(frozen=True, eq=False)
class CountsQuery(Query):
    """The shares of an owner's records in the agreed cells; it carries nothing else."""

    kind: ClassVar[str] = "counts"


@dataclass(frozen=True, eq=False)
class CountsQuestion(Question):
    """Every record lies in one cell; an answer has the shares of all cells, or the one share of a count.

    Formal guarantee: replacing k of n records moves k of them out of cells and k into some. A count changes by at most
    k, a histogram by at most 2 k in L1 and k sqrt 2 in L2 (all k from one cell to another). Counts are exact; the
    places that change divide to other floats, each off by at most 2^-53, which the last factor covers. Two-sided
    geometric noise and randomised response recover the whole numbers from the shares, so only these counts matter to
    them.
    """

    asks = CountsQuery

    per_person: int
    whole: bool  # whether all cells are released: a histogram

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms = context.terms
        n, k, cells = terms.train_rows(owner), terms.privacy.records_per_person, len(cell_names(terms.model))
        whole, norm = terms.model.kind == "histogram", context.norm
        moved = (2.0 if norm == "l1" else 2**0.5) if whole else 1.0
        return cls(
            parameters=cells,
            records=n,
            size=cells,
            norm=norm,
            sensitivity=k * moved / n * (1 + (n + 8) * 2.0**-52),
            extent=Extent(0.0, 1.0, 1.0, norm),
            bound=None,
            per_person=k,
            whole=whole,
        )

    @property
    def public_numbers(self) -> dict[str, float]:
        return {"cells": float(self.size)}

    def series(self, plan: ReleasePlan) -> Series:
        """Return noise on whole numbers, randomised response, or Gaussian noise as for any answer."""
        once = per_round(plan.epsilon / plan.copies, plan.count)
        promised = plan.epsilon, plan.delta, plan.count, plan.copies
        if plan.mechanism == RANDOMISED_RESPONSE:
            response = RandomisedResponse.calibrate(
                once, max(self.size, 2), self.records, self.per_person, self.sensitivity
            )
            return PureSeries(response, *promised)
        if plan.mechanism == "geometric":
            moved = self.per_person * (2 if self.whole else 1)
            noise = WholeGeometric.calibrate(once, self.sensitivity, moved, self.records)
            return GeometricSeries(noise, *promised)
        return super().series(plan)

    def exact(self, query: CountsQuery, tables: Tables) -> Floats:
        if not isinstance(tables.train, CellCounts):
            raise DataError("records: expected a table prepared with terms for counts")
        return tables.train.counts[: self.size] / self.records

    def words(self) -> str:
        cells = "the number" if self.size == 1 else f"the numbers in {self.size:,} cells"
        return f"{cells} of {self.records:,} records, each counted once"
