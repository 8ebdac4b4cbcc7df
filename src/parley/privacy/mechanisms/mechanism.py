"""What every mechanism is: noise of a known law for values of a known sensitivity."""

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
    """A query's exact value [..., d] together with its sensitivity.
    Only objectives make these; no caller retypes a sensitivity.

    Formal guarantee: for any two tables of the same public size that differ in the rows
    of one person (at most `records_per_person` of them, at the same places), the computed
    values - rounding errors included - differ by at most `sensitivity` in `norm`. Where terms
    name the owner as the unit, the same holds for any two tables of the same public size.
    """

    value: Floats
    sensitivity: float
    norm: Norm


def require_bounded(bounded: Bounded, norm: Norm, sensitivity: float) -> Bounded:
    """The value, if it is finite and bounded as the mechanism was calibrated for.

    Whether a value is finite may depend on a record, so refusing it would tell something. Prepared values are made such
    that it always is (`data.design`); this is the last line, for what a person changes later.
    """
    if bounded.norm != norm:
        raise GuaranteeError(
            f"the mechanism needs a value bounded in {norm.upper()}, and this one is bounded in {bounded.norm.upper()}"
        )
    if not bounded.sensitivity <= sensitivity:
        raise GuaranteeError(
            "the value's sensitivity exceeds the one that the mechanism was calibrated for; calibrate it again"
        )
    if not 0 < bounded.sensitivity < math.inf:
        raise GuaranteeError("the value's sensitivity is not a finite number above 0; nothing was released")
    if not np.abs(bounded.value).max(initial=0) <= MAX_MAGNITUDE:
        raise GuaranteeError("the value is not finite, or too large for noise; nothing was released")
    return bounded


def rounded_up(scale: Fraction) -> float:
    """A noise scale as a float above the exact one, by 2^-50:
    OpenDP's own rounded-up map then still stays below epsilon."""
    try:
        return checked_scale(float(scale * (1 + Fraction(1, 2**50))))
    except OverflowError:
        return checked_scale(math.inf)


def checked_scale(scale: float) -> float:
    """The noise scale, if values with such noise are finite numbers."""
    if scale > MAX_MAGNITUDE:
        raise SettingError(f"epsilon: too small for this sensitivity; the noise would exceed {MAX_MAGNITUDE:g}")
    return positive(scale, "noise scale")


class Mechanism(Protocol):
    """Bound, then noise: `release` takes a value that knows its own
    sensitivity, and adds noise that was calibrated for at least that."""

    @property
    def norm(self) -> Norm:
        """In which a value has to be bounded."""
        ...

    @property
    def sensitivity(self) -> float:
        """For which the noise is calibrated."""
        ...

    @property
    def noise_scale(self) -> float:
        """The parameter of the noise's law: Laplace's scale, the Gaussian's sigma."""
        ...

    @property
    def variance(self) -> float:
        """Of the noise in one coordinate."""
        ...

    @property
    def event(self) -> Event:
        """The fact that the ledger stores; accountants interpret it."""
        ...

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """The value plus noise; refused (GuaranteeError) if it is not bounded as the noise was calibrated for."""
        ...

    def rounding(self, coordinates: int) -> float:
        """How far apart the sampler's grid moves two values of so
        many coordinates, in `norm`: covered beside the sensitivity."""
        ...

    def tail(self, probability: float, coordinates: int) -> float:
        """The size that the noise exceeds in any of so many coordinates with at most this probability."""
        ...

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """The norm that the noise of so many coordinates exceeds with at most this probability."""
        ...


LIMIT_ROUNDING = 1e-6  # of a limit: more than a grid, a last digit or another machine's library can move it
FALSE_ALARM_PROBABILITY = 1e-12  # how probable it is at most that an honest answer is refused


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
                f"the extent is in {self.norm.upper()}, and the noise is for values bounded in {mechanism.norm.upper()}"
            )
        worst = mechanism.tail(probability / 2, coordinates) * (1 + LIMIT_ROUNDING)
        size = (self.size + mechanism.norm_tail(probability / 2, coordinates)) * (1 + LIMIT_ROUNDING)
        low, high = (
            np.asarray(limit) + LIMIT_ROUNDING * np.abs(limit) * side
            for limit, side in ((self.low, -1), (self.high, 1))
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
        """The norm of values [..., d] and the largest one allowed, in a unit in which no power overflows."""
        share = values / self._unit
        total = np.abs(share).sum(axis=-1) if self.norm == "l1" else np.sqrt(np.vecdot(share, share))
        return np.asarray(total), self.size / self._unit

    @cached_property
    def _unit(self) -> float:
        return max(float(np.max(np.abs(self.low))), float(np.max(np.abs(self.high))))
