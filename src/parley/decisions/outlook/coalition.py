"""The cost of any coalition, whom to ask, and each owner's addition: the cost model of forecasts and games.

Expected test cost = the best model's cost + estimation error c/n + privacy error. Alone an owner has its own n_l and no
noise; together they have n and all noise. The privacy error is bias + K v, v the variance of the combined answer. This
assumes that the owners' data follow one law, so each should score the joint model on its own held-out rows.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.decisions.expectation.expectation import Expectation
from parley.decisions.knowledge.baselines import LearningCurve, trees_alone
from parley.errors import SettingError
from parley.protocol.aggregation import CoalitionNoise, EachOwnerNoise, Members
from parley.validate import Floats, finite

MAX_EXACT_OWNERS = 12
MAX_PERMUTATIONS, LEAST_PERMUTATIONS = 2000, 200  # orders in which owners join; fewer of very many owners,
MAX_MARGINS = 2e6  # so that no more than this are looked at


@dataclass(frozen=True)
class CoalitionCost:
    """The expected excess test cost of coalitions [..., N]: estimation/n_S + bias + noise_price v_S; without members,
    `nobody`."""

    estimation: float  # c
    bias: float
    noise_price: float  # K
    nobody: float  # excess cost of the model that asks nobody
    trees: LearningCurve | None = None  # what boosted trees of own rows cost above the best linear model

    def at(self, records: Floats, variance: Floats | float) -> Floats:
        """Return the cost of a model from this number of records and combined answers of this variance."""
        some = records > 0
        return np.where(
            some, self.estimation / np.where(some, records, 1.0) + self.privacy_error(variance), self.nobody
        )

    def together(self, noise: CoalitionNoise, members: Members) -> Floats:
        """Return the cost of these coalitions."""
        return self.at(noise.size(members), noise.variance(members))

    def alone(self, records: Floats) -> Floats:
        """Return the cost of each owner's own model without noise: linear, or trees if expected to be better."""
        linear = np.asarray(self.estimation / records)
        return linear if self.trees is None else self.trees.best(records, linear)

    def privacy_error(self, variance: Floats | float) -> Floats:
        """Return what noise and training add to the cost of the best model on the same records."""
        return np.asarray(self.bias + self.noise_price * variance)

    def in_units(self, unit: float) -> "CoalitionCost":
        """Return the same costs multiplied by `unit`."""
        trees, nobody = None if self.trees is None else self.trees.in_units(unit), self.nobody * unit
        return CoalitionCost(self.estimation * unit, self.bias * unit, self.noise_price * unit, nobody, trees)

    def best_coalition(self, noise: CoalitionNoise) -> Members:
        """Find the coalition of least cost, exactly, in O(N log N)."""
        order = noise.quietest_first()
        return prefix(order, 1 + int(np.argmin(self.at(*noise.prefixes(order)))))

    def leave_one_out(self, noise: CoalitionNoise) -> Floats:
        """Return how much worse the coalition of all gets without each owner; negative if better."""
        everyone = np.ones(len(noise.records), dtype=bool)
        return self.at(*noise.without_each(everyone)) - self.together(noise, everyone)

    def shapley(self, noise: CoalitionNoise, seed: int = 0) -> tuple[Floats, Floats]:
        """Return the owners' Shapley values in saved excess cost, and their standard errors; exact up to 12 owners."""
        count = len(noise.records)
        if count <= MAX_EXACT_OWNERS:
            return self._exact_shapley(noise), np.zeros(count)
        rng = np.random.default_rng(seed)
        pairs = np.stack([noise.records, noise.variances])
        _, kind, sizes = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
        orders = np.array(
            [
                rng.permutation(count)
                for _ in range(int(np.clip(MAX_MARGINS / count, LEAST_PERMUTATIONS, MAX_PERMUTATIONS)))
            ]
        )
        margins = -np.diff(self.at(*noise.prefixes(orders)), prepend=self.nobody)
        # owners that are alike have one value: what they add on average is an estimate of it
        cell = np.arange(len(orders))[:, None] * len(sizes) + kind[orders]
        draws = np.bincount(cell.ravel(), margins.ravel()).reshape(len(orders), len(sizes)) / sizes
        return draws.mean(axis=0)[kind], (draws.std(axis=0, ddof=1) / math.sqrt(len(draws)))[kind]

    def _exact_shapley(self, noise: CoalitionNoise) -> Floats:
        count = len(noise.records)
        coalitions = np.array(list(itertools.product((False, True), repeat=count)))
        saved = -self.together(noise, coalitions)
        size, place = coalitions.sum(axis=1), 2 ** np.arange(count)[::-1]
        values = np.empty(count)
        for owner in range(count):
            without = np.flatnonzero(~coalitions[:, owner])
            weight = 1 / (count * np.array([math.comb(count - 1, s) for s in size[without]]))
            values[owner] = weight @ (saved[without + place[owner]] - saved[without])
        return values


def coalition_cost(expected: Expectation, fitness: float) -> tuple[CoalitionCost, CoalitionNoise]:
    """Return the cost model and the noise of the terms' own budgets. The error is linear in the noise's variance:
    exactly by moments, by assumption after a pilot run."""
    pilot, landscape = expected.pilot, expected.here
    noise = pilot.noise
    excess = fitness * expected.unit
    bias = min(expected.bias(), excess)
    price = (excess - bias) / pilot.combined_variance()
    nobody = landscape.start_cost - landscape.least_cost
    return CoalitionCost(landscape.estimation, bias, price, nobody, trees_alone(pilot)), noise


def prefix(order: NDArray[np.int64], count: int) -> Members:
    """Return the coalition of the first `count` owners in an order."""
    members = np.zeros(len(order), dtype=bool)
    members[order[:count]] = True
    return members


def best_coalition(records: ArrayLike, epsilons: ArrayLike) -> NDArray[np.int64]:
    """Return the owners to ask for the least privacy error (W Theorem 2's n^-2 sum eps^-2), in O(N log N).

    Parameters
    ----------
    records, epsilons
        Each owner's records and epsilon, in one order [N].

    Returns
    -------
    array of int
        Places in that order, ascending.

    Examples
    --------
    >>> best_coalition([100_000, 1000, 50_000], [1.0, 0.1, 1.0]).tolist()
    [0, 2]
    """
    n, epsilon = finite(records, "records"), finite(epsilons, "epsilons")
    if n.ndim != 1 or n.shape != epsilon.shape or not n.size or not (n > 0).all() or not (epsilon > 0).all():
        raise SettingError("records, epsilons: expected one positive number per owner in each list")
    error = CoalitionCost(estimation=0.0, bias=0.0, noise_price=1.0, nobody=math.inf)
    return np.flatnonzero(error.best_coalition(EachOwnerNoise(n, (n * epsilon) ** -2.0)))
