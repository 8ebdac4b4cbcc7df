"""Public rows in columns that were grown on them, and the same drawn again for an interval.

Drawn again, rows change what leaf values cost and how the cost bends there, and nothing else: leaf values stay. So
losses and curvatures of single rows are found once. Nearly all of the cost's bend lies in a part of the directions;
what the others have of it is spread evenly among them. That moves the forecast of a version by less than 1e-3 of
itself, and versions differ by a tenth.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.decisions.knowledge.sources import Landscape, Sample, Source
from parley.errors import SettingError
from parley.losses import EmpiricalRisk
from parley.validate import Floats

SETTLED = 1e-3  # of the largest curvature: in flatter directions nothing is learned, whatever lies there
BENT = 1e-4  # of the largest curvature: flatter directions are not told apart in rows drawn again


@dataclass(frozen=True, eq=False)
class GrownSample(Sample):
    """Public rows in columns that were grown on them: their own cost is too small, and most directions are too flat to
    be learned in."""

    optimism: float = 0.0  # by how much the rows cost too little
    flatness: float = 1.0  # what their curvature is to be multiplied with

    def landscape(self, objective: EmpiricalRisk, radius: float | None, origin: Floats | None = None) -> Landscape:
        seen = super().landscape(objective, radius, origin)
        curvature, least = seen.curvature * self.flatness, seen.least_cost + self.optimism
        above = 0.5 * float(np.mean(seen.starts**2 @ (curvature + objective.regularisation)))
        return replace(seen, least_cost=least, start_cost=least + above, curvature=curvature, records=None)

    def _estimation(self, spread: Floats, curvature: Floats, penalty: float) -> float:
        """The same in directions that are not flat."""
        told = curvature > SETTLED * float(curvature[-1])
        return float((spread[told] / curvature[told]).sum()) / 2

    def redrawn(
        self, objective: EmpiricalRisk, here: Landscape, rng: np.random.Generator, count: int
    ) -> "list[tuple[RedrawnRows, Floats]]":
        """So many versions with as many rows, drawn with replacement from these, each with a start [1, r] of those that
        `here`, the landscape of these rows, has."""
        bends, directions, n = objective.record_curvatures(self.design, here.optimum), here.directions, len(self.design)
        if bends is None or directions is None:
            raise SettingError("model.columns: too many leaves for a forecast; take fewer trees")
        told = here.curvature > BENT * float(here.curvature.max())
        bends = bends * (self.flatness / n)
        seen = GrownRows(
            here,
            (self.design.X @ directions[:, told]) * np.sqrt(bends)[:, None],
            bends * self.design.row_norms("l2") ** 2,
            (objective.record_losses(self.design, here.optimum) + float(objective.penalty(here.optimum))) / n,
            self.optimism,
        )
        starts, drawn = here.starts[:, told], [rng.integers(n, size=n) for _ in range(count)]
        return [
            (RedrawnRows(self, seen, np.bincount(rows, minlength=n)), starts[[b % len(starts)]])
            for b, rows in enumerate(drawn)
        ]


@dataclass(frozen=True, eq=False)
class GrownRows:
    """What each row has part in, at the leaf values: in `here`, the landscape of all rows, once each."""

    here: Landscape
    bent: Floats  # [n, r]: the row in those directions that bend, times the root of its share in the curvature
    squares: Floats  # [n]: its share in the curvature of all directions together
    losses: Floats  # [n]: its share in the cost
    optimism: float


@dataclass(frozen=True, eq=False)
class RedrawnRows(Source):
    """Such rows, each counted as often as it was drawn; parameters are counted from the leaf values, in the directions
    that bend. For moments alone: no algorithm can run on them."""

    sample: GrownSample
    seen: GrownRows
    times: NDArray[np.intp]  # [n]

    @property
    def width(self) -> int:
        return int(self.seen.bent.shape[1])

    def landscape(self, objective: EmpiricalRisk, radius: float | None, origin: Floats | None = None) -> Landscape:
        curvature, directions = self._principal
        away = np.zeros((1, self.width)) if origin is None else np.atleast_2d(origin)
        starts, least = away @ directions, float(self.times @ self.seen.losses) + self.seen.optimism
        above = 0.5 * float(np.mean(starts**2 @ (curvature + objective.regularisation)))
        estimation, best = self.seen.here.estimation, np.zeros(self.width)
        return Landscape(starts, least, least + above, curvature, directions, estimation, None, best=best)

    @cached_property
    def _principal(self) -> tuple[Floats, Floats]:
        """(curvature [p], its directions [r, p]): those that bend, and the flat ones, all alike."""
        some = np.flatnonzero(self.times)
        rows = self.seen.bent[some] * np.sqrt(self.times[some])[:, None]
        values, directions = np.linalg.eigh(rows.T @ rows)
        flat = len(self.seen.here.curvature) - len(values)
        left = max(float(self.times @ self.seen.squares) - float(values.sum()), 0.0) / max(flat, 1)
        curvature = np.concatenate([np.maximum(values, 0.0), np.full(flat, left)])
        return curvature, np.concatenate([directions, np.zeros((len(values), flat))], axis=1)

    def interval(self, forecast: float, as_if_true: float, others: Floats, records: float) -> tuple[float, float]:
        return self.sample.interval(forecast, as_if_true, others, records)

    def others(self, rng: np.random.Generator, count: int) -> list[Source]:
        return self.sample.others(rng, count)
