"""Where a query's value can lie, before its noise and after: bound
and noise are public, so anybody can tell what cannot be an answer."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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
        return bool(self.inside(value))

    def inside(self, values: Floats) -> NDArray[np.bool_]:
        """Whether each of values [..., d] lies within [...]; what is not a number does not."""
        boxed = np.all((values >= self.low) & (values <= self.high), axis=-1)
        total, most = self._measured(np.where(boxed[..., None], values, 0.0))
        return np.asarray(boxed & (total <= most))

    def nearest(self, values: Floats) -> Floats:
        """Values [..., d] brought within: those inside as they are, others cut to the box and then scaled down; what is
        not a number counts as 0.

        >>> Extent(-1.0, 1.0, 1.5, "l1").nearest(np.array([[9.0, 1.0], [1.0, -0.5]])).tolist()
        [[0.75, 0.75], [1.0, -0.5]]
        """
        boxed = np.clip(np.where(np.isnan(values), 0.0, values), self.low, self.high)
        total, most = self._measured(boxed)
        return np.asarray(boxed * np.where(total > most, most / np.maximum(total, most), 1.0)[..., None])

    def _measured(self, values: Floats) -> tuple[Floats, float]:
        """How much values [..., d] measure [...], and how much they may, in a unit in which no power overflows."""
        share = values / self._unit
        total = np.abs(share).sum(axis=-1) if self.norm == "l1" else np.sqrt(np.vecdot(share, share))
        return np.asarray(total), self.size / self._unit

    @cached_property
    def _unit(self) -> float:
        return max(float(np.max(np.abs(self.low))), float(np.max(np.abs(self.high))))
