"""Shared kinds of records: records bounded one by one, rows with a target each, and recordings.

Formal guarantee: which rows with targets count, and which are held out, follows from their places and who they are
about, never from other cells. A record without a target is there, and adds nothing to any sum.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation
from parley.data.design import UNIT_ROUNDOFF, Summable, summation_slack
from parley.data.holdout import count_rows, counted_rows, held_out_people, parts_of, trained_places
from parley.data.preparation import require_records
from parley.data.sources import Rows, Table, open_table
from parley.data.sources.source import chosen_rows
from parley.data.table import groups, require_columns
from parley.data.targets import has_target
from parley.errors import DataError
from parley.losses import RecordBound
from parley.losses.loss import tightest
from parley.losses.moments import moments_sensitivity
from parley.numerals import number
from parley.owner.disclosure import covering_epsilon
from parley.owner.owner import Agreement
from parley.owner.warnings import record_figures, record_sentences
from parley.privacy.accounting.meaning import gaussian_group_delta, group_delta
from parley.privacy.mechanisms import Gaussian, Norm
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, Tables, limited
from parley.protocol.setup import Setup
from parley.protocol.task import Task
from parley.terms import Terms
from parley.validate import SMALLEST, Floats, printable, upper


class BoundedRecords(Task):
    """A task in which a clip, or the bounds of columns, limit what one record adds to an answer."""

    def purpose(self, agreement: Agreement) -> list[str]:
        return [f"Model: {self.about(agreement)}."]

    def about(self, agreement: Agreement) -> str:
        """Return the kind of the model and its columns in words."""
        model = agreement.setup.terms.model
        columns = map(printable, (*agreement.setup.preparation.features, *self.columns(model)))
        return f"{model.kind} from the columns {', '.join(columns)}"

    def figures(self, agreement: Agreement) -> dict[str, Any]:
        return record_figures(agreement)

    def limits(self, agreement: Agreement) -> list[str]:
        return record_sentences(agreement)


class WholeTable(Summable):
    """Records read by a task's own question; moments, designs and batches are refused. `called` names them."""

    called: ClassVar[str]

    def for_studies(self) -> Self:
        return self

    @property
    def studied(self) -> None:
        """None: reading the whole table takes the same time for any content."""
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
    """Records: rows X [n, ...] as the task takes them, targets [n], and which targets are present [n]."""

    X: NDArray[Any]
    y: Floats
    present: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def width(self) -> int:
        return int(np.prod(self.X.shape[1:]))

    @cached_property
    def untargeted(self) -> int:
        return len(self) - int(np.count_nonzero(self.present))

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """Return the records that are marked, or at these places."""
        return type(self)(self.X[chosen], self.y[chosen], self.present[chosen])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return all records of several parts."""
        return cls(*(np.concatenate([getattr(part, key) for part in parts]) for key in ("X", "y", "present")))


class TargetPreparation(Preparation):
    """A preparation whose records are rows of the class `made_of`."""

    made_of: ClassVar[type[TargetRows]]

    @abstractmethod
    def cells(self, rows: Rows, name: str) -> NDArray[Any]:
        """Return the rows X [n, ...] of some records."""

    @property
    @abstractmethod
    def no_target(self) -> float:
        """The unused stand-in for a missing target."""

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[Any, Any]:
        """Return (training, held-out) records, split by place in the table or by person. By person all records are on
        both sides, and those of the other side have no target."""
        source, columns = open_table(table), [*self.features, self.model.target]
        require_columns(source.example, columns, name)
        kept = counted_rows(source, terms.privacy, name)
        require_records(terms, name, count_rows(source, kept))
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
        """Return the records of these rows."""
        present = has_target(rows, self.model, name)
        y = np.full(len(present), self.no_target)
        if present.all():
            y = self.target(rows, name)
        elif present.any():
            y[present] = self.target(chosen_rows(rows, present), f"{name}, of the rows with a target")
        return self.made_of(self.cells(rows, name), y, present)


GROUP_SIZES = (2, 5, 10)  # for how many recordings delta is said


def by_recording(table: Rows, column: str, cells: NDArray[Any], name: str, whose: str) -> list[NDArray[Any]]:
    """Split cells [n, ...] by the name in this column, in the order in which the names first appear."""
    which = groups(table, column, name, whose)
    order = np.argsort(which, kind="stable")
    return np.split(cells[order], np.cumsum(np.bincount(which)))[:-1]  # behind the last end there is nothing


@dataclass(frozen=True, eq=False)
class RecordedMomentsQuestion(Question):
    """Every recording's matrix, the upper triangle of its mean of z z', is bounded as a whole.

    Formal guarantee: for a row z of w numbers of size at most 1, z z' has norm at most Xi = |z|^2 <= w in L2 and (w^2 +
    w)/2 in L1 over the upper triangle. So does a sum over at most `rows` rows divided by `rows`; a smaller clip scales
    a matrix down as a whole. Both matrices are positive semidefinite, so replacing a recording moves the mean of n by
    at most sqrt 2 Xi/n in L2 and 2 Xi/n in L1 (`losses.moments`). A computed matrix is off by (rows + 8) u times one of
    norm at most sqrt w Xi. So the inner product of two may be below zero by 2 sqrt w (rows + 8) u Xi^2, and their
    difference larger by a factor of less than 1 + 2 w (rows + 8) u.
    """

    bound: RecordBound
    # what entries off the diagonal are multiplied with: in L2 sqrt 2, so that the norm is the matrix's
    off_diagonal: float

    @classmethod
    def of(cls, context: Context, owner: str, width: int, rows: int) -> Self:
        """Return this owner's question, where a recording has at most `rows` rows of `width` numbers."""
        records, size = context.terms.train_rows(owner), context.preparation.width
        implied = float(width if context.norm == "l2" else (width**2 + width) / 2) * (1 + 1e-12)
        bound = limited(tightest(context.limits.clip, implied, context.norm))
        slack = summation_slack(records, size)
        return cls(
            parameters=context.parameters,
            records=records,
            size=size,
            norm=context.norm,
            sensitivity=moments_sensitivity(bound, records, slack) * (1 + 2 * width * (rows + 8) * UNIT_ROUNDOFF),
            extent=bound.extent(slack),
            bound=bound,
            off_diagonal=scale_of(context.norm),
        )

    def exact(self, query: Query, tables: Tables) -> Floats:
        def part(block: Design) -> Floats:
            packed = self._packed(block)
            limit = self.bound.value / np.maximum(self._norms(packed), SMALLEST**2)
            share = np.minimum(1.0, limit * (1 - (4 * packed.shape[1] + 16) * UNIT_ROUNDOFF))
            return np.asarray(share @ packed)

        return tables.train.sum(part) / len(tables.train)

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        return self._norms(self._packed(design))

    def _packed(self, block: Design) -> Floats:
        return block.X * packed_scale(block.width, self.off_diagonal)

    def _norms(self, packed: Floats) -> Floats:
        return np.asarray(
            np.abs(packed).sum(axis=1) if self.norm == "l1" else np.sqrt(np.einsum("ij,ij->i", packed, packed))
        )


