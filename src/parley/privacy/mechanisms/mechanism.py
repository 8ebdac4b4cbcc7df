"""What every mechanism has: noise of a known law for values of a known sensitivity."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parley.errors import GuaranteeError, SettingError
from parley.privacy.events import Event, Norm
from parley.privacy.mechanisms.noise import Noise
from parley.validate import Floats, positive

MAX_MAGNITUDE = (
    1e250  # no value and no noise scale beyond this: their sum stays finite except once in e^(10^50) releases
)


@dataclass(frozen=True, eq=False)
class Bounded:
    """A query's exact value [..., d] with its sensitivity. Only objectives make these; no caller retypes a sensitivity.

    Formal guarantee: for any two tables of the same public size that differ in the rows of one person (at most
    `records_per_person` of them, at the same places), the computed values, rounding errors included, differ by at most
    `sensitivity` in `norm`. Where terms name the owner as the unit, the same holds for any two tables of the same
    public size.
    """

    value: Floats
    sensitivity: float
    norm: Norm


def require_bounded(bounded: Bounded, norm: Norm, sensitivity: float) -> Bounded:
    """Return the value, if it is finite and bounded as the mechanism was calibrated for. Whether it is finite may
    depend on a record, so a refusal could reveal something: prepared values always are (`data.design`), and this is the
    last line."""
    if bounded.norm != norm:
        raise GuaranteeError(
            f"the mechanism needs a value bounded in {norm.upper()}, but this value is bounded in "
            f"{bounded.norm.upper()}"
        )
    if not bounded.sensitivity <= sensitivity:
        raise GuaranteeError(
            "the value's sensitivity is larger than the mechanism was calibrated for; calibrate the mechanism again"
        )
    if not 0 < bounded.sensitivity < math.inf:
        raise GuaranteeError("the value's sensitivity is not a finite number above 0; nothing was released")
    if not np.abs(bounded.value).max(initial=0) <= MAX_MAGNITUDE:
        raise GuaranteeError("the value is not finite, or too large to add noise to; nothing was released")
    return bounded


def rounded_up(scale: Fraction) -> float:
    """Return a noise scale 2^-50 above the exact one, so that OpenDP's own rounded-up map stays below epsilon."""
    try:
        return checked_scale(float(scale * (1 + Fraction(1, 2**50))))
    except OverflowError:
        return checked_scale(math.inf)


def checked_scale(scale: float) -> float:
    """Return the noise scale, if values with such noise are finite numbers."""
    if scale > MAX_MAGNITUDE:
        raise SettingError(
            f"epsilon: too small for this sensitivity, because the noise scale would be above {MAX_MAGNITUDE:g}; use a "
            "larger epsilon"
        )
    return positive(scale, "noise scale")


class Mechanism(Protocol):
    """Bound, then noise: `release` takes a value with its sensitivity and adds noise calibrated for at least that."""

    @property
    def norm(self) -> Norm:
        """The norm in which a value has to be bounded."""
        ...

    @property
    def sensitivity(self) -> float:
        """The sensitivity for which the noise is calibrated."""
        ...

    @property
    def noise_scale(self) -> float:
        """The parameter of the noise's law: Laplace's scale, the Gaussian's sigma."""
        ...

    @property
    def variance(self) -> float:
        """Variance of the noise in one coordinate."""
        ...

    @property
    def event(self) -> Event:
        """The fact that the ledger stores; accountants interpret it."""
        ...

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Return the value plus noise; refuse (GuaranteeError) a value not bounded as the noise was calibrated for."""
        ...

    def rounding(self, coordinates: int) -> float:
        """Return how far apart the sampler's grid moves two values in `norm`, covered beside the sensitivity."""
        ...

    def tail(self, probability: float, coordinates: int) -> float:
        """Return the size that noise exceeds in any of `coordinates` places with at most this probability."""
        ...

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """Return the norm that noise in `coordinates` places exceeds with at most this probability."""
        ...


LIMIT_ROUNDING = 1e-6  # of a limit: more than a grid, a last digit or another machine's library can move it
FALSE_ALARM_PROBABILITY = 1e-12  # how probable it is at most that an honest answer is refused


@dataclass(frozen=True, eq=False)
class Extent:
    """Limits of a value: coordinates from `low` to `high` (numbers, or one for each), and `size` for its `norm`."""

    low: float | Floats
    high: float | Floats
    size: float
    norm: Norm

    def noisy(self, mechanism: Mechanism, coordinates: int, probability: float) -> "Extent":
        """Return where such a value lies after its noise.

        Formal guarantee: a value within this extent, released by `mechanism`, is outside the result with at most this
        probability, whatever the value is. Half of it is for the worst coordinate, half for the norm (triangle
        inequality).
        """
        if mechanism.norm != self.norm:
            raise GuaranteeError(
                f"the value is bounded in {self.norm.upper()}, but the noise needs a bound in {mechanism.norm.upper()}"
            )
        worst = mechanism.tail(probability / 2, coordinates) * (1 + LIMIT_ROUNDING)
        size = (self.size + mechanism.norm_tail(probability / 2, coordinates)) * (1 + LIMIT_ROUNDING)
        low, high = (
            np.asarray(limit) + LIMIT_ROUNDING * np.abs(limit) * side
            for limit, side in ((self.low, -1), (self.high, 1))
        )
        return Extent(low - worst, high + worst, size, self.norm)

    def holds(self, value: Floats) -> bool:
        """Return whether a value [d] lies within.

        >>> reach = Extent(-1.0, 1.0, 1.5, "l1")
        >>> reach.holds(np.array([1.0, -0.5])), reach.holds(np.array([1.0, 1.0])), reach.holds(np.array([1.1, 0.0]))
        (True, False, False)
        """
        return bool(self.inside(value))

    def inside(self, values: Floats) -> NDArray[np.bool_]:
        """Return whether each of values [..., d] lies within [...]; NaN does not."""
        boxed = np.all((values >= self.low) & (values <= self.high), axis=-1)
        total, most = self._measured(np.where(boxed[..., None], values, 0.0))
        return np.asarray(boxed & (total <= most))

    def nearest(self, values: Floats) -> Floats:
        """Return values [..., d] brought within: those outside are cut to the box and then scaled down, NaN counts as
        0.

        >>> Extent(-1.0, 1.0, 1.5, "l1").nearest(np.array([[9.0, 1.0], [1.0, -0.5]])).tolist()
        [[0.75, 0.75], [1.0, -0.5]]
        """
        boxed = np.clip(np.where(np.isnan(values), 0.0, values), self.low, self.high)
        total, limit = self._measured(boxed)
        return np.asarray(boxed * np.where(total > limit, limit / np.maximum(total, limit), 1.0)[..., None])

    def _measured(self, values: Floats) -> tuple[Floats, float]:
        """Return the norm of values [..., d] and the largest one allowed, in a unit in which no power overflows."""
        share = values / self._unit
        total = np.abs(share).sum(axis=-1) if self.norm == "l1" else np.sqrt(np.vecdot(share, share))
        return np.asarray(total), self.size / self._unit

    @cached_property
    def _unit(self) -> float:
        return max(float(np.max(np.abs(self.low))), float(np.max(np.abs(self.high))))
