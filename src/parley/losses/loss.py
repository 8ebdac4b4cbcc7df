"""The loss of one record: formulas of its raw prediction, the margin theta.x, and its target; and how much one record
can do to a mean gradient: what terms limit, the bound that follows, and the clip that enforces it. `objectives`
composes each loss with tables.
"""

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
from parley.terms.sections import OWNER
from parley.validate import LARGEST, SMALLEST, Floats

MOST = 1e60  # no record's clip is larger

ClipNorm = Literal["l1", "l2", "linf"]  # in which a record's gradient can be clipped


@dataclass(frozen=True)
class Limits:
    """What the terms allow one record and every parameter: its gradient's clip (None: what the bounds imply), the
    weight of its loss, and the box |theta| <= radius."""

    clip: float | None
    largest_weight: float
    radius: float | None

    @classmethod
    def of(cls, terms: Terms, preparation: Preparation) -> "Limits":
        """Those of terms whose columns are prepared so.

        Where an owner is the unit, `privacy.clip` is that of its answer; a record is cut only where it alone would make
        the largest owner's answer as large, so that every answer is a finite number.
        """
        clip = terms.privacy.clip
        if terms.privacy.unit == OWNER and clip is not None:
            clip = min(clip * max(terms.train_rows(part.name) for part in terms.owners), MOST)
        return cls(clip, preparation.largest_weight, terms.model.radius)


@dataclass(frozen=True)
class RecordBound:
    """The most that one record's gradient can measure in `norm` (Xi), and whether clipping enforces it or the bounds
    do."""

    value: float
    norm: ClipNorm
    clips: bool

    def within(self, norm: Norm, coordinates: int) -> float:
        """The most that a record's gradient of so many coordinates can measure in another norm, rounded up.

        Formal guarantee: |v|_2 <= |v|_1 <= sqrt d |v|_2, and for d coordinates |v|_1 <= d |v|_inf, |v|_2 <= sqrt d
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
        """How far one person can move the computed mean gradient of `records` rows.

        Formal guarantee: replacing up to k rows changes the exact mean by at most 2 k Xi/n. Each of the two computed
        means is off by at most `slack` Xi (`data.design.summation_slack`), which adds 2 slack Xi. A row that counts 0,
        because it has no target or is about somebody held out, is a row whose gradient measures 0: replacing it, or by
        it, moves the sum by Xi at most.
        """
        return 2 * self.value * (records_per_person / records + slack)

    def extent(self, slack: float, most: float = 1.0) -> Extent:
        """Where the computed mean over any table lies: a mean of what measures at most Xi does too, but for its
        rounding, `slack` Xi; `most`: rows over what their sum is divided by."""
        largest = self.value * (most + slack)
        return Extent(-largest, largest, largest, self.noise_norm)

    @property
    def noise_norm(self) -> Norm:
        """The norm, where it is one that noise is calibrated in."""
        if self.norm == "linf":
            raise GuaranteeError("noise cannot be calibrated in LINF: use the bound in the mechanism's norm (`within`)")
        return self.norm


def tightest(clip: float | None, implied: float, norm: ClipNorm) -> RecordBound | None:
    """The smaller of the terms' clip and what the bounds imply; None if neither limits a record."""
    if clip is not None and clip < implied:
        return RecordBound(clip, norm, clips=True)
    return RecordBound(implied, norm, clips=False) if np.isfinite(implied) else None


def derivative_limit(design: Design, bound: RecordBound) -> Floats:
    """How large the derivative of each record's loss may be, a hair below Xi/|x| so that rounding cannot lift the
    product above Xi. Found once for a table.

    A row that measures less than SMALLEST is taken to measure that: its limit is below Xi/|x|, and finite.
    """

    def found() -> Floats:
        limit = bound.value / np.maximum(design.row_norms(bound.norm), SMALLEST)
        return np.asarray(limit * (1 - (design.width + 8) * UNIT_ROUNDOFF))

    return design.derived(("derivative limit", bound), found)


def clip(derivative: Floats, limit: Floats) -> None:
    """Cut derivatives [..., n] to at most `limit` [n] in size, in place: the same as by `np.clip`, in half the time."""
    np.minimum(derivative, limit, out=derivative)
    np.maximum(derivative, -limit, out=derivative)


def bound_norm(features: Floats, norm: ClipNorm) -> float:
    """How much a row within these bounds measures at most."""
    if norm == "linf":
        return float(features.max(initial=0.0))
    return float(features.sum()) if norm == "l1" else float(np.sqrt(np.sum(features**2)))


WIDTH = 0.2  # over which the corner is smoothed to have a curvature


class Elementary(Protocol):
    """The functions of single numbers that a derivative may need beside arithmetic: a table's own, where its rows were
    drawn in secret."""

    def exp(self, values: Floats) -> Floats:
        """e^x. May overwrite its argument."""

    def logistic(self, values: Floats) -> Floats:
        """1/(1 + e^-x). May overwrite its argument."""


class Plain:
    """Exponentials and logistic functions of NumPy and SciPy."""

    def exp(self, values: Floats) -> Floats:
        return np.exp(values, out=values)

    def logistic(self, values: Floats) -> Floats:
        return np.asarray(expit(values, out=values))


