"""Least squares from one release of the second moments.

Repeating a noisy release under a total budget is never better than one release at the full budget (Z's FedInfer for
squared loss). Z solves the noisy system as it is, which may be nearly singular or indefinite. Here eigenvalues are
first lifted clear of the noise (AdaSSP's ridge: Wang 2018), which is post-processing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from parley.learning.algorithms.algorithm import Algorithm, Asker, State
from parley.learning.outcome.posterior import Posterior
from parley.losses.moments import covariances, moments_length, solve, unpack_moments
from parley.privacy.mechanisms import Norm
from parley.privacy.mechanisms.stable import StableOnSums
from parley.privacy.mechanisms.stable_law import reach
from parley.protocol.aggregation import EachOwnerNoise
from parley.protocol.queries import Answer, StatisticsQuery
from parley.protocol.setup import Setup
from parley.terms.sections import OWNER_UNIT
from parley.validate import Floats

ONE_DEVIATION_LEVEL = 0.6827  # the share of normal numbers that lie within one deviation


@dataclass(frozen=True, eq=False)
class MomentNoise:
    """Squared size [N] of the noise in one number of each owner's answer: its variance, or for stable noise the squared
    reach of its middle 68 %. Empty where one noise is drawn for all. Weighted sums have a scale of |w|_alpha (normal:
    alpha = 2)."""

    records: Floats  # n_l [N]
    squares: Floats
    together: float  # how far that of all owners' mean moves
    alpha: float = 2.0


def moment_noise(setup: Setup) -> MomentNoise:
    """Return the noise of all owners' training answers."""
    parts = setup.parts.values()
    laws = [law for part in parts if isinstance(law := part.training.series.mechanism, StableOnSums)]
    if not laws:
        known = setup.aggregation.noise(setup)
        variances = known.variances if isinstance(known, EachOwnerNoise) else np.zeros(0)
        return MomentNoise(known.records, variances, known.all_together**0.5)
    alpha, records = laws[0].alpha, np.array([float(part.training.question.records) for part in parts])
    reaches = np.array([reach(ONE_DEVIATION_LEVEL, alpha, law.scale, 0.0) for law in laws])
    together = float(np.sum((records / records.sum() * reaches) ** alpha)) ** (1 / alpha)
    return MomentNoise(records, reaches**2, together, alpha)


@dataclass(frozen=True)
class SufficientStatistics(Algorithm):
    """(2 A + (r + 2 lift) I) theta = 2 b from the released A = mean x x', b = mean x y; lift = max(0, noise norm -
    least eigenvalue).

    `deviation` is that of one number of the owners' combined answer, made of `records` rows. With several classes, b
    and theta have one row for each of the `outcomes`. The state holds the released moments. If `scaled`, answers were
    scaled down by an unknown factor, so they say nothing about rows or certainty. `alpha` is the power by which noise
    adds up: 2, or the index of stable noise (`MomentNoise`).
    """

    norm: Norm
    deviation: float
    outcomes: int
    records: float
    scaled: bool = field(default=False, kw_only=True)
    alpha: float = field(default=2.0, kw_only=True)

    memory_name: ClassVar[str | None] = "moments"

    @classmethod
    def make(cls, setup: Setup) -> Self:
        noise = moment_noise(setup)
        return cls(
            setup.objective,
            setup.terms.learning.horizon,
            setup.terms.model.radius,
            setup.norm,
            noise.together,
            setup.preparation.outcomes,
            float(noise.records.sum()),
            scaled=setup.terms.privacy.unit == OWNER_UNIT,
            alpha=noise.alpha,
        )

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        size, length = origin.shape[-1], moments_length(origin.shape[-1] // self.outcomes, self.outcomes)
        return State(1, np.broadcast_to(origin, (*replicates, size)), {"moments": np.zeros((*replicates, length))})

    def query(self, state: State, asker: Asker) -> StatisticsQuery:
        return StatisticsQuery.ask(asker.terms_hash, asker.learner, state.round)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        return self._at(state, {"moments": combined})

    def certainty(self, state: State) -> tuple[float, float]:
        """Return the deviation of one number of the moments, and the records they are made of."""
        return self.deviation, self.records

    def without_noise(self) -> Self:
        return replace(self, deviation=0.0)  # nothing to stand clear of

    def posterior(self, state: State) -> Posterior | None:
        """Return the law of the first replicate's model; None if answers were scaled down, or noise has no variance."""
        if self.scaled or self.alpha < 2:
            return None
        width, (deviation, records) = self._width(state), self.certainty(state)
        moments = self._matrix(state)
        solved = solve(moments, width, deviation, self.norm, self.objective.regularisation)
        covariance, spread = covariances(moments, solved, deviation, self.norm, records)
        theta = self.model(state).reshape(-1, self.outcomes, width)[0]
        return Posterior(theta, covariance, np.sqrt(spread), records, bool(solved.drowned))

    def released(self, state: State, setup: Setup) -> dict[str, Any] | None:
        """Return the first replicate's moments for a forecast; None if scaled down, or if noise has no variance."""
        if self.scaled or self.alpha < 2:
            return None
        deviation, records = self.certainty(state)
        return {"matrix": self._matrix(state).tolist(), "records": round(records), "deviation": deviation}

    def _at(self, state: State, memory: dict[str, Floats]) -> State:
        width, after = self._width(state), State(state.round + 1, state.theta, memory)
        moments = unpack_moments(memory["moments"], width, self.norm, self.outcomes)
        theta = solve(moments, width, self.certainty(after)[0], self.norm, self.objective.regularisation).theta
        return replace(after, theta=self.project(theta.reshape(state.theta.shape)))

    def _width(self, state: State) -> int:
        return int(state.theta.shape[-1]) // self.outcomes

    def _matrix(self, state: State) -> Floats:
        moments = state.memory["moments"]
        return unpack_moments(moments.reshape(-1, moments.shape[-1])[0], self._width(state), self.norm, self.outcomes)
