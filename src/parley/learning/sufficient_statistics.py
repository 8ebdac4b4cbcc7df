"""Least squares from one release of the second moments: a single round, after which nothing is left to ask.

Repeating a noisy release of the same statistics under a total budget is never better than one release at the full budget, so there is
one round (Z's FedInfer for squared loss, released once). Z solves the noisy system as it is; its matrix may be close to singular or
indefinite. Here every eigenvalue is first lifted by what is needed to stand clear of the noise (AdaSSP's ridge: Wang 2018), which is
post-processing of the release.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.learning.algorithm import Algorithm, State
from parley.mechanisms import Norm
from parley.objectives.moments import moments_length, unpack_moments
from parley.queries import StatisticsQuery
from parley.validate import Floats


@dataclass(frozen=True)
class SufficientStatistics(Algorithm):
    """(2 A + (r + 2 lift) I) theta = 2 b from the released A = mean x x', b = mean x y; lift = max(0, noise norm - least eigenvalue).

    `deviation` is that of one number of the owners' combined answer; a symmetric matrix of such noise has a norm of about
    2 deviation sqrt(p). The state remembers the released moments.
    """

    norm: Norm
    deviation: float

    def start(self, width: int, worlds: tuple[int, ...] = ()) -> State:
        return State(1, np.zeros((*worlds, width)), np.zeros((*worlds, moments_length(width))))

    def query(self, state: State, terms: str, learner: str) -> StatisticsQuery:
        return StatisticsQuery.ask(terms, learner, state.round)

    def update(self, state: State, combined: Floats) -> State:
        width = state.theta.shape[-1]
        moments = unpack_moments(combined, width, self.norm)
        values, vectors = np.linalg.eigh(moments[..., :width, :width])
        clear = 2 * self.deviation * np.sqrt(width) / (1.0 if self.norm == "l1" else np.sqrt(2))
        lift = np.maximum(0.0, clear - values[..., :1])
        solved = np.einsum("...ji,...j->...i", vectors, moments[..., :width, width]) / (
            values + lift + self.objective.regularisation / 2
        )
        theta = np.einsum("...ij,...j->...i", vectors, solved)
        boxed = theta if self.radius is None else np.clip(theta, -self.radius, self.radius)
        return State(state.round + 1, boxed, combined)

    def model(self, state: State) -> Floats:
        return state.theta

    def released(self, state: State, records: int) -> dict[str, Any]:
        """The released moments of the first replicate, for a forecast: matrix, number of records, deviation of the noise."""
        width = state.theta.shape[-1]
        packed = state.memory.reshape(-1, state.memory.shape[-1])[0]
        return {"matrix": unpack_moments(packed, width, self.norm).tolist(), "records": records, "deviation": self.deviation}
