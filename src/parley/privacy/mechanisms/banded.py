"""Noise correlated across answers: each answer repeats part of earlier ones, and its reader takes the repeated part,
with its noise, off again (matrix mechanism; banded: Choquette-Choo et al. 2023).

Let x_1, x_2, ... be the exact answers, z_1, z_2, ... independent normal noise, and C a lower-triangular matrix with b
diagonals, each of one number c_i. The release is y = C x + z, row by row. A reader solves C g = y: g = x + C^-1 z.
Steps of descent add answers up, and with C a root of the matrix that does so (Fichtenberger et al. 2023; Kalinin and
Lampert 2024, for momentum, too) the noise of sums is about as small as any C makes it. No secret memory of noise is
needed: z is drawn afresh for each row, exactly, and g is post-processing. Beside x_k, row k needs the b - 1 answers
before it, which an owner can compute again.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from operator import mul

import numpy as np

from parley.errors import SettingError
from parley.validate import Floats

MAX_WIDTH = 64  # diagonals that are looked at: each costs memory of the reader
MAX_STEPS = 1_000_000  # for which a band is looked for: seconds


@dataclass(frozen=True)
class Band:
    """The matrix C by the numbers of its diagonals: c_0 = 1 of the main one, c_1, ..., c_(b-1) of those below."""

    numbers: tuple[float, ...]

    @classmethod
    def root(cls, width: int, momentum: float = 0.0) -> "Band":
        """Return the first `width` diagonals of the root of the matrix by which steps with this momentum add answers
        up, whose series is 1/((1 - z)(1 - momentum z)). The i-th number of each factor's root is (1/2)(3/4)...((2 i -
        1)/(2 i)) times a power. Exact fractions are rounded once, so all machines agree.

        >>> Band.root(3).numbers
        (1.0, 0.5, 0.375)
        """
        share, first = Fraction(str(momentum)), [Fraction(1)]
        for i in range(1, width):
            first.append(first[-1] * Fraction(2 * i - 1, 2 * i))
        second = [number * share**i for i, number in enumerate(first)]
        series = (sum(map(mul, first[: i + 1], second[i::-1]), Fraction(0)) for i in range(width))
        return cls(tuple(map(float, series)))

    @property
    def width(self) -> int:
        return len(self.numbers)

    @cached_property
    def _numbers(self) -> Floats:
        return np.array(self.numbers)

    def mixed(self, rows: Floats) -> Floats:
        """Return a row of C x [P] of the last exact answers [at most width, P], oldest first."""
        return np.asarray(self._numbers[: len(rows)][::-1] @ rows)

    def solved(self, row: Floats, before: Floats) -> Floats:
        """Return a row of g [..., P] from one of y and the rows of g before it [..., at most width - 1, P]."""
        return np.asarray(row - self._numbers[1 : before.shape[-2] + 1][::-1] @ before)

    def deviation(self, steps: int, uses: int, momentum: float = 0.0) -> float:
        """Return the root mean square deviation of the parameters' noise over `steps` steps, for the same privacy of a
        record that `uses` answers are about, in units of one answer's noise for a record of one answer."""
        from scipy.signal import lfilter  # slow to load, and for whoever looks for a band alone

        sums = np.cumsum(momentum ** np.arange(steps))
        weights = lfilter([1.0], self._numbers, sums)  # the series of the sums divided by that of C
        spread = float(np.mean(np.cumsum(weights**2)))
        return math.sqrt(spread * uses) * float(np.linalg.norm(self._numbers))


@cache  # every step of a plan asks for it
def best_band(batches: int, uses: int, momentum: float = 0.0, widest: int = MAX_WIDTH) -> Band:
    """Return the root with the least noise in the parameters, of at most `batches` and at most `widest` diagonals: of
    that many or a power of two.

    >>> best_band(100, 4, 0.9).width, best_band(20, 4, 0.9).width, best_band(20, 1, 0.9).width
    (64, 20, 16)
    """
    if batches * uses > MAX_STEPS:
        raise SettingError(
            f"batches x epochs = {batches * uses:,}: expected at most {MAX_STEPS:,} with correlated noise"
        )
    widths = {min(2**power, batches, widest) for power in range(MAX_WIDTH.bit_length())}
    return min(
        (Band.root(width, momentum) for width in sorted(widths)),
        key=lambda band: round(band.deviation(batches * uses, uses, momentum), 9),
    )
