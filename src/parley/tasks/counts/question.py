"""How many records lie in each of the cells that the terms declare: one question, asked once."""

from dataclasses import dataclass
from typing import ClassVar, Self

from parley.errors import DataError
from parley.privacy.accounting import Series
from parley.privacy.accounting.budget import per_round
from parley.privacy.accounting.series import GeometricSeries, PureSeries
from parley.privacy.mechanisms import Extent
from parley.privacy.mechanisms.randomised_response import RandomisedResponse
from parley.privacy.mechanisms.whole_geometric import WholeGeometric
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, ReleasePlan, Tables
from parley.tasks.counts.cell_counts import CellCounts
from parley.tasks.counts.terms import RESPONSE, cell_names
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class CountsQuery(Query):
    """The shares of an owner's records in the agreed cells; nothing travels with it."""

    kind: ClassVar[str] = "counts"


@dataclass(frozen=True, eq=False)
class CountsQuestion(Question):
    """Every record lies in one cell; an answer has the shares of all cells, or the one share that a count is about.

    Formal guarantee: replacing k of n records moves k of them out of cells and k into some. A count changes by at most
    k, a histogram by at most 2 k in L1 and k sqrt 2 in L2 (all k in one cell, and all in another after). Counts are
    exact; the places that change are divided to other floats, each off by at most 2^-53, which the last factor covers.
    Two-sided geometric noise and randomised response take the whole numbers back from the shares, so that nothing but
    these counts matters to them.
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
        """Noise on whole numbers of records, or randomised response; Gaussian noise as for any answer."""
        once = per_round(plan.epsilon / plan.copies, plan.count)
        promised = plan.epsilon, plan.delta, plan.count, plan.copies
        if plan.mechanism == RESPONSE:
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
            raise DataError("records: expected a table prepared by terms that count")
        return tables.train.counts[: self.size] / self.records

    def words(self) -> str:
        cells = "the number" if self.size == 1 else f"the numbers in {self.size:,} cells"
        return f"{cells} of {self.records:,} records, each counted once"
