"""The minimum of a cost with a random linear term added to it: objective perturbation (Chaudhuri, Monteleoni and
Sarwate 2011; Kifer, Smith and Thakurta 2012), for replace-one adjacency, several rows a person and several classes.

The problem in units of its own, so that no magnitude matters: rows z = x/X shortened into the unit ball, weights v =
w/W at most 1, and

    F(phi) = mean of v loss(phi, z) + penalty/2 |phi|^2 + b.phi,    theta = B phi / X,

b = |M| N/rate with M of d + 1 and N of d standard normal numbers: its density is proportional to exp(-rate |b|). (Given
|M|, N |M| is normal; mixing over |M|^2, which is chi-squared of d + 1 degrees, gives the integral of v^(-1/2)
exp(-(s^2/v + v)/2), that is sqrt(2 pi) exp(-s).) B is 1 for two classes; for K classes its K - 1 columns span the
scores that add up to zero, since what is added to all scores alike changes nothing.

Formal guarantee: the exact minimum phi* is epsilon-DP (pure), replace-one, with the rate and the penalty that
`linear_term_law` has for epsilon and as many rows a person as the terms allow. Proof in docs/guarantee.md.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT, summation_slack
from parley.errors import GuaranteeError, TermsError
from parley.losses.linear_term_law import HAIR, LinearTermLaw
from parley.losses.objective import LARGEST_HESSIAN, EmpiricalRisk
from parley.losses.record_bound import RecordBound
from parley.privacy.mechanisms.exact_samplers import Draw, SeededWords, near_normal
from parley.validate import SMALLEST, Floats

FARTHEST = 1024.0  # |phi| at most, so that no score is larger: what rounding can move the minimum grows with it, too
LONGEST = 2.0**20  # of |M| and |N|, but for a probability below e^(-2^38)
STEPS, MOST_STEPS = 24, 2000  # a release takes at least so many, so that its time tells little; and nobody more


class Perturbable(ABC):
    """What an objective knows of which a random linear term hides a person."""

    @abstractmethod
    def perturbation(self, preparation: Preparation) -> tuple[LinearTermLaw, Floats]:
        """(which linear terms do, B [scores, columns]): orthonormal columns that span the scores that matter."""


class UnitRows(Design):
    """One block of rows in the unit ball: it is summed over as it is."""

    def sum(self, part: Callable[[Design], Floats]) -> Floats:
        return part(self)


@dataclass(frozen=True, eq=False)
class PerturbedCost:
    """F without its linear term, and what rounding can do to its minimum. Everything here is public."""

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
        """The cost of these terms: linear term and penalty that epsilon needs, and the terms' own penalty."""
        if not isinstance(objective, Perturbable):
            raise TermsError(
                "learning.algorithm: objective-perturbation: what a random linear term hides of this model is not known"
            )
        law, basis = objective.perturbation(preparation)
        numbers = basis.shape[1] * preparation.width
        if numbers > LARGEST_HESSIAN:
            raise TermsError(
                f"learning.algorithm: objective-perturbation is for at most {LARGEST_HESSIAN} parameters, these terms "
                f"have {numbers}"
            )
        row = bound.value / (heaviest * (2**0.5 if law.several else 1.0))
        own = records * objective.regularisation / (row**2 * heaviest)
        rate, penalty = law.choose(epsilon, records_per_person, records, own, numbers)
        plain = replace(objective, regularisation=0.0)
        box = math.inf if radius is None else radius * row * math.sqrt(len(basis) * preparation.width) * (1 + HAIR)
        units = {"penalty": penalty / records, "rate": rate * records}  # F is a mean, not a sum
        return cls(plain, law, basis, preparation.width, records, row, heaviest, **units, radius=min(box, FARTHEST))

    @property
    def numbers(self) -> int:
        """The number of random coefficients, d."""
        return int(self.basis.shape[1]) * self.width

    @property
    def size(self) -> float:
        """G: how much a row's gradient measures at most."""
        return self.law.size

    @property
    def distance(self) -> float:
        """How far from the exact minimum, in the ball and in L2, the computed one is at most: what `minima` certifies.

        Three times what rounding can do, so that a search that gets as near as rounding lets it always succeeds.
        """
        per_size = self._curvature_slack / self.penalty + (self.numbers + 40) * UNIT
        digits = math.sqrt(self.numbers + 1) * LONGEST * 2.0**-64 / self.rate
        fixed = self.size * (self._sum_slack + (self.numbers + 40) * UNIT) + digits
        return 3 * (fixed / self.penalty + per_size * self.radius) + 16 * UNIT * self.radius

    @cached_property
    def _sum_slack(self) -> float:
        """Of a mean gradient, relative to G: the sum over rows, the logistic function or the exponentials, and the way
        through B."""
        return summation_slack(self.records, self.width + 16) + (2 * len(self.basis) + 40) * UNIT

    @cached_property
    def _curvature_slack(self) -> float:
        """Of a mean gradient, relative to |phi|: scores of p products each, and B, times the largest curvature."""
        return self.objective.loss.largest_curvature * 2 * (self.width + 2 * len(self.basis) + 16) * UNIT

    def parameter(self, phi: Floats) -> Floats:
        """theta [..., P] of phi [..., d]."""
        return np.asarray(phi @ self._wide.T / self.row)

    @cached_property
    def _wide(self) -> Floats:
        """The basis B of the random term for all columns [P, d]."""
        return np.kron(self.basis, np.eye(self.width)).astype(np.float64)

    def minima(self, design: Summable, seed: bytes, count: int, quiet: bool = False) -> Floats:
        """`count` computed minima [count, d] in the ball, each with a linear term of its own that follows from the
        secret seed.

        Formal guarantee: each is within `distance` of the exact minimum, brought back to the ball, of the exact linear
        term: F's curvature is at least `penalty`, so the two are no further apart than F's gradient at the computed one
        over the penalty, and that gradient is at most the computed one and what rounding can add to it. Bringing back
        to a ball drives no two points apart; and what lies beyond it `times` the radius is brought back that much
        nearer together. Otherwise a `GuaranteeError`, before anything is released.
        """
        draw, found = SeededWords(seed), np.empty((count, self.numbers))
        start = before = np.zeros(self.numbers)
        curve = np.eye(self.numbers) * (
            1 + self.penalty
        )  # to begin with; later ones begin where the last one says that they might be
        for place in range(count):
            linear, slack = (np.zeros(self.numbers), 0.0) if quiet else self.linear_term(draw)
            phi, gradient, curve = self._search(design, linear, slack, start - np.linalg.solve(curve, linear - before))
            away = (gradient + self._rounding(phi, linear, slack)) / self.penalty * (1 + 8 * UNIT)
            length = _norm(phi)
            times = max(1.0, (length - away) / self.radius)
            if not away / times + 8 * UNIT * self.radius <= self.distance:
                raise GuaranteeError("the minimum was not reached as nearly as the noise covers; nothing was released")
            found[place] = phi * min(1.0, self.radius / max(length, SMALLEST))
            start, before = phi, linear
        return found

    def linear_term(self, draw: Draw) -> tuple[Floats, float]:
        """(floats near the exact random b [d], how far from it they may be in L2 beside their last digits)."""
        numbers = near_normal(2 * self.numbers + 1, draw)
        lengths = _norm(numbers[self.numbers :]), _norm(numbers[: self.numbers])
        return numbers[: self.numbers] * (lengths[0] / self.rate), sum(lengths) * math.sqrt(
            self.numbers + 1
        ) * 2.0**-65 / self.rate

    def _rounding(self, phi: Floats, linear: Floats, slack: float) -> float:
        """How far the computed gradient of F is from the exact one at most, b's own error `slack` and last digits
        included."""
        length, slant = _norm(phi), _norm(linear)
        sums = self.size * self._sum_slack + self._curvature_slack * length
        return (
            sums + 8 * UNIT * (self.size + self.penalty * length + slant) + (self.numbers + 16) * UNIT * slant + slack
        ) * (1 + HAIR)

    def _search(self, design: Summable, linear: Floats, slack: float, start: Floats) -> tuple[Floats, float, Floats]:
        """(phi, how much the computed gradient of F measures there, the second derivative): Newton's method, until only
        rounding is left.

        A whole step is taken while it at least halves the least gradient so far, which it does only so often. Else the
        step s is shortened to ln(1 + m |s|)/(m |s|), m = sqrt 2: F's third derivative is at most m times its second, so
        each such step lowers F (Sun and Tran-Dinh 2019).
        """
        phi, least = start, np.inf
        gradient, curve = self.derivatives(design, phi, linear)
        for step in range(MOST_STEPS):
            length = _norm(gradient) * (1 + 2 * self.numbers * UNIT)
            if step >= (0 if design.studied is not None else STEPS) and length <= 0.5 * self._rounding(
                phi, linear, slack
            ):
                return phi, length, curve
            least = min(least, length)
            towards: Floats = -np.linalg.solve(curve, gradient).astype(np.float64)
            there: Floats = phi + towards
            slant, curvature = self.derivatives(design, there, linear)
            if not _norm(slant) <= max(0.5 * least, 0.5 * self._rounding(there, linear, slack)):
                far = 2**0.5 * _norm(towards)
                there = phi + towards * (np.log1p(far) / max(far, SMALLEST))
                slant, curvature = self.derivatives(design, there, linear)
            phi, gradient, curve = there, slant, curvature
        return phi, _norm(gradient) * (1 + 2 * self.numbers * UNIT), curve

    def derivatives(self, design: Summable, phi: Floats, linear: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """F's gradient [d] and second derivative [d, d], in one pass over the rows; without a linear term, of F without
        it."""
        theta = self._wide @ phi

        def part(block: Design) -> Floats:
            rows = self.unit_rows(block)
            hessian = self.objective.hessian(rows, theta)
            return len(rows) * np.column_stack([self.objective.mean_gradient(rows, theta), np.asarray(hessian)])

        total, wide = design.sum(part) / len(design), self._wide
        gradient = wide.T @ total[:, 0] + self.penalty * phi + linear
        return gradient, wide.T @ total[:, 1:] @ wide + self.penalty * np.eye(self.numbers)

    def unit_rows(self, block: Design) -> "UnitRows":
        """Rows in the unit ball, a hair below so that rounding cannot lift them above, and weights up to 1."""
        hair = 1 - 2 * (self.width + 16) * UNIT
        shorter = hair / np.maximum(block.row_norms("l2"), self.row)
        return UnitRows(block.X * shorter[:, None], block.y, block.weight / self.weight)


def zero_sum_basis(classes: int) -> Floats:
    """Orthonormal columns [classes, classes - 1] that span the vectors whose numbers add up to zero (Helmert).

    >>> zero_sum_basis(2).round(3).tolist()
    [[0.707], [-0.707]]
    """
    basis = np.zeros((classes, classes - 1))
    for column in range(1, classes):
        basis[:column, column - 1], basis[column, column - 1] = 1.0, -float(column)
        basis[:, column - 1] /= np.sqrt(column * (column + 1.0))
    return basis


def _norm(vector: Floats) -> float:
    """In L2; no square vanishes or overflows."""
    unit = float(np.abs(vector).max(initial=0.0))
    return unit * float(np.sqrt(np.sum((vector / unit) ** 2))) if unit > 0 else unit
