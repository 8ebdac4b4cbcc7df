"""Recordings as records: a table told into them, and the mean over recordings of the second moments of each one's rows,
all that a regression over time needs of a table."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from parley.data import Design
from parley.data.design import UNIT, summation_slack
from parley.data.sources import Rows
from parley.data.table import groups
from parley.losses import RecordBound
from parley.losses.moments import moments_sensitivity
from parley.losses.record_bound import tightest
from parley.numerals import number
from parley.owner.record_leakage import covering_epsilon
from parley.privacy.accounting.meaning import gaussian_group_delta, group_delta
from parley.privacy.mechanisms import Gaussian, Norm
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, Tables, limited
from parley.protocol.setup import Setup
from parley.validate import SMALLEST, Floats, upper

TOLD = (2, 5, 10)  # for how many recordings delta is said


def by_recording(table: Rows, column: str, cells: NDArray[Any], name: str, whose: str) -> list[NDArray[Any]]:
    """Those cells [n, ...] whose rows have one name in this column, in their order, for each name in the order in which
    they begin."""
    which = groups(table, column, name, whose)
    order = np.argsort(which, kind="stable")
    return np.split(cells[order], np.cumsum(np.bincount(which)))[:-1]  # behind the last end there is nothing


@dataclass(frozen=True, eq=False)
class RecordedMomentsQuestion(Question):
    """Every recording's matrix, as the upper triangle of its mean of z z', is bounded as a whole.

    Formal guarantee: a row z of w numbers, each at most 1, has a z z' of at most Xi = |z|^2 <= w in L2, (w^2 + w)/2 in
    L1 over the upper triangle, and so does a sum over at most `rows` rows, divided by `rows`; a smaller clip scales a
    matrix down as a whole. The old matrix and the new are positive semidefinite, so that replacing a recording moves
    the mean of n by at most sqrt 2 Xi/n in L2, 2 Xi/n in L1 (`losses.moments`). As computed, a matrix is off by (rows +
    8) u times one of at most sqrt w Xi: the inner product of two may be below zero by 2 sqrt w (rows + 8) u Xi^2, and
    their difference larger by a factor of less than 1 + 2 w (rows + 8) u.
    """

    bound: RecordBound
    # what entries off the diagonal are multiplied with: in L2 sqrt 2, so that the norm is the matrix's
    off_diagonal: float

    @classmethod
    def of(cls, context: Context, owner: str, width: int, rows: int) -> Self:
        """The question for this owner, where a recording has at most so many rows of `width` numbers."""
        records, size = context.terms.train_rows(owner), context.preparation.width
        implied = float(width if context.norm == "l2" else (width**2 + width) / 2) * (1 + 1e-12)
        bound = limited(tightest(context.limits.clip, implied, context.norm))
        slack = summation_slack(records, size)
        return cls(
            parameters=context.parameters,
            records=records,
            size=size,
            norm=context.norm,
            sensitivity=moments_sensitivity(bound, records, slack) * (1 + 2 * width * (rows + 8) * UNIT),
            extent=bound.extent(slack),
            bound=bound,
            off_diagonal=scale_of(context.norm),
        )

    def exact(self, query: Query, tables: Tables) -> Floats:
        def part(block: Design) -> Floats:
            packed = self._packed(block)
            limit = self.bound.value / np.maximum(self._norms(packed), SMALLEST**2)
            share = np.minimum(1.0, limit * (1 - (4 * packed.shape[1] + 16) * UNIT))
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
    """What entries off the diagonal are multiplied with."""
    return 1.0 if norm == "l1" else float(np.sqrt(2))


def packed_scale(length: int, off_diagonal: float) -> Floats:
    """The scale of every number of an upper triangle with so many numbers."""
    width = round((np.sqrt(8 * length + 1) - 1) / 2)
    i, j = np.triu_indices(width)
    return np.where(i == j, 1.0, off_diagonal)


def several_recordings(setup: Setup, name: str) -> str:
    """A sentence about m recordings at this owner: m times the epsilon of one, and with which delta."""
    said = " Somebody with m recordings is promised m times that ε"
    if not setup.terms.privacy.delta > 0:
        return f"{said}."
    deltas = {several: recordings_delta(setup, name, several) for several in TOLD}
    listed = ", ".join(f"{number(delta, side='above')} for m = {several}" for several, delta in deltas.items())
    nothing = "; a δ of 1 promises nothing" if max(deltas.values()) == 1 else ""
    return f"{said}, with a δ that grows: {listed}{nothing}."


def recordings_delta(setup: Setup, name: str, several: int) -> float:
    """The delta with which so many recordings together are promised as many times the epsilon of one.

    Formal guarantee: exact for an owner's own normal noise in its one release; else the bound of any noise, from the
    epsilon and delta that cover all copies of a recording.
    """
    terms, series = setup.terms, setup.part(name).training.series
    own = not terms.noise.summed and terms.privacy.shared_records == 1
    epsilon = upper(covering_epsilon(terms, name))
    if own and isinstance(series.mechanism, Gaussian):
        shift = series.mechanism.sensitivity / series.mechanism.sigma
        return gaussian_group_delta(epsilon, shift * series.count**0.5, several)
    return group_delta(epsilon, terms.privacy.delta, several)
