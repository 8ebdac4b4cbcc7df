"""Losses of one record as formulas of its margin theta.x and target, and the limits on a record's gradient."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, Self

import numpy as np
from scipy.special import expit, xlogy

from parley.data import Design, Preparation
from parley.data.design import UNIT_ROUNDOFF
from parley.errors import GuaranteeError
from parley.privacy.mechanisms import Extent, Norm
from parley.terms import Terms
from parley.terms.sections import OWNER_UNIT
from parley.validate import LARGEST, SMALLEST, Floats

MAX_CLIP = 1e60  # no record's clip is larger

ClipNorm = Literal["l1", "l2", "linf"]  # in which a record's gradient can be clipped


@dataclass(frozen=True)
class Limits:
    """The terms' limits on a record's gradient (clip; None: what bounds imply), its loss's weight, and |theta| <=
    radius."""

    clip: float | None
    largest_weight: float
    radius: float | None

    @classmethod
    def from_terms(cls, terms: Terms, preparation: Preparation) -> "Limits":
        """Return the limits of terms with these columns. If an owner is the unit, `privacy.clip` is that of its answer,
        and a record is cut only where it alone would make the largest owner's answer as large, so that every answer is
        finite."""
        clip = terms.privacy.clip
        if terms.privacy.unit == OWNER_UNIT and clip is not None:
            clip = min(clip * max(terms.train_rows(part.name) for part in terms.owners), MAX_CLIP)
        return cls(clip, preparation.largest_weight, terms.model.radius)


@dataclass(frozen=True)
class RecordBound:
    """Xi, the largest norm of one record's gradient in `norm`, and whether clipping enforces it or the bounds do."""

    value: float
    norm: ClipNorm
    clips: bool

    def within(self, norm: Norm, coordinates: int) -> float:
        """Return the largest norm of a record's gradient of d = `coordinates` numbers in another norm, rounded up.

        Formal guarantee: for d coordinates, |v|_2 <= |v|_1 <= sqrt d |v|_2, |v|_1 <= d |v|_inf and |v|_2 <= sqrt d
        |v|_inf.

        >>> 50.0 < RecordBound(0.5, "linf", clips=True).within("l1", 100) < 50.0000001
        True
        """
        if self.norm == norm or (self.norm, norm) == ("l1", "l2"):
            return self.value
        if (self.norm, norm) == ("linf", "l1"):
            return self.value * coordinates * (1 + 4 * UNIT_ROUNDOFF)
        return self.value * float(np.sqrt(coordinates)) * (1 + 4 * UNIT_ROUNDOFF)

    def sensitivity(self, records: int, slack: float, records_per_person: int = 1) -> float:
        """Return how far one person can move the computed mean gradient of `records` rows.

        Formal guarantee: replacing up to k rows changes the exact mean by at most 2 k Xi/n. Each of the two computed
        means is off by at most `slack` Xi (`data.design.summation_slack`), which adds 2 slack Xi. A row that does not
        count, since it has no target or its person is held out, has gradient 0: replacing it, or by it, moves the sum
        by at most Xi.
        """
        return 2 * self.value * (records_per_person / records + slack)

    def extent(self, slack: float, most: float = 1.0) -> Extent:
        """Return where the computed mean over any table lies: its norm is at most (`most` + `slack`) Xi, `most` being
        the number of rows over what their sum is divided by."""
        largest = self.value * (most + slack)
        return Extent(-largest, largest, largest, self.noise_norm)

    @property
    def noise_norm(self) -> Norm:
        """The norm; refused if noise cannot be calibrated in it."""
        if self.norm == "linf":
            raise GuaranteeError(
                "noise cannot be calibrated in the L-infinity norm; convert the bound with `within` to the mechanism's "
                "norm"
            )
        return self.norm


def tightest(clip: float | None, implied: float, norm: ClipNorm) -> RecordBound | None:
    """Return the smaller of the clip and what the bounds imply; None if neither limits a record."""
    if clip is not None and clip < implied:
        return RecordBound(clip, norm, clips=True)
    return RecordBound(implied, norm, clips=False) if np.isfinite(implied) else None


