"""Federated inference (Z chapter 7): second moments from one round, or several by strides, then a posterior of the
model.

If everybody answers every round, the moments are the mean of the combined answers. Otherwise the learner weighs the
owners' mean answers, so an owner that answers rarely, or drops out, keeps its full weight and has more noise.

Formal guarantee: every answer is debited by the owner, whose noise is calibrated for all it may give by the schedule;
what happens here is post-processing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from parley.learning.algorithms.algorithm import State
from parley.learning.algorithms.sufficient_statistics import SufficientStatistics, moment_noise
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.validate import Floats


@dataclass(frozen=True)
class FedInfer(SufficientStatistics):
    """The model of the mean answer, by owner if `names` tells owners apart; `weights` are n_l times trust."""

    names: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    sizes: tuple[float, ...] = ()  # n_l
    variances: tuple[float, ...] = ()  # of one number of one answer (`MomentNoise`)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        one, terms = super().make(setup), setup.terms
        trusts = [owner.trust for owner in terms.owners]
        if setup.schedule.everybody and terms.learning.straggler != "skip" and not any(trusts):
            return one
        noise, names = moment_noise(setup), setup.schedule.names
        weights = tuple(
            n * (1.0 if trust is None else trust) for n, trust in zip(noise.records.tolist(), trusts, strict=True)
        )
        return replace(
            one,
            names=names,
            weights=weights,
            sizes=tuple(noise.records.tolist()),
            variances=tuple(noise.squares.tolist()),
        )

    @property
    def each(self) -> bool:
        return True

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        begin = super().start(origin, replicates)
        memory = {**begin.memory, "answers": np.zeros(max(1, len(self.names)))}
        if self.names:
            memory["sums"] = np.zeros((*replicates, len(self.names), begin.memory["moments"].shape[-1]))
        return replace(begin, memory=memory)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        counts = state.memory["answers"].copy()
        if not self.names:
            counts += 1
            mean = state.memory["moments"]
            return self._at(state, {"moments": mean + (combined - mean) / counts[0], "answers": counts})
        sums, place = state.memory["sums"].copy(), {name: k for k, name in enumerate(self.names)}
        for answer in answers:
            sums[..., place[answer.owner], :] += answer.value
            counts[place[answer.owner]] += 1
        shares = self._shares(counts) / np.maximum(counts, 1)
        return self._at(state, {"moments": np.einsum("k,...kd->...d", shares, sums), "answers": counts, "sums": sums})

    def certainty(self, state: State) -> tuple[float, float]:
        counts = state.memory["answers"]
        if not self.names:
            return self.deviation / max(1.0, float(counts[0])) ** (1 - 1 / self.alpha), self.records
        shares, sizes, a = self._shares(counts), np.array(self.sizes), self.alpha
        power = float(np.sum(shares**a * np.array(self.variances) ** (a / 2) / np.maximum(counts, 1) ** (a - 1)))
        return power ** (1 / a), 1 / float(np.sum(shares**2 / sizes))

    def without_noise(self) -> Self:
        return replace(super().without_noise(), variances=(0.0,) * len(self.variances))

    def _shares(self, counts: Floats) -> Floats:
        """Return the weights [K] of the owners that have answered."""
        weights = np.array(self.weights) * (counts > 0)
        return np.asarray(weights / weights.sum())
