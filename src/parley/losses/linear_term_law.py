"""How wide the random linear term of a perturbed cost must be, and how large its penalty, so that its minimum is
epsilon-DP.

In sums over rows in the unit ball: F = sum of v loss + penalty/2 |phi|^2 + b.phi, b of density proportional to
exp(-rate |b|).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from scipy.optimize import brentq, minimize_scalar

HAIR = 1e-9  # by which constants are on the safe side of their rounding
# Penalty a row, however large epsilon and n are: what rounding can move the minimum grows with 1/penalty.
LEAST = 2.0**-22
# Guesses by which linear term and penalty are weighed: |phi| of the best model without privacy, and what a row adds to
# the cost's curvature, in all directions together.
USUAL_SIZE, USUAL_CURVATURE = 8.0, 0.075
# Powers of sqrt 2 by which the penalties that are looked at differ from that with which curvature costs nothing.
STEPS = range(-16, 33)


@dataclass(frozen=True)
class LinearTermLaw:
    """Which linear terms hide a person with `people` rows of `classes` classes (2: logistic regression, one score a
    row; else softmax).

    Formal guarantee: the exact minimum is epsilon-DP if people (G rate + `row_cost`) <= epsilon. A row's gradient
    measures q <= G, 1 or sqrt 2, and adds to F's curvature a matrix of rank r, 1 or classes - 1, whose trace is at most
    `trace`(q); so of the log ratio of two tables' densities a row that was there causes at most rate q + r ln(1 +
    trace/(r penalty)), at the worst q, and one that comes at most rate G. docs/proofs/noise.md has the proof.
    """

    classes: int
    several: bool

    @property
    def size(self) -> float:
        """G, with room for the rounding of the basis of scores."""
        return math.sqrt(2) * (1 + HAIR) if self.several else 1.0

    def trace(self, q: float) -> float:
        """Of a row's curvature, at most, where its gradient measures q.

        Two classes: probability s of the wrong one, q = s, s (1 - s). Several, a = 1 - p_y: q^2 = a^2 + sum of the
        others' p_j^2, which is at least a^2 K/(K - 1), and the trace of diag(p) - p p' is 2 a - q^2.
        """
        if not self.several:
            return q * (1 - q)
        return max(0.0, 2 * min(1.0, q * math.sqrt((self.classes - 1) / self.classes)) - q * q)

    def row_cost(self, rate: float, penalty: float) -> float:
        """The most that a row costs which was there, rounded up: the largest value of a concave function of q. A search
        finds a smooth top to the square of its precision; the corner of `trace` and the end are looked at on their
        own."""
        rank = self.classes - 1 if self.several else 1
        end = math.sqrt(2) if self.several else 1.0
        corner = min(end, math.sqrt(self.classes / (self.classes - 1)))

        def inverse(q: float) -> float:
            return -(rate * q + rank * math.log1p(self.trace(q) * (1 + HAIR) / (rank * penalty)))

        found = minimize_scalar(inverse, bounds=(0.0, end), method="bounded", options={"xatol": 1e-12})
        return -min(float(found.fun), inverse(corner), inverse(end)) * (1 + HAIR)

    def rate(self, epsilon: float, people: int, penalty: float) -> float:
        """The largest rate for this penalty, rounded down; 0 if there is none."""

        def excess(rate: float) -> float:
            return people * (self.size * rate + self.row_cost(rate, penalty)) / epsilon - 1

        most = epsilon / (2 * people * self.size) * (1 - 4 * HAIR)
        if excess(most) <= 0:
            return most
        low = most * 2.0**-30
        if excess(low) > 0:
            return 0.0
        found = brentq(excess, low, most, xtol=1e-15 * most) * (1 - HAIR)
        return float(found) if excess(found) <= 0 else 0.0

    def choose(self, epsilon: Fraction, people: int, records: int, own: float, numbers: int) -> tuple[float, float]:
        """(rate, penalty), with the terms' own penalty in it: the pair that would serve a usual table best.

        With a penalty of G^2/rate, for several classes twice that, the curvature costs nothing. Less of it pulls less
        and costs some of the rate; more of it holds wide linear terms in check. Where a table's curvature is h in each
        of d directions, the excess cost is about d h/2 (E b_j^2 + added^2 phi_j^2)/(h + added)^2. Everything here is
        public.
        """
        return _chosen(self, epsilon, people, records, own, numbers)

    def _choose(self, epsilon: Fraction, people: int, records: int, own: float, numbers: int) -> tuple[float, float]:
        wanted = float(epsilon) * (1 - HAIR)
        free = 2 * people * self.size**2 * (2 if self.several else 1) / wanted * (1 + 8 * HAIR)
        curvature, best, found = USUAL_CURVATURE * records / numbers, math.inf, (0.0, 0.0)
        for step in STEPS:
            added = max(free * 2 ** (step / 2), LEAST * records)
            rate = self.rate(wanted, people, added + own)
            share = 1 / (curvature + added)  # scaled first: penalties may be huge
            worth = (
                numbers * (numbers + 1) * (share / rate) ** 2 + (USUAL_SIZE * added * share) ** 2
                if rate > 0
                else math.inf
            )
            if worth < best:
                best, found = worth, (rate, added + own)
        return found


@lru_cache(maxsize=1024)
def _chosen(
    law: LinearTermLaw, epsilon: Fraction, people: int, records: int, own: float, numbers: int
) -> tuple[float, float]:
    return law._choose(epsilon, people, records, own, numbers)
