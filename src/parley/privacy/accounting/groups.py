"""What a release that is (eps, delta)-DP for one record promises several records together."""

import math

from parley.privacy.mechanisms.gaussian import gaussian_delta, probability
from parley.validate import positive, whole


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