def derivative_limit(design: Design, bound: RecordBound) -> Floats:
    """Return the largest derivative of each record's loss, slightly below Xi/|x| so that rounding lifts no product
    above Xi. A row's norm counts as at least SMALLEST, so its limit is finite and no larger than Xi/|x|."""

    def found() -> Floats:
        limit = bound.value / np.maximum(design.row_norms(bound.norm), SMALLEST)
        return np.asarray(limit * (1 - (design.width + 8) * UNIT_ROUNDOFF))

    return design.derived(("derivative limit", bound), found)


def clip(derivative: Floats, limit: Floats) -> None:
    """Clip derivatives [..., n] to size `limit` [n], in place: as `np.clip` does, in half the time."""
    np.minimum(derivative, limit, out=derivative)
    np.maximum(derivative, -limit, out=derivative)


def bound_norm(features: Floats, norm: ClipNorm) -> float:
    """Return the largest norm of a row within these bounds."""
    if norm == "linf":
        return float(features.max(initial=0.0))
    return float(features.sum()) if norm == "l1" else float(np.sqrt(np.sum(features**2)))


HINGE_SMOOTHING_WIDTH = 0.2  # over which the corner is smoothed to have a curvature


class Elementary(Protocol):
    """The functions of single numbers that a derivative needs; a table with secretly drawn rows has its own."""

    def exp(self, values: Floats) -> Floats:
        """Return e^x. May overwrite its argument."""

    def logistic(self, values: Floats) -> Floats:
        """Return 1/(1 + e^-x). May overwrite its argument."""


class Plain:
    """The exponential of NumPy and the logistic function of SciPy."""

    def exp(self, values: Floats) -> Floats:
        return np.exp(values, out=values)

    def logistic(self, values: Floats) -> Floats:
        return np.asarray(expit(values, out=values))


PLAIN_FUNCTIONS = Plain()


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss of a raw prediction; raw predictions are [..., n], targets [n] or [..., n]."""

    largest_curvature: ClassVar[float] = 1.0  # sup of `hessian`; of a loss with corners: of what stands in for it
    smooth: ClassVar[bool] = True  # whether the derivative nowhere rises faster than that; not so for the hinge

    @abstractmethod
    def loss(self, raw: Floats, y: Floats) -> Floats:
        """Return the loss of every record, in the shape of its raw predictions."""

    @abstractmethod
    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN_FUNCTIONS) -> Floats:
        """Return d loss/d raw (an element of the subdifferential). May overwrite `raw`: this is the innermost loop.

        Formal guarantee: each record's result is a function of its own raw prediction and target. All except additions,
        multiplications and comparisons is left to `elementary`, so that which other rows were drawn changes no bit.
        """

    @abstractmethod
    def hessian(self, raw: Floats, y: Floats) -> Floats:
        """Return d^2 loss/d raw^2; zero where it does not exist."""

    def raw_at(self, chance: Floats, own: float = 1.0, other: float = -1.0) -> Floats:
        """Return the raw prediction for a target that is `own` with probability `chance` (above 0, below 1), else
        `other`: that of least expected loss where a loss overrides this, else the log-odds."""
        return np.asarray(np.log(chance) - np.log1p(-chance))

    def comparable(self, raw: Floats) -> Floats:
        """Return raw predictions as they are compared with those of another kind of model: by default unchanged."""
        return raw

    @abstractmethod
    def largest_derivative(self, reach: float, target_bound: float) -> float:
        """Return sup |gradient| over raw predictions and targets up to these sizes; may be infinite if they are."""


@dataclass(frozen=True)
class Squared(Loss):
    """The squared loss (raw - y)^2 of a number (W section IV-A).

    >>> Squared().gradient(np.array([3.0]), np.array([1.0]))
    array([4.])
    """

    largest_curvature: ClassVar[float] = 2.0

    def loss(self, raw: Floats, y: Floats) -> Floats:
        return np.square(raw - y)

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN_FUNCTIONS) -> Floats:
        raw -= y
        raw += raw
        return raw

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        return np.full_like(raw, 2.0)

    def raw_at(self, chance: Floats, own: float = 1.0, other: float = -1.0) -> Floats:
        """Return the mean target."""
        return np.asarray(other + (own - other) * chance)

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return 2 * (reach + target_bound)


@dataclass(frozen=True)
class Logistic(Loss):
    """The logistic loss ln(1 + exp(-y raw)) of classes y = -1 and 1; raw is the log-odds of class 1, |derivative| <= 1.

    >>> Logistic().gradient(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    largest_curvature: ClassVar[float] = 0.25

    def loss(self, raw: Floats, y: Floats) -> Floats:
        return np.logaddexp(0.0, -y * raw)

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN_FUNCTIONS) -> Floats:
        raw *= -y
        derivative = elementary.logistic(raw)
        derivative *= -y
        return derivative

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        probability = expit(raw)
        return probability * (1 - probability)  # type: ignore[no-any-return]

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Hinge(Loss):
    """The hinge max(0, 1 - y raw) of classes y = -1 and 1 (W section IV-B). `smoothing` m > 0 rounds its corner into a
    parabola of width m, at most m/2 below it.

    >>> Hinge().gradient(np.array([0.5, 2.0]), np.array([1.0, 1.0]))
    array([-1., -0.])
    """

    smoothing: float = 0.0
    smooth: ClassVar[bool] = False

    def loss(self, raw: Floats, y: Floats) -> Floats:
        gap = np.maximum(0.0, 1 - y * raw)
        if not self.smoothing > 0:
            return gap
        return np.where(gap < self.smoothing, gap**2 / (2 * self.smoothing), gap - self.smoothing / 2)

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN_FUNCTIONS) -> Floats:
        raw *= y
        if not self.smoothing > 0:
            return np.multiply(raw < 1, -y, out=raw)
        return np.clip((1 - raw) / self.smoothing, 0.0, 1.0) * -y

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        gap = 1 - y * raw
        return ((gap > 0) & (gap < self.smoothing)) / max(self.smoothing, np.finfo(np.float64).tiny)

    def raw_at(self, chance: Floats, own: float = 1.0, other: float = -1.0) -> Floats:
        """Return the sign of the likelier class."""
        return self.comparable(chance - 0.5)

    def comparable(self, raw: Floats) -> Floats:
        """Return the signs, -1 and 1, since no linear score is flat beyond a margin; the loss is twice the share of
        mistakes."""
        return np.where(raw > 0, 1.0, -1.0)

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return 1.0

    def smoothed(self, width: float = HINGE_SMOOTHING_WIDTH) -> Self:
        """Return the loss with its corner rounded off over this width."""
        return replace(self, smoothing=width)