def scale_of(norm: Norm) -> float:
    """Return the factor of off-diagonal entries."""
    return 1.0 if norm == "l1" else float(np.sqrt(2))


def packed_scale(length: int, off_diagonal: float) -> Floats:
    """Return the factor of every number of an upper triangle of this length."""
    width = round((np.sqrt(8 * length + 1) - 1) / 2)
    i, j = np.triu_indices(width)
    return np.where(i == j, 1.0, off_diagonal)


def several_recordings(setup: Setup, name: str) -> str:
    """Say what m recordings at this owner are promised: m times the epsilon, and which delta."""
    sentence = " For a person with m recordings, ε is m times as large"
    if not setup.terms.privacy.delta > 0:
        return f"{sentence}."
    deltas = {several: recordings_delta(setup, name, several) for several in GROUP_SIZES}
    listed = ", ".join(f"{number(delta, side='above')} for m = {several}" for several, delta in deltas.items())
    nothing = "; a δ of 1 promises nothing" if max(deltas.values()) == 1 else ""
    return f"{sentence}, and δ grows: {listed}{nothing}."


def recordings_delta(setup: Setup, name: str, several: int) -> float:
    """Return the delta at which `several` recordings together have `several` times the epsilon of one.

    Formal guarantee: exact for an owner's own normal noise in its one release. Otherwise it is the bound for any noise,
    from the epsilon and delta that cover all copies of a recording.
    """
    terms, series = setup.terms, setup.part(name).training.series
    own = not terms.noise.summed and terms.privacy.shared_records == 1
    epsilon = upper(covering_epsilon(terms, name))
    if own and isinstance(series.mechanism, Gaussian):
        shift = series.mechanism.sensitivity / series.mechanism.sigma
        return gaussian_group_delta(epsilon, shift * series.count**0.5, several)
    return group_delta(epsilon, terms.privacy.delta, several)
