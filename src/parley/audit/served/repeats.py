"""Does noise come again? What is left of answers when what the table says is taken off is noise. Where that was drawn
before, in another round, at another coordinate, for another table or at another start, it hides nobody."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.audit.served import noise_law
from parley.privacy.mechanisms import Gaussian, GridGeometric, Mechanism
from parley.privacy.mechanisms.exact_gaussian import BITS
from parley.validate import Floats

ROUNDING = 2.0**-40  # of the noise's scale and the exact answers: by how much two computations of one answer differ


@dataclass(frozen=True)
class RepeatVerdict:
    """How often noise came again, or its negative, and how seldom independent noise does so."""

    answers: int  # whose noise, all of it, came before
    of_answers: int
    numbers: int  # of that noise that came before, one by one
    of_numbers: int
    p_value: float

    @property
    def holds(self) -> bool:
        """Whether chance explains it. Independent noise fails with probability at most its share of `FALSE_ALARM`."""
        return self.p_value >= noise_law.share()

    def to_json(self) -> dict[str, Any]:
        """The object that stands under `repeats` in `parley audit --json`."""
        return {**vars(self), "holds": self.holds}


def find_repeats(noise: Floats, mechanism: Mechanism, largest: float) -> RepeatVerdict:
    """Which of the noises [n, size] of n answers, whose exact values are at most `largest` in size, came before.

    Formal guarantee: for independent noise of the claimed law on every coordinate, whatever exact values a daemon adds
    it to, the p-value is below any level with at most that probability.

    Proof. Let b be the noise's scale (Laplace, geometric) or deviation (Gaussian), g its grid and t the tolerance, at
    least g and the rounding of sums.
    1. The density is at most 1/(2 b), a point of the grid has at most g/(2 b); so an interval of length 2 t holds a
       number, rounded or not, with probability at most (2 t + g + t)/(2 b) <= q = 2 t/b.
    2. Given all rows before, row i of `size` numbers is within t of one of them or of its negative, at every
       coordinate, with probability at most 2 (i - 1) q^size; constants added to rows change nothing.
    3. That c given rows do so is at most the product of these. Summed over all c of n rows that is at most m^c/c!, m
       the sum over all rows: so this bounds the probability that c rows or more do. `_came_before` counts no others.
    Whole answers are rows, and all their numbers are rows of one; the smaller p-value counts twice.
    """
    n, size = noise.shape
    scale = noise_law.claimed_scale(mechanism, size)
    tolerance = _grid(mechanism, size) + ROUNDING * (scale + largest)
    found, chances = [], []
    for rows in (noise, noise.reshape(-1, 1)):
        found.append(_came_before(rows, tolerance))
        near = min(2 * tolerance / scale, 1.0) ** rows.shape[1]
        chances.append(_chance(found[-1], len(rows) * (len(rows) - 1) * near))
    return RepeatVerdict(found[0], n, found[1], n * size, min(2 * min(chances), 1.0))


def _came_before(rows: Floats, tolerance: float) -> int:
    """How many rows [n, size] are near an earlier one or its negative: of each two that are next to each other by their
    first numbers, the later one."""
    signed = rows * np.where(rows[:, :1] < 0, -1.0, 1.0)
    order = np.argsort(np.rint(signed[:, 0] / tolerance), kind="stable")  # of equal ones the earlier comes first
    near = np.all(np.abs(np.diff(signed[order], axis=0)) <= tolerance, axis=1)
    return int(np.unique(np.maximum(order[1:], order[:-1])[near]).size)


def _chance(count: int, mean: float) -> float:
    """An upper bound on the probability of so many repeats or more: mean^count/count!, at most 1.

    >>> _chance(0, 0.0), _chance(2, 0.1) <= 0.00501, _chance(3, 5.0)
    (1.0, True, 1.0)
    """
    if not count:
        return 1.0
    return math.exp(min(count * math.log(max(mean, 1e-300)) - math.lgamma(count + 1), 0.0))


def _grid(mechanism: Mechanism, size: int) -> float:
    """How fine released noise is; Laplace noise is finer than any rounding here."""
    if isinstance(mechanism, GridGeometric):
        return mechanism.grid(size)[0]
    return math.ldexp(mechanism.sigma, 1 - BITS) if isinstance(mechanism, Gaussian) else 0.0
