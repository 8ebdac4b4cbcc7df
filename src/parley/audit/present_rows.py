"""A table of which hardly any row has a target: the others count and contribute nothing, so sums need not visit
them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Summable
from parley.errors import TermsError
from parley.terms import Terms
from parley.terms.sections import OWNER
from parley.validate import Floats


def require_audited_unit(terms: Terms) -> None:
    """Refuse terms that protect whole tables: audits replace one person's rows, and would call far too large an answer
    private. So are those by which nothing is released."""
    terms.require_release()
    if terms.privacy.unit == OWNER:
        raise TermsError(
            "privacy.unit: expected 'record': audits replace one person's rows, which shows next to nothing of a "
            "promise about an owner's whole table"
        )


@dataclass(frozen=True, eq=False)
class PresentRows(Summable):
    """`records` rows, of which those at `places` have a target and are held; the rest is zeros of weight 0
    (`data.targets`), of which every sum is 0."""

    rows: Design
    places: NDArray[np.int64]
    records: int
    mean_over: int | None = None  # as in `Design`

    def __len__(self) -> int:
        return self.records

    @property
    def divisor(self) -> int:
        return self.records if self.mean_over is None else self.mean_over

    @property
    def width(self) -> int:
        return self.rows.width

    @property
    def statistics(self) -> tuple[Floats, Floats, float]:
        if not len(self.rows):
            return np.zeros((self.width, self.width)), np.zeros(self.width), 0.0
        (A, b, c), share = self.rows.statistics, len(self.rows) / self.divisor
        return A * share, b * share, c * share

    def sum(self, part: Callable[[Design], Floats]) -> Floats:
        return self.rows.sum(part) if len(self.rows) else 0.0 * part(self._one)

    @property
    def _one(self) -> Design:
        """A row without a target."""
        return Design(np.zeros((1, self.width)), np.ones(1), np.zeros(1), secret=self.rows.secret)

    def in_memory(self) -> Design:
        zeros, over = np.zeros((self.records, self.width)), self.mean_over
        whole = Design(zeros, np.ones(self.records), np.zeros(self.records), mean_over=over)
        whole.X[self.places], whole.y[self.places], whole.weight[self.places] = (
            self.rows.X,
            self.rows.y,
            self.rows.weight,
        )
        return whole

    def batch(self, places: NDArray[np.int64]) -> "PresentRows":
        here = np.isin(self.places, places)
        return PresentRows(self.rows.where(here), np.searchsorted(places, self.places[here]), len(places))

    def drawn(self, places: NDArray[np.int64]) -> "PresentRows":
        some = self.batch(places)
        return replace(some, rows=replace(some.rows, secret=True))

    @property
    def studied(self) -> None:
        return None

    def for_studies(self) -> "PresentRows":
        return self

    @property
    def untargeted(self) -> int:
        return self.records - len(self.rows)


def present_rows(rows: Design, places: NDArray[np.int64], records: int, mean_over: int | None = None) -> PresentRows:
    """A table of so many records, of which these, at these places, have a target."""
    return PresentRows(replace(rows, study=False), places, records, mean_over)


def compressed(design: Summable) -> PresentRows:
    """The same table without its rows that have no target."""
    rows = design.in_memory()
    return present_rows(rows.where(rows.present), np.flatnonzero(rows.present), len(rows), rows.mean_over)
