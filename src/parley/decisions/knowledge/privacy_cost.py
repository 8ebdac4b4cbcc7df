"""An owner's stated privacy cost, which grows with the budget it spends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parley.errors import TermsError
from parley.privacy.accounting.meaning import NATS_PER_BIT, pure_nats, pure_nats_slope
from parley.terms import OwnerTerms, PrivacyCost, Terms
from parley.validate import Floats, Integers

Shape = Callable[[Floats], Floats]

LINEAR_COST = "linear"
INFORMATION_COSTS = ("min-entropy", "mutual-information")  # bounded by an epsilon without a delta
# (the cost of a budget, what one that is larger by a share costs more for each unit of that share: eps times the slope)
COST_CURVES: Mapping[str, tuple[Shape, Shape]] = {
    "exponential": (np.expm1, lambda epsilon: epsilon * np.exp(epsilon)),
    "posterior": (lambda epsilon: np.tanh(epsilon / 2), lambda epsilon: epsilon * 0.5 / np.cosh(epsilon / 2) ** 2),
    "min-entropy": (
        lambda epsilon: -np.log1p(np.expm1(-epsilon) / 2) / NATS_PER_BIT,
        lambda epsilon: epsilon / (1 + np.exp(epsilon)) / NATS_PER_BIT,
    ),
    "mutual-information": (
        lambda epsilon: pure_nats(epsilon) / NATS_PER_BIT,
        lambda epsilon: pure_nats_slope(epsilon) / NATS_PER_BIT,
    ),
}


def stated_cost(terms: Terms, owner: OwnerTerms) -> PrivacyCost | None:
    """Return the owner's privacy cost in the terms; raise an error for a cost in bits if no epsilon bounds them."""
    cost = owner.privacy_cost
    if cost is not None and cost.kind in INFORMATION_COSTS and terms.privacy.delta > 0:
        raise TermsError(
            f"owners.{owner.name}.privacy_cost.kind = {cost.kind!r}: not available with delta > 0, because then "
            f"epsilon does not bound the leakage in bits; use 'linear', which prices the epsilon itself"
        )
    return cost


@dataclass(frozen=True, eq=False)
class PrivacyCosts:
    """One privacy cost curve per owner: a weight times one of these shapes, 0 at eps = 0.

    linear: eps. exponential: e^eps - 1 (T eq. 4.1, less its constant). posterior: 2 P - 1, where P = e^eps/(1 + e^eps)
    is the largest belief in a fact after even odds (`accounting.meaning.posterior_bounds`); its weight is the price of
    certainty. min-entropy: log2(2 e^eps/(1 + e^eps)), the bits by which guessing a yes-or-no fact can become easier (T
    eq. 2.2). mutual-information: the mean bits that become known of a record (`accounting.meaning`). The weight of the
    last two is the price of a bit; with mutual-information the game is T's of section 4.2, V = wf U - L.

    The curves go by an owner's own eps. Bits bound what leaves only if delta = 0 (`stated_cost`); posterior is P of eps
    whatever delta, which single releases may then exceed. linear, exponential and mutual-information are convex; the
    other two level off, so an owner may have two locally best budgets.

    >>> curves = [PrivacyCost(kind="linear", weight=2.0), PrivacyCost(kind="posterior", weight=10.0)]
    >>> costs = PrivacyCosts.from_curves(curves)
    >>> costs(np.array([1.0, 1.0])).round(3).tolist()
    [2.0, 4.621]
    """

    weights: Mapping[str, Floats]  # of each shape, for every owner [N]

    @classmethod
    def from_curves(cls, curves: Sequence[PrivacyCost]) -> "PrivacyCosts":
        """Collect the curves in the terms."""
        kinds = (LINEAR_COST, *COST_CURVES)
        return cls({kind: np.array([each.weight if each.kind == kind else 0.0 for each in curves]) for kind in kinds})

    def __call__(self, epsilon: Floats) -> Floats:
        """Return the cost of budgets [..., N], owner by owner, or of one common budget [..., 1]."""
        return self._summed(epsilon, 0)

    def marginal(self, epsilon: Floats) -> Floats:
        """Return eps times the derivative of the cost, in the cost's shapes."""
        return self._summed(epsilon, 1)

    def take(self, owners: Integers) -> "PrivacyCosts":
        """Return the curves of these owners alone."""
        return PrivacyCosts({kind: weight[owners] for kind, weight in self.weights.items()})

    def _summed(self, epsilon: Floats, which: int) -> Floats:
        total = np.asarray(self.weights[LINEAR_COST] * epsilon)
        for kind, shapes in COST_CURVES.items():
            weight = self.weights[kind]
            (its,) = np.nonzero(weight)  # most owners have one shape: the others' is not computed for them
            if its.size:
                total[..., its] += weight[its] * shapes[which](epsilon if epsilon.shape[-1] == 1 else epsilon[..., its])
        return total


def joining_price(terms: Terms, name: str) -> float | None:
    """Return the test cost per row that joining must save to be worth this owner's privacy cost: cost / value; None if
    its terms do not state both. With one noise for all, the smallest epsilon counts."""
    part = terms.owner(name)
    cost = stated_cost(terms, part)
    if part.value is None or cost is None or not part.value > 0:
        return None
    epsilon = np.array([float(terms.promised_epsilon(name))])
    return float(PrivacyCosts.from_curves([cost])(epsilon)[0]) / part.value


def price_note(terms: Terms, name: str) -> str | None:
    """Say why an owner's privacy cost or value is ignored; None if it counts or neither is stated."""
    part = terms.owner(name)
    if part.privacy_cost is None and part.value is None:
        return None
    if part.value is None or part.privacy_cost is None:
        missing, other = ("value", "privacy_cost") if part.value is None else ("privacy_cost", "value")
        return (
            f"owners.{name}.{missing}: missing; its {other} counts for nothing here, since joining has a price only "
            "where it has both"
        )
    if not part.value > 0:
        return f"owners.{name}.value = 0: its privacy_cost counts for nothing here, since a price is cost / value"
    return None
