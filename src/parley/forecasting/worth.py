"""Together or alone, and what each owner adds: the economics of a forecast.

Expected test cost = what the best model costs + estimation error c/n + privacy error. Alone an owner has its own n_l and no noise;
together they have n and the noise of all budgets. The privacy error is bias + K v, v = sum (n_l/n)^2 var_l. All this assumes that the
owners' data follow one law: each should score the joint model on its own held-out rows before believing it.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from parley.validate import Floats

EXACT_UP_TO = 12
PERMUTATIONS = 2000


@dataclass(frozen=True, eq=False)
class Economy:
    """The expected excess test cost of any coalition: estimation/n_S + bias + noise_price * v_S; of none: that of the start."""

    rows: Floats
    variance: Floats  # of each owner's answers, in one coordinate
    estimation: float
    bias: float
    noise_price: float  # K
    nobody: float  # excess cost of the model that asks nobody

    def together(self, members: Floats | None = None) -> float:
        """Expected excess test cost of the coalition with these members (0/1 each); left out: all."""
        chosen = np.ones(len(self.rows)) if members is None else members
        total = float(chosen @ self.rows)
        if total == 0:
            return self.nobody
        noise = float(chosen @ (self.rows**2 * self.variance)) / total**2
        return self.estimation / total + self.bias + self.noise_price * noise

    def alone(self, owner: int) -> float:
        """Expected excess test cost of an owner's own model, trained without noise."""
        return self.estimation / float(self.rows[owner])

    def best_coalition(self) -> list[int]:
        """The owners of the coalition with the least expected test cost, in order: exact, in O(N log N).

        Given the rows, the cost falls with the noise, so the best coalition lies on the lower hull of (sum n, sum n^2 var), whose corners
        are the prefixes of the owners sorted by n var (`coalition.best_coalition` is the case without estimation error).
        """
        order = np.argsort(self.rows * self.variance, kind="stable")
        total, noise = np.cumsum(self.rows[order]), np.cumsum((self.rows**2 * self.variance)[order])
        cost = self.estimation / total + self.noise_price * noise / total**2
        return sorted(int(owner) for owner in order[: int(np.argmin(cost)) + 1])

    def leave_one_out(self) -> Floats:
        """By how much the coalition of all gets worse without each owner; negative: better without."""
        everyone = self.together()
        without = [self.together(1.0 - np.eye(len(self.rows))[owner]) for owner in range(len(self.rows))]
        return np.array(without) - everyone

    def shapley(self, seed: int = 0) -> tuple[Floats, Floats]:
        """(values, standard errors) of the owners' Shapley values in saved excess cost; exact (error 0) up to 12 owners."""
        count = len(self.rows)
        if count <= EXACT_UP_TO:
            return self._exact_shapley(), np.zeros(count)
        rng = np.random.default_rng(seed)
        draws = np.empty((PERMUTATIONS, count))
        for row in draws:
            order = rng.permutation(count)
            total = np.cumsum(self.rows[order])
            noise = np.cumsum((self.rows**2 * self.variance)[order]) / total**2
            cost = self.estimation / total + self.bias + self.noise_price * noise
            row[order] = -np.diff(np.concatenate([[self.nobody], cost]))
        return draws.mean(axis=0), draws.std(axis=0, ddof=1) / math.sqrt(PERMUTATIONS)

    def _exact_shapley(self) -> Floats:
        count = len(self.rows)
        subsets = np.array(list(itertools.product((0.0, 1.0), repeat=count)))
        worth = -np.array([self.together(subset) for subset in subsets])
        size = subsets.sum(axis=1).astype(int)
        values = np.empty(count)
        place = 2 ** np.arange(count)[::-1]
        for owner in range(count):
            without = np.flatnonzero(subsets[:, owner] == 0)
            weight = np.array([math.factorial(s) * math.factorial(count - s - 1) for s in size[without]]) / math.factorial(count)
            values[owner] = float(weight @ (worth[without + place[owner]] - worth[without]))
        return values

    def break_even(self, owner: int, variance_at: Callable[[float], float]) -> float | None:
        """The own epsilon from which joining beats staying alone, the others' budgets as they are; None if none does, 0 if all do.

        `variance_at` gives the noise variance of the owner's answers at an epsilon.
        """

        def gain(epsilon: float) -> float:
            variance = self.variance.copy()
            variance[owner] = variance_at(epsilon)
            there = Economy(self.rows, variance, self.estimation, self.bias, self.noise_price, self.nobody)
            return self.alone(owner) - there.together()

        low, high = 1e-6, 1e6
        if not gain(high) > 0:
            return None
        if gain(low) > 0:
            return 0.0
        while high / low > 1 + 1e-6:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if gain(middle) > 0 else (middle, high)
        return high