@dataclass(frozen=True)
class Poisson(Loss):
    """Half the Poisson deviance y ln(y/rate) - y + rate, with raw prediction ln rate. No rate above the `ceiling` is
    predicted: beyond it the loss rises along its tangent. The derivative min(e^raw, ceiling) - y lies between -y and
    the ceiling and never falls. So the loss is convex, with curvature at most the ceiling.

    >>> Poisson().gradient(np.array([0.0]), np.array([3.0]))
    array([-2.])
    """

    ceiling: float = LARGEST

    @classmethod
    def within(cls, preparation: Preparation) -> Self:
        """Return the loss whose ceiling follows from the bounds of counts and exposures."""
        return cls(max(preparation.target_interval[1], SMALLEST))

    @property
    def largest_curvature(self) -> float:  # type: ignore[override]
        return self.ceiling

    def rate(self, raw: Floats, elementary: Elementary = PLAIN_FUNCTIONS) -> Floats:
        """Return min(e^raw, ceiling). May overwrite `raw`."""
        found = elementary.exp(np.minimum(raw, np.log(self.ceiling), out=raw))
        return np.minimum(found, self.ceiling, out=found)

    def loss(self, raw: Floats, y: Floats) -> Floats:
        rate = self.rate(np.array(raw))
        beyond = self.ceiling * np.maximum(0.0, raw - np.log(self.ceiling))
        return np.asarray(np.maximum(0.0, rate + beyond - y * raw + xlogy(y, y) - y))

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN_FUNCTIONS) -> Floats:
        derivative = self.rate(raw, elementary)
        derivative -= y
        return derivative

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        return np.where(raw < np.log(self.ceiling), self.rate(np.array(raw)), 0.0)

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return max(self.rate_within(reach), target_bound)

    def rate_within(self, reach: float) -> float:
        """Return the largest rate of raw predictions up to this size, rounded up."""
        return min(float(np.exp(min(reach, np.log(self.ceiling)))) * (1 + 1e-12), self.ceiling)
