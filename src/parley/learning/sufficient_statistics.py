"""Least squares from one release of the second moments: a single round, after which nothing is left to ask.

Repeating a noisy release of the same statistics under a total budget is never better than one release at the full budget, so there is
one round (Z's FedInfer for squared loss, released once). Z solves the noisy system as it is; its matrix may be close to singular or
indefinite. Here every eigenvalue is first lifted by what is needed to stand clear of the noise (AdaSSP's ridge: Wang 2018), which is
post-processing of the release.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from parley.aggregation import aggregation_of
from parley.learning.algorithm import Algorithm, Asker, State
from parley.mechanisms import Norm
from parley.objectives.moments import moments_length, unpack_moments
from parley.queries import Answer, StatisticsQuery
from parley.setup import Setup
from parley.validate import Floats


@dataclass(frozen=True)
class SufficientStatistics(Algorithm):
    """(2 A + (r + 2 lift) I) theta = 2 b from the released A = mean x x', b = mean x y; lift = max(0, noise norm - least eigenvalue).

    `deviation` is that of one number of the owners' combined answer; a symmetric matrix of such noise has a norm of about
    2 deviation sqrt(p). The state remembers the released moments.
    """

    norm: Norm
    deviation: float

    memory_name: ClassVar[str | None] = "moments"

    @classmethod
    def make(cls, setup: Setup) -> Self:
        variance = aggregation_of(setup.terms).noise(setup).all_together
        return cls(setup.objective, setup.terms.learning.horizon, setup.terms.model.radius, setup.norm, variance**0.5)

    def start(self, origin: Floats, worlds: tuple[int, ...] = ()) -> State:
        width = origin.shape[-1]
        return State(1, np.broadcast_to(origin, (*worlds, width)), {"moments": np.zeros((*worlds, moments_length(width)))})

    def query(self, state: State, asker: Asker) -> StatisticsQuery:
        return StatisticsQuery.ask(asker.terms_hash, asker.learner, state.round)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        width = state.theta.shape[-1]
        moments = unpack_moments(combined, width, self.norm)
        values, vectors = np.linalg.eigh(moments[..., :width, :width])
        clear = 2 * self.deviation * np.sqrt(width) / (1.0 if self.norm == "l1" else np.sqrt(2))
        lift = np.maximum(0.0, clear - values[..., :1])
        solved = np.einsum("...ji,...j->...i", vectors, moments[..., :width, width]) / (
            values + lift + self.objective.regularisation / 2
        )
        theta = np.einsum("...ij,...j->...i", vectors, solved)
        return State(state.round + 1, self.project(theta), {"moments": combined})

    def without_noise(self) -> Self:
        return replace(self, deviation=0.0)  # nothing to stand clear of

    def released(self, state: State, setup: Setup) -> dict[str, Any]:
        """The released moments of the first replicate, for a forecast: matrix, number of records, deviation of the noise."""
        records = sum(part.training.question.records for part in setup.parts.values())
        width = state.theta.shape[-1]
        moments = state.memory["moments"]
        packed = moments.reshape(-1, moments.shape[-1])[0]
        return {"matrix": unpack_moments(packed, width, self.norm).tolist(), "records": records, "deviation": self.deviation}
