"""Where a query's value can lie, before its noise and after: bound
and noise are public, so anybody can tell what cannot be an answer."""

from dataclasses import dataclass

import numpy as np

from parley.errors import GuaranteeError
from parley.privacy.events import Norm
from parley.privacy.mechanisms.mechanism import Mechanism
from parley.validate import Floats

ROUNDING = 1e-6  # of a limit: more than a grid, a last digit or another machine's library can move it
UNLIKELY = 1e-12  # how probable it is at most that an honest answer is refused


@dataclass(frozen=True, eq=False)
class Extent:
    """Every coordinate from `low` to `high` (numbers, or one for
    each coordinate), and all together at most `size` in `norm`."""

    low: float | Floats
    high: float | Floats
    size: float
    norm: Norm

    def noisy(self, mechanism: Mechanism, coordinates: int, probability: float) -> "Extent":
        """Where such a value of so many coordinates lies after its noise.

        Formal guarantee: a value within this extent, released by `mechanism`, is
        outside of the result with at most this probability, whatever the value is. Half
        of it is for the worst coordinate, half for the norm (triangle inequality).
        """
        if mechanism.norm != self.norm:
            raise GuaranteeError(
                f"this extent is in {self.norm.upper()}, the noise is for values bounded in {mechanism.norm.upper()}"
            )
        worst = mechanism.tail(probability / 2, coordinates) * (1 + ROUNDING)
        size = (self.size + mechanism.norm_tail(probability / 2, coordinates)) * (1 + ROUNDING)
        low, high = (
            np.asarray(limit) + ROUNDING * np.abs(limit) * side for limit, side in ((self.low, -1), (self.high, 1))
        )
        return Extent(low - worst, high + worst, size, self.norm)

    def holds(self, value: Floats) -> bool:
        """Whether a value [d] lies within.

        >>> reach = Extent(-1.0, 1.0, 1.5, "l1")
        >>> reach.holds(np.array([1.0, -0.5])), reach.holds(np.array([1.0, 1.0])), reach.holds(np.array([1.1, 0.0]))
        (True, False, False)
        """
        if not (np.all(value >= self.low) and np.all(value <= self.high)):
            return False
        # of numbers up to 1 no power overflows
        unit = max(float(np.max(np.abs(self.low))), float(np.max(np.abs(self.high))))
        share = value / unit
        total = np.abs(share).sum() if self.norm == "l1" else np.sqrt(share @ share)
        return bool(total <= self.size / unit)
