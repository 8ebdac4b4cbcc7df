"""Rows of a task's own with a target each, and how a table becomes them: read in parts, bounded to who counts, held out
by place.

Formal guarantee: which records count, and which are held out, follows from their places and who they are about, never
from other cells; a record without a target is there, and adds nothing to any sum.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import NDArray

from parley.data import Preparation
from parley.data.design import Summable
from parley.data.holdout import counted_rows, held_out_people, how_many, parts_of, trained_places
from parley.data.preparation import require_records
from parley.data.sources import Rows, Table, open_table
from parley.data.sources.source import chosen_rows
from parley.data.table import require_columns
from parley.data.targets import has_target
from parley.errors import DataError
from parley.terms import Terms
from parley.validate import Floats


class WholeTable(Summable):
    """Records of a task's own, `called` so in messages. What takes rows of numbers is refused: moments, designs,
    batches."""

    called: ClassVar[str]

    def for_studies(self) -> Self:
        return self

    @property
    def studied(self) -> None:
        """None: reading the whole table takes the same time whatever it holds."""
        return

    @property
    def statistics(self) -> Never:
        raise self._no("moments")

    def sum(self, part: Callable[[Any], Floats]) -> Floats:
        raise self._no("sums over rows")

    def in_memory(self) -> Never:
        raise self._no("rows of numbers")

    def batch(self, places: NDArray[np.int64]) -> Never:
        raise self._no("batches")

    drawn = batch

    def _no(self, what: str) -> DataError:
        return DataError(f"{self.called} have no {what}: their own question reads all of them")


@dataclass(frozen=True, eq=False)
class TargetRows(WholeTable):
    """Records: rows X [n, ...] as the task takes them, targets [n], and which of them have one [n]."""

    X: NDArray[Any]
    y: Floats
    present: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def width(self) -> int:
        return int(np.prod(self.X.shape[1:]))

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """The records that are marked, or at these places."""
        return type(self)(self.X[chosen], self.y[chosen], self.present[chosen])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All records of several parts."""
        return cls(*(np.concatenate([getattr(part, key) for part in parts]) for key in ("X", "y", "present")))


class TargetPreparation(Preparation):
    """A preparation whose records are rows of a task's own, `made_of` them."""

    made_of: ClassVar[type[TargetRows]]

    @abstractmethod
    def cells(self, rows: Rows, name: str) -> NDArray[Any]:
        """The rows X [n, ...] of some records."""

    @property
    @abstractmethod
    def no_target(self) -> float:
        """What stands for a target that is not there; nobody looks at it."""

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[Any, Any]:
        """(training, held-out) records; which are held out follows from their places in the table, or from whom they
        are about: then all are on both sides, and those of the other side have no target."""
        source, columns = open_table(table), [*self.features, self.model.target]
        require_columns(source.example, columns, name)
        kept = counted_rows(source, terms.privacy, name)
        require_records(terms, name, how_many(source, kept))
        parts = [
            self.records(rows, name if not start else f"{name}, counted from row {start + 1} on")
            for start, rows in parts_of(source, columns, kept)
        ]
        whole = self.made_of.joined(parts)
        if self.model.holdout_by is not None:
            held_out = held_out_people(source, terms, name, kept)
            one, other = (replace(whole, present=whole.present & side) for side in (~held_out, held_out))
            return one, other
        train = trained_places(self.model, len(whole))
        return whole.where(train), whole.where(~train)

    def records(self, rows: Rows, name: str) -> Any:
        """Records of these rows."""
        present = has_target(rows, self.model, name)
        y = np.full(len(present), self.no_target)
        if present.all():
            y = self.target(rows, name)
        elif present.any():
            y[present] = self.target(chosen_rows(rows, present), f"{name}, of the rows with a target")
        return self.made_of(self.cells(rows, name), y, present)
