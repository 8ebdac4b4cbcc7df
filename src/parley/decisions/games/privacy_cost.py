"""What an owner says its people's privacy is worth: a cost that grows with the budget it spends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from parley.terms import PrivacyCost
from parley.validate import Floats, Integers

Shape = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class PrivacyCosts:
    """One curve an owner, each a weight times one of three shapes, 0 at eps = 0:

    linear: eps. exponential: e^eps - 1 (T eq. 4.1, less its constant). posterior: 2 P - 1, P the most that an adversary
    who gave a fact even odds can believe in it afterwards, e^eps/(1 + e^eps) (`accounting.meaning.posterior_bounds`);
    its weight is the price of certainty (with a delta > 0 that belief is exceeded with small probability; the curve
    goes by eps alone). The first two are convex; the third levels off, so an owner that pays it may have two locally
    best budgets.

    >>> costs = PrivacyCosts.of([PrivacyCost(kind="linear", weight=2.0), PrivacyCost(kind="posterior", weight=10.0)])
    >>> costs(np.array([1.0, 1.0])).round(3).tolist()
    [2.0, 4.621]
    """

    linear: Floats
    exponential: Floats
    posterior: Floats

    @classmethod
    def of(cls, curves: Sequence[PrivacyCost]) -> "PrivacyCosts":
        """The curves that the terms name."""
        kinds = ("linear", "exponential", "posterior")
        return cls(*(np.array([curve.weight if curve.kind == kind else 0.0 for curve in curves]) for kind in kinds))

    def __call__(self, epsilon: Floats) -> Floats:
        """The cost of budgets [..., N], owner by owner; [..., 1]: of one that all have."""
        return self._summed(epsilon, np.asarray(self.linear * epsilon), np.expm1, _belief)

    def marginal(self, epsilon: Floats) -> Floats:
        """What a budget that is larger by a share costs more, for each unit of that share: eps times the derivative.
        Shapes as of the cost."""
        return epsilon * self._summed(epsilon, self.linear + np.zeros_like(epsilon), np.exp, _belief_rises)

    def take(self, owners: Integers) -> "PrivacyCosts":
        """The curves of these owners alone."""
        return PrivacyCosts(self.linear[owners], self.exponential[owners], self.posterior[owners])

    def _summed(self, epsilon: Floats, found: Floats, exponential: Shape, posterior: Shape) -> Floats:
        """What is found for the first shape, with the others' weights times these."""
        for weight, shape in ((self.exponential, exponential), (self.posterior, posterior)):
            (its,) = np.nonzero(weight)  # most owners have one shape: the others' is not computed for them
            if its.size:
                found[..., its] += weight[its] * shape(epsilon if epsilon.shape[-1] == 1 else epsilon[..., its])
        return found


def _belief_rises(epsilon: Floats) -> Floats:
    return np.asarray(0.5 / np.cosh(epsilon / 2) ** 2)


def _belief(epsilon: Floats) -> Floats:
    return np.asarray(np.tanh(epsilon / 2))
