"""What eps means for a person (Z chapter 2, T section 2.4, Lee and Clifton 2011).

All statements hold for the worst person, against an adversary who knows everything but that person's record, and are
about what the release adds to what was known before.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import SettingError
from parley.privacy.mechanisms.gaussian import gaussian_delta, probability
from parley.validate import Floats, non_negative, positive, whole

# why `approximate_posterior` is wider
WIDER = "with δ single releases may tell more than ε allows, so this is the range of 2ε"


def posterior_bounds(epsilon: float, prior: float) -> tuple[float, float]:
    """How far an adversary's belief in a fact of this prior probability can fall or rise.

    >>> [round(b, 2) for b in posterior_bounds(1.0, 0.5)]
    [0.27, 0.73]
    """
    epsilon, prior = non_negative(epsilon, "epsilon"), _prior(prior)
    odds = prior / (1 - prior)
    low, high = odds * math.exp(-epsilon), odds * math.exp(min(epsilon, 700))
    return low / (1 + low), high / (1 + high)


def approximate_posterior(epsilon: float, delta: float, prior: float) -> tuple[float, float, float]:
    """(low, high, failure): with delta > 0 the bounds of 2 eps hold except with probability `failure`.

    The set where one law exceeds e^t times the other has probability at most delta/(1 - e^(eps - t)), for either order
    and t > eps: no bound of eps itself holds with any such probability, and t = 2 eps is the choice made here.
    """
    low, high = posterior_bounds(2 * positive(epsilon, "epsilon"), prior)
    return low, high, min(1.0, 2 * probability(delta) / -math.expm1(-epsilon))


def error_tradeoff(epsilon: float, delta: float, false_positive: ArrayLike) -> Floats:
    """The least false-negative rate of any test for a person's presence, at these false-positive rates.

    f(x) = max(0, 1 - delta - e^eps x, e^-eps (1 - delta - x)): no attack lies below this curve. In particular
    e^eps p_FP + p_FN >= 1 - delta, and the sum of both errors is at least 2 (1 - delta)/(1 + e^eps).
    """
    x = np.asarray(false_positive, dtype=np.float64)
    epsilon = non_negative(epsilon, "epsilon")
    if not (np.all(x >= 0) and np.all(x <= 1)):
        raise SettingError("false_positive: expected rates from 0 to 1")
    kept = 1 - non_negative(delta, "delta")
    return np.asarray(np.maximum(0.0, np.maximum(kept - np.exp(min(epsilon, 700)) * x, np.exp(-epsilon) * (kept - x))))


def least_total_error(epsilon: float, delta: float = 0.0) -> float:
    """The least sum of false-positive and false-negative rate: 2 (1 - delta)/(1 + e^eps).

    >>> round(least_total_error(1.0), 4)
    0.5379
    """
    return 2 * (1 - non_negative(delta, "delta")) / (1 + math.exp(min(non_negative(epsilon, "epsilon"), 700)))


def min_entropy_leakage(epsilon: float, individuals: int, values: int) -> float:
    """Bits by which the release can lower the min-entropy of a
    whole table: u log2(v e^eps/(v - 1 + e^eps)) (T eq. 2.2).

    >>> round(min_entropy_leakage(1.0, individuals=1, values=2), 4)
    0.5481
    """
    u, v = whole(individuals, "individuals"), whole(values, "values", least=2)
    epsilon = non_negative(epsilon, "epsilon")
    if epsilon < 1:  # where the logarithms cancel
        return u * (epsilon - math.log1p(math.expm1(epsilon) / v)) / math.log(2)
    return u * (math.log2(v) - math.log2(1 + (v - 1) * math.exp(-epsilon)))


def belief_bound(epsilon: float, people: int, difference: float = 1.0, sensitivity: float = 1.0) -> float:
    """Lee and Clifton: the most an adversary who must find one absent person among `people` can believe in a guess.

    1/(1 + (m - 1) exp(-eps Dv/Df)), with Dv the largest difference
    between two candidate answers and Df the sensitivity.

    >>> round(belief_bound(1.0, people=2), 4)
    0.7311
    """
    m = whole(people, "people", least=2)
    ratio = positive(difference, "difference") / positive(sensitivity, "sensitivity")
    return 1 / (1 + (m - 1) * math.exp(-non_negative(epsilon, "epsilon") * ratio))


def epsilon_for_belief(belief: float, people: int, difference: float = 1.0, sensitivity: float = 1.0) -> float:
    """The largest eps that keeps `belief_bound` at or below `belief`.

    >>> round(epsilon_for_belief(belief_bound(0.7, people=10), people=10), 9)
    0.7
    """
    m = whole(people, "people", least=2)
    belief = _prior(belief)
    if not belief > 1 / m:
        raise SettingError(f"belief = {belief:g}: expected more than 1/people = {1 / m:g}, which is blind guessing")
    ratio = positive(sensitivity, "sensitivity") / positive(difference, "difference")
    return ratio * math.log((m - 1) * belief / (1 - belief))


def group_delta(epsilon: float, delta: float, records: int) -> float:
    """The delta with which m records together are promised m eps, whatever the noise: delta (1 + e^eps + ... +
    e^((m - 1) eps)), at most 1.

    Formal guarantee: tables that differ in m records are m steps of one record apart, and each step turns P(S) <= q
    into P(S) <= e^eps q + delta.

    >>> round(group_delta(1.0, 1e-6, 2) * 1e6, 3)
    3.718
    """
    epsilon, records = positive(epsilon, "epsilon"), whole(records, "records")
    if records * epsilon > 700:  # where e^(m eps) has no float, nothing is promised
        return 1.0
    return min(probability(delta) * math.expm1(records * epsilon) / math.expm1(epsilon) * (1 + 1e-12), 1.0)


def gaussian_group_delta(epsilon: float, shift: float, records: int) -> float:
    """The same of normal noise that one record shifts by this many standard deviations: exact, and far less.

    Formal guarantee: m records shift it by at most m times as much (the triangle inequality).

    >>> round(gaussian_group_delta(1.0, 1.0, 2), 4)
    0.3319
    """
    records = whole(records, "records")
    return min(gaussian_delta(records * positive(epsilon, "epsilon"), records * shift) * (1 + 1e-9), 1.0)


def _prior(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise SettingError(f"prior = {value!r}: expected a probability between 0 and 1")
    return float(value)
