"""The sums of gradients and curvatures in the leaves of one tree: what boosting asks, round after round."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from parley.errors import DataError
from parley.privacy.mechanisms import Extent
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, Tables
from parley.tasks.trees.leaf_sums import RecordShare, leaf_means
from parley.tasks.trees.placed_rows import PlacedRows
from parley.tasks.trees.structure import Structure, make_structure
from parley.tasks.trees.terms import error_limit
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class LeafSumsQuery(Query):
    """The mean shares of records in the leaves of round `round`'s tree, where the trees so far have leaf values theta
    [..., P]."""

    kind: ClassVar[str] = "leaf-sums"
    theta: Floats


@dataclass(frozen=True, eq=False)
class LeafSumsQuestion(Question):
    """A record is in exactly one leaf of a tree, and adds a bounded share to it; the number of records is public.

    Formal guarantee: which leaf a record is in follows from its own cells and the terms, its share from its own cells
    and the question: an owner remembers nothing. Replacing the records of one person moves an answer by at most
    `sensitivity` (`leaf_sums` has the proof, rounding included). The leaves of one tree are one answer, for one cost;
    trees follow one after the other, each question chosen by the answers before, and every one of them is paid for.
    """

    asks = LeafSumsQuery

    structure: Structure
    share: RecordShare

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms, structure = context.terms, make_structure(context.preparation)
        share = RecordShare(terms.model.classifies, error_limit(terms), context.norm)
        rows = terms.train_rows(owner)
        most = terms.train_places(owner) / rows
        low = np.repeat([-most, 0.0], structure.largest)
        return cls(
            parameters=structure.parameters,
            records=rows,
            size=2 * structure.largest,
            norm=context.norm,
            sensitivity=share.sensitivity(rows, terms.privacy.records_per_person, most),
            extent=Extent(low, np.full(len(low), most), 2.0 * most, context.norm),
            bound=None,
            structure=structure,
            share=share,
        )

    @property
    def public_numbers(self) -> dict[str, float]:
        return {"limit": self.share.limit, "leaves": float(self.structure.parameters)}

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        check_parameter(query.arrays["theta"], (*replicates, self.parameters))

    def exact(self, query: LeafSumsQuery, tables: Tables) -> Floats:
        rows, structure = placed_rows_of(tables.train), self.structure
        leaves = structure.leaves[structure.place(query.round)]
        flat = query.theta.reshape(-1, self.parameters)
        found = np.zeros((len(flat), 2, structure.largest))
        for place, theta in enumerate(flat):
            found[place, :, : leaves.size] = leaf_means(rows, structure, leaves, theta, self.share, self.records)
        return found.reshape(*query.theta.shape[:-1], self.size)

    def words(self) -> str:
        return (
            f"the sums of errors and curvatures over {self.records:,} records in the leaves of one tree, "
            f"{self.size:,} numbers"
        )


def placed_rows_of(rows: Any) -> PlacedRows:
    """Rows that were placed in leaves."""
    if not isinstance(rows, PlacedRows):
        raise DataError("records: expected a table prepared by terms of boosted trees")
    return rows