PLAIN = Plain()


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss of a raw prediction; raw predictions are [..., n], targets [n] or [..., n]."""

    largest_curvature: ClassVar[float] = 1.0  # sup of `hessian`; of a loss with corners: of what stands in for it
    smooth: ClassVar[bool] = True  # whether the derivative nowhere rises faster than that; not so for the hinge

    @abstractmethod
    def loss(self, raw: Floats, y: Floats) -> Floats:
        """The loss of every record, in the shape of its raw predictions."""

    @abstractmethod
    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
        """d loss/d raw (an element of the subdifferential). May overwrite `raw`: this is the innermost loop.

        Formal guarantee: for each record a function of its own raw prediction and target. What is no series of
        additions, multiplications and comparisons is `elementary`'s to compute, so that who else was drawn moves it by
        no bit.
        """

    @abstractmethod
    def hessian(self, raw: Floats, y: Floats) -> Floats:
        """d^2 loss/d raw^2, zero where it does not exist."""

    def raw_at(self, chance: Floats, own: float = 1.0, other: float = -1.0) -> Floats:
        """The raw prediction for a record whose target is `own` with this probability, above 0 and below 1, and else
        `other`: that of least expected loss where the loss knows it; left so, the log-odds."""
        return np.asarray(np.log(chance) - np.log1p(-chance))

    def comparable(self, raw: Floats) -> Floats:
        """Raw predictions as they are judged beside those of a model of another kind: themselves, unless the loss asks
        of them what only one kind can do."""
        return raw

    @abstractmethod
    def largest_derivative(self, reach: float, target_bound: float) -> float:
        """sup |gradient| over all raw predictions and targets up to these sizes; infinite if they are and it is."""


@dataclass(frozen=True)
class Squared(Loss):
    """The squared loss (raw - y)^2 of a number (W section IV-A).

    Its derivative has no bound but what raw predictions and targets have.

    >>> Squared().gradient(np.array([3.0]), np.array([1.0]))
    array([4.])
    """

    largest_curvature: ClassVar[float] = 2.0

    def loss(self, raw: Floats, y: Floats) -> Floats:
        return np.square(raw - y)

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
        raw -= y
        raw += raw
        return raw

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        return np.full_like(raw, 2.0)

    def raw_at(self, chance: Floats, own: float = 1.0, other: float = -1.0) -> Floats:
        """The mean target."""
        return np.asarray(other + (own - other) * chance)

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return 2 * (reach + target_bound)


@dataclass(frozen=True)
class Logistic(Loss):
    """The logistic loss ln(1 + exp(-y raw)) of classes y = -1 and 1; the raw prediction is the log-odds of class 1.

    Its derivative lies between -1 and 1.

    >>> Logistic().gradient(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    largest_curvature: ClassVar[float] = 0.25

    def loss(self, raw: Floats, y: Floats) -> Floats:
        return np.logaddexp(0.0, -y * raw)

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
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
    """The hinge max(0, 1 - y raw) of classes y = -1 and 1 (W section IV-B).

    `smoothing` m > 0 rounds its corner into a parabola of width m that lies at most m/2 below it.

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

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
        raw *= y
        if not self.smoothing > 0:
            return np.multiply(raw < 1, -y, out=raw)
        return np.clip((1 - raw) / self.smoothing, 0.0, 1.0) * -y

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        gap = 1 - y * raw
        return ((gap > 0) & (gap < self.smoothing)) / max(self.smoothing, np.finfo(np.float64).tiny)

    def raw_at(self, chance: Floats, own: float = 1.0, other: float = -1.0) -> Floats:
        """The sign of the likelier class."""
        return self.comparable(chance - 0.5)

    def comparable(self, raw: Floats) -> Floats:
        """The signs, -1 and 1: no linear score can be flat beyond a margin, as the best score is. So what counts is
        what is decided, and the loss is twice the share of mistakes."""
        return np.where(raw > 0, 1.0, -1.0)

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return 1.0

    def smoothed(self, width: float = WIDTH) -> Self:
        """The same with its corner rounded off over this width."""
        return replace(self, smoothing=width)


@dataclass(frozen=True)
class Poisson(Loss):
    """Half the Poisson deviance y ln(y/rate) - y + rate of a rate y, whose raw prediction is ln rate: zero where it is
    right.

    No rate is predicted above the `ceiling`: beyond it the loss rises along its tangent, so its derivative lies
    between -y and the ceiling.

    The derivative min(e^raw, ceiling) - y never falls: the loss is convex, and its curvature at most the ceiling.

    >>> Poisson().gradient(np.array([0.0]), np.array([3.0]))
    array([-2.])
    """

    ceiling: float = LARGEST

    @classmethod
    def within(cls, preparation: Preparation) -> Self:
        """The loss of rates that are predicted no higher than the bounds of counts and exposures allow."""
        return cls(max(preparation.target_interval[1], SMALLEST))

    @property
    def largest_curvature(self) -> float:  # type: ignore[override]
        return self.ceiling

    def rate(self, raw: Floats, elementary: Elementary = PLAIN) -> Floats:
        """e^raw, at most the ceiling. May overwrite `raw`."""
        found = elementary.exp(np.minimum(raw, np.log(self.ceiling), out=raw))
        return np.minimum(found, self.ceiling, out=found)

    def loss(self, raw: Floats, y: Floats) -> Floats:
        rate = self.rate(np.array(raw))
        beyond = self.ceiling * np.maximum(0.0, raw - np.log(self.ceiling))
        return np.asarray(np.maximum(0.0, rate + beyond - y * raw + xlogy(y, y) - y))

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
        derivative = self.rate(raw, elementary)
        derivative -= y
        return derivative

    def hessian(self, raw: Floats, y: Floats) -> Floats:
        return np.where(raw < np.log(self.ceiling), self.rate(np.array(raw)), 0.0)

    def largest_derivative(self, reach: float, target_bound: float) -> float:
        return max(self.rate_within(reach), target_bound)

    def rate_within(self, reach: float) -> float:
        """The largest rate of raw predictions up to this size, rounded up."""
        return min(float(np.exp(min(reach, np.log(self.ceiling)))) * (1 + 1e-12), self.ceiling)
