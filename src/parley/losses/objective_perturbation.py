"""Objective perturbation: the minimum of a cost with a random linear term (Chaudhuri, Monteleoni and Sarwate 2011;
Kifer, Smith and Thakurta 2012), for replace-one adjacency, several rows a person and several classes.

Rows z = x/X are shortened into the unit ball, and weights v = w/W are at most 1. F(phi) = mean of v loss(phi, z) +
penalty/2 |phi|^2 + b.phi, and theta = B phi/X. b = |M| N/rate, with d + 1 standard normal numbers in M and d in N, has
density proportional to exp(-rate |b|): given |M|, N |M| is normal, and mixing over |M|^2, chi-squared of d + 1 degrees,
gives the integral of v^(-1/2) exp(-(s^2/v + v)/2), which is sqrt(2 pi) exp(-s). B is 1 for two classes. For K classes
its K - 1 columns span the scores that add up to zero, since adding one number to all scores changes nothing.

Formal guarantee: the exact minimum phi* is epsilon-DP (pure), replace-one, with the rate and the penalty that
`LinearTermLaw` has for epsilon and as many rows a person as the terms allow. Proof in docs/proofs/noise.md.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT_ROUNDOFF, summation_slack
from parley.errors import GuaranteeError, TermsError
from parley.losses.loss import RecordBound
from parley.losses.objective import LARGEST_HESSIAN, EmpiricalRisk
from parley.privacy.mechanisms.exact_samplers import DrawWords, SeededWords, near_normal
from parley.validate import SMALLEST, Floats

ROUNDING_MARGIN = 1e-9  # by which constants are on the safe side of their rounding
# Penalty a row, however large epsilon and n are: what rounding can move the minimum grows with 1/penalty.
LEAST_PENALTY_PER_ROW = 2.0**-22
# Guesses by which linear term and penalty are weighed: |phi| of the best model without privacy, and what a row adds to
# the cost's curvature, in all directions together.
USUAL_PHI_NORM, USUAL_CURVATURE = 8.0, 0.075
# Powers of sqrt 2 by which the penalties that are looked at differ from that with which curvature costs nothing.
PENALTY_EXPONENTS = range(-16, 33)


@dataclass(frozen=True)
class LinearTermLaw:
    """The linear terms that hide a person with `people` rows of `classes` classes (2: logistic regression, else
    softmax). In sums over rows, F = sum of v loss + penalty/2 |phi|^2 + b.phi.

    Formal guarantee: the exact minimum is epsilon-DP if people (G rate + `row_cost`) <= epsilon. A row's gradient has
    norm q <= G, 1 or sqrt 2, and adds to F's curvature a matrix of rank r, 1 or classes - 1, with trace at most
    `trace`(q). So a row that was there adds at most rate q + r ln(1 + trace/(r penalty)), at the worst q, to the log
    ratio of two tables' densities, and a new one at most rate G. The proof is in docs/proofs/noise.md.
    """

    classes: int
    several: bool

    @property
    def size(self) -> float:
        """G, rounded up to cover the rounding of the basis of scores."""
        return math.sqrt(2) * (1 + ROUNDING_MARGIN) if self.several else 1.0

    def trace(self, q: float) -> float:
        """Return a bound on the trace of a row's curvature if its gradient has norm q. Two classes: q = s, the
        probability of the wrong class, and the trace is at most s (1 - s). Several, with a = 1 - p_y: q^2 = a^2 + sum
        of the others' p_j^2 >= a^2 K/(K - 1), and diag(p) - p p' has trace 2 a - q^2."""
        if not self.several:
            return q * (1 - q)
        return max(0.0, 2 * min(1.0, q * math.sqrt((self.classes - 1) / self.classes)) - q * q)

    def row_cost(self, rate: float, penalty: float) -> float:
        """Return the largest cost of a row that was there, rounded up: the maximum over q of a concave function. A
        search is off by the square of its precision at a smooth top; the corner of `trace` and the end are tried
        separately."""
        rank = self.classes - 1 if self.several else 1
        end = math.sqrt(2) if self.several else 1.0
        corner = min(end, math.sqrt(self.classes / (self.classes - 1)))

        def inverse(q: float) -> float:
            return -(rate * q + rank * math.log1p(self.trace(q) * (1 + ROUNDING_MARGIN) / (rank * penalty)))

        minimum = minimize_scalar(inverse, bounds=(0.0, end), method="bounded", options={"xatol": 1e-12})
        return -min(float(minimum.fun), inverse(corner), inverse(end)) * (1 + ROUNDING_MARGIN)

    def rate(self, epsilon: float, people: int, penalty: float) -> float:
        """Return the largest rate for this penalty, rounded down; 0 if there is none."""

        def excess(rate: float) -> float:
            return people * (self.size * rate + self.row_cost(rate, penalty)) / epsilon - 1

        max_rate = epsilon / (2 * people * self.size) * (1 - 4 * ROUNDING_MARGIN)
        if excess(max_rate) <= 0:
            return max_rate
        low = max_rate * 2.0**-30
        if excess(low) > 0:
            return 0.0
        root = brentq(excess, low, max_rate, xtol=1e-15 * max_rate) * (1 - ROUNDING_MARGIN)
        return float(root) if excess(root) <= 0 else 0.0

    def choose(self, epsilon: Fraction, people: int, records: int, own: float, numbers: int) -> tuple[float, float]:
        """Return the (rate, penalty) that serve a usual table best, the terms' own penalty included; all of it is
        public.

        With a penalty of G^2/rate, twice that for several classes, curvature costs nothing. A smaller one pulls less
        but costs some of the rate; a larger one limits wide linear terms. If a table's curvature is h in each of d
        directions, the excess cost is about d h/2 (E b_j^2 + added^2 phi_j^2)/(h + added)^2.
        """
        return _chosen(self, epsilon, people, records, own, numbers)

    def _choose(self, epsilon: Fraction, people: int, records: int, own: float, numbers: int) -> tuple[float, float]:
        wanted = float(epsilon) * (1 - ROUNDING_MARGIN)
        free = 2 * people * self.size**2 * (2 if self.several else 1) / wanted * (1 + 8 * ROUNDING_MARGIN)
        curvature, best, rate_and_curvature = USUAL_CURVATURE * records / numbers, math.inf, (0.0, 0.0)
        for step in PENALTY_EXPONENTS:
            added = max(free * 2 ** (step / 2), LEAST_PENALTY_PER_ROW * records)
            rate = self.rate(wanted, people, added + own)
            share = 1 / (curvature + added)  # scaled first: penalties may be huge
            expected_excess = (
                numbers * (numbers + 1) * (share / rate) ** 2 + (USUAL_PHI_NORM * added * share) ** 2
                if rate > 0
                else math.inf
            )
            if expected_excess < best:
                best, rate_and_curvature = expected_excess, (rate, added + own)
        return rate_and_curvature


@lru_cache(maxsize=1024)
def _chosen(
    law: LinearTermLaw, epsilon: Fraction, people: int, records: int, own: float, numbers: int
) -> tuple[float, float]:
    return law._choose(epsilon, people, records, own, numbers)


MAX_PHI_NORM = (
    1024.0  # |phi| at most, so that no score is larger: what rounding can move the minimum grows with it, too
)
MAX_NORMAL_LENGTH = 2.0**20  # of |M| and |N|, except with probability below e^(-2^38)
MIN_STEPS, MAX_STEPS = 24, 2000  # a release takes at least so many, so that its time tells little; and nobody more


class Perturbable(ABC):
    """An objective for which a random linear term can hide a person."""

    @abstractmethod
    def perturbation(self, preparation: Preparation) -> tuple[LinearTermLaw, Floats]:
        """Return (the law of the linear term, orthonormal B [scores, columns] that spans the scores that matter)."""


class UnitRows(Design):
    """One block of rows in the unit ball, summed over as it is."""

    def sum(self, part: Callable[[Design], Floats]) -> Floats:
        return part(self)


@dataclass(frozen=True, eq=False)
class PerturbedCost:
    """F without its linear term, and how far rounding can move its minimum. Everything here is public."""

    objective: EmpiricalRisk  # without penalty
    law: LinearTermLaw
    basis: Floats  # B [classes, classes - 1]; 1 for two classes
    width: int  # p
    records: int  # n, of the owner: the pilot's rows may be fewer
    row: float  # X
    weight: float  # W
    penalty: float
    rate: float
    radius: float  # of the ball that the minimum is brought back to, in units of phi

    @classmethod
    def make(
        cls,
        objective: EmpiricalRisk,
        preparation: Preparation,
        bound: RecordBound,
        heaviest: float,
        radius: float | None,
        records: int,
        records_per_person: int,
        epsilon: Fraction,
    ) -> Self:
        """Return the cost of these terms: linear term and penalty that epsilon needs, and the terms' own penalty."""
        if not isinstance(objective, Perturbable):
            raise TermsError(
                "learning.algorithm: no proof covers objective-perturbation with this model; choose another algorithm"
            )
        law, basis = objective.perturbation(preparation)
        numbers = basis.shape[1] * preparation.width
        if numbers > LARGEST_HESSIAN:
            raise TermsError(
                f"learning.algorithm: objective-perturbation allows at most {LARGEST_HESSIAN} parameters, but these "
                f"terms have {numbers}"
            )
        row = bound.value / (heaviest * (2**0.5 if law.several else 1.0))
        own = records * objective.regularisation / (row**2 * heaviest)
        rate, penalty = law.choose(epsilon, records_per_person, records, own, numbers)
        plain = replace(objective, regularisation=0.0)
        box = (
            math.inf
            if radius is None
            else radius * row * math.sqrt(len(basis) * preparation.width) * (1 + ROUNDING_MARGIN)
        )
        units = {"penalty": penalty / records, "rate": rate * records}  # F is a mean, not a sum
        return cls(plain, law, basis, preparation.width, records, row, heaviest, **units, radius=min(box, MAX_PHI_NORM))

    @property
    def numbers(self) -> int:
        """d, the number of random coefficients."""
        return int(self.basis.shape[1]) * self.width

    @property
    def size(self) -> float:
        """G, a bound on the norm of a row's gradient."""
        return self.law.size

    @property
    def distance(self) -> float:
        """How far the computed minimum is at most from the exact one, in the ball and in L2; `minima` certifies it. It
        is three times what rounding can do, so a search that gets as near as rounding allows always succeeds."""
        per_size = self._curvature_slack / self.penalty + (self.numbers + 40) * UNIT_ROUNDOFF
        digits = math.sqrt(self.numbers + 1) * MAX_NORMAL_LENGTH * 2.0**-64 / self.rate
        fixed = self.size * (self._sum_slack + (self.numbers + 40) * UNIT_ROUNDOFF) + digits
        return 3 * (fixed / self.penalty + per_size * self.radius) + 16 * UNIT_ROUNDOFF * self.radius

    @cached_property
    def _sum_slack(self) -> float:
        """Rounding of a mean gradient, relative to G: the sum over rows, logistic function or exponentials, and B."""
        return summation_slack(self.records, self.width + 16) + (2 * len(self.basis) + 40) * UNIT_ROUNDOFF

    @cached_property
    def _curvature_slack(self) -> float:
        """Rounding of a mean gradient, relative to |phi|: scores of p products, and B, times the largest curvature."""
        return self.objective.loss.largest_curvature * 2 * (self.width + 2 * len(self.basis) + 16) * UNIT_ROUNDOFF

    def parameter(self, phi: Floats) -> Floats:
        """Return theta [..., P] for phi [..., d]."""
        return np.asarray(phi @ self._wide.T / self.row)

    @cached_property
    def _wide(self) -> Floats:
        """The basis B for all columns [P, d]."""
        return np.kron(self.basis, np.eye(self.width)).astype(np.float64)

    def minima(self, design: Summable, seed: bytes, count: int, quiet: bool = False) -> Floats:
        """Return `count` computed minima [count, d] in the ball, each with its own linear term drawn from the secret
        seed.

        Formal guarantee: each is within `distance` of the exact minimum for the exact linear term, brought back to the
        ball. F's curvature is at least `penalty`, so their distance is at most F's gradient at the computed one over
        the penalty; that gradient is at most the computed one plus its rounding. Bringing back to a ball drives no two
        points apart, and brings points at least `times` the radius away that much nearer together. Otherwise a
        `GuaranteeError` is raised before anything is released.
        """
        draw, minima = SeededWords(seed), np.empty((count, self.numbers))
        start = before = np.zeros(self.numbers)
        curve = np.eye(self.numbers) * (
            1 + self.penalty
        )  # to begin with; later ones begin where the last one says that they might be
        for place in range(count):
            linear, slack = (np.zeros(self.numbers), 0.0) if quiet else self.linear_term(draw)
            phi, gradient, curve = self._search(design, linear, slack, start - np.linalg.solve(curve, linear - before))
            distance_bound = (gradient + self._rounding(phi, linear, slack)) / self.penalty * (1 + 8 * UNIT_ROUNDOFF)
            length = _norm(phi)
            times = max(1.0, (length - distance_bound) / self.radius)
            if not distance_bound / times + 8 * UNIT_ROUNDOFF * self.radius <= self.distance:
                raise GuaranteeError(
                    "the computed minimum is less accurate than the privacy proof requires; nothing was released"
                )
            minima[place] = phi * min(1.0, self.radius / max(length, SMALLEST))
            start, before = phi, linear
        return minima

    def linear_term(self, draw: DrawWords) -> tuple[Floats, float]:
        """Return (floats near the exact random b [d], their L2 distance from it at most, besides their last digits)."""
        numbers = near_normal(2 * self.numbers + 1, draw)
        lengths = _norm(numbers[self.numbers :]), _norm(numbers[: self.numbers])
        return numbers[: self.numbers] * (lengths[0] / self.rate), sum(lengths) * math.sqrt(
            self.numbers + 1
        ) * 2.0**-65 / self.rate

    def _rounding(self, phi: Floats, linear: Floats, slack: float) -> float:
        """Return a bound on the error of F's computed gradient, with b's own error `slack` and last digits."""
        length, slant = _norm(phi), _norm(linear)
        sums = self.size * self._sum_slack + self._curvature_slack * length
        return (
            sums
            + 8 * UNIT_ROUNDOFF * (self.size + self.penalty * length + slant)
            + (self.numbers + 16) * UNIT_ROUNDOFF * slant
            + slack
        ) * (1 + ROUNDING_MARGIN)

    def _search(self, design: Summable, linear: Floats, slack: float, start: Floats) -> tuple[Floats, float, Floats]:
        """Return (phi, norm of F's computed gradient there, second derivative) by Newton's method, until only rounding
        is left.

        A whole step is taken if it at least halves the least gradient so far, which happens only so often. Else step s
        is shortened to ln(1 + m |s|)/(m |s|), m = sqrt 2: F's third derivative is at most m times its second, so each
        such step lowers F (Sun and Tran-Dinh 2019).
        """
        phi, shortest = start, np.inf
        gradient, curve = self.derivatives(design, phi, linear)
        for step in range(MAX_STEPS):
            length = _norm(gradient) * (1 + 2 * self.numbers * UNIT_ROUNDOFF)
            if step >= (0 if design.studied is not None else MIN_STEPS) and length <= 0.5 * self._rounding(
                phi, linear, slack
            ):
                return phi, length, curve
            shortest = min(shortest, length)
            towards: Floats = -np.linalg.solve(curve, gradient).astype(np.float64)
            next_phi: Floats = phi + towards
            next_gradient, curvature = self.derivatives(design, next_phi, linear)
            if not _norm(next_gradient) <= max(0.5 * shortest, 0.5 * self._rounding(next_phi, linear, slack)):
                far = 2**0.5 * _norm(towards)
                next_phi = phi + towards * (np.log1p(far) / max(far, SMALLEST))
                next_gradient, curvature = self.derivatives(design, next_phi, linear)
            phi, gradient, curve = next_phi, next_gradient, curvature
        return phi, _norm(gradient) * (1 + 2 * self.numbers * UNIT_ROUNDOFF), curve

    def derivatives(self, design: Summable, phi: Floats, linear: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """Return F's gradient [d] and second derivative [d, d] in one pass; `linear` is 0 for F without its term."""
        theta = self._wide @ phi

        def part(block: Design) -> Floats:
            rows = self.unit_rows(block)
            hessian = self.objective.hessian(rows, theta)
            return len(rows) * np.column_stack([self.objective.mean_gradient(rows, theta), np.asarray(hessian)])

        total, wide = design.sum(part) / len(design), self._wide
        gradient = wide.T @ total[:, 0] + self.penalty * phi + linear
        return gradient, wide.T @ total[:, 1:] @ wide + self.penalty * np.eye(self.numbers)

    def unit_rows(self, block: Design) -> "UnitRows":
        """Return rows slightly inside the unit ball, so that rounding lifts none out of it, with weights up to 1."""
        hair = 1 - 2 * (self.width + 16) * UNIT_ROUNDOFF
        shorter = hair / np.maximum(block.row_norms("l2"), self.row)
        return UnitRows(block.X * shorter[:, None], block.y, block.weight / self.weight)


def zero_sum_basis(classes: int) -> Floats:
    """Return orthonormal columns [classes, classes - 1] that span the vectors of sum zero (Helmert).

    >>> zero_sum_basis(2).round(3).tolist()
    [[0.707], [-0.707]]
    """
    basis = np.zeros((classes, classes - 1))
    for column in range(1, classes):
        basis[:column, column - 1], basis[column, column - 1] = 1.0, -float(column)
        basis[:, column - 1] /= np.sqrt(column * (column + 1.0))
    return basis


def _norm(vector: Floats) -> float:
    """Return the L2 norm; no square vanishes or overflows."""
    unit = float(np.abs(vector).max(initial=0.0))
    return unit * float(np.sqrt(np.sum((vector / unit) ** 2))) if unit > 0 else unit
