"""Losses of one record of several classes, by its raw predictions, one for each class, and its class 0, 1, 2, ..."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from parley.data import rowwise
from parley.losses.loss import PLAIN_FUNCTIONS, ClipNorm, Elementary, Loss
from parley.validate import Floats

MAX_RESIDUAL_NORMS: dict[ClipNorm, float] = {"l1": 2.0, "l2": 2.0**0.5, "linf": 1.0}  # |p - e_y| at most


@dataclass(frozen=True)
class ClassLoss(ABC):
    """A convex loss of raw predictions [..., classes, n] of records whose classes are y [n]."""

    largest_curvature: ClassVar[float] = 1.0  # the largest eigenvalue of a record's second derivative
    smooth: ClassVar[bool] = True

    @abstractmethod
    def loss(self, raw: Floats, y: Floats) -> Floats:
        """Return the loss of every record [..., n]."""

    @abstractmethod
    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN_FUNCTIONS) -> Floats:
        """Return d loss/d raw [..., classes, n]. May overwrite `raw`. Formal guarantee: as `Loss.gradient`."""

    @abstractmethod
    def hessian(self, raw: Floats, y: Floats) -> Iterator[tuple[int, int, Floats]]:
        """Yield d^2 loss/d raw_c d raw_d of raw predictions [classes, n] as (c, d, [n]), c <= d; others are 0."""

    def raw_at(self, chances: Floats) -> Floats:
        """Return raw predictions [classes, n] for these class probabilities, strictly between 0 and 1: those of least
        expected loss if the loss knows them, else the logarithms."""
        return np.asarray(np.log(chances))

    def comparable(self, raw: Floats) -> Floats:
        """Return raw predictions [..., classes, n] as they are compared with those of another kind of model."""
        return raw

    @abstractmethod
    def largest_derivative(self, norm: ClipNorm, classes: int, reach: float) -> float:
        """Return sup of the gradient's norm over classes, for raw predictions up to `reach`; it may be infinite."""


@dataclass(frozen=True)
class EachClass(ClassLoss):
    """The sum over classes of a loss of each raw prediction; its target is `own` for records of the class, else
    `other`.

    >>> from parley.losses.loss import Squared
    >>> EachClass(Squared(), own=1.0, other=0.0).gradient(np.array([[0.5], [0.5]]), np.array([1.0]))
    array([[ 1.],
           [-1.]])
    """

    of: Loss
    own: float
    other: float

    @property
    def largest_curvature(self) -> float:  # type: ignore[override]
        return self.of.largest_curvature

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        return self.of.smooth

    def targets(self, y: Floats, classes: int) -> Floats:
        """Return every class's targets [classes, n]."""
        return np.where(np.arange(classes)[:, None] == y, self.own, self.other)

    def loss(self, raw: Floats, y: Floats) -> Floats:
        return np.asarray(self.of.loss(raw, self.targets(y, raw.shape[-2])).sum(axis=-2))

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN_FUNCTIONS) -> Floats:
        return self.of.gradient(raw, self.targets(y, raw.shape[-2]), elementary)

    def hessian(self, raw: Floats, y: Floats) -> Iterator[tuple[int, int, Floats]]:
        for place, curvature in enumerate(self.of.hessian(raw, self.targets(y, len(raw)))):
            yield place, place, curvature

    def raw_at(self, chances: Floats) -> Floats:
        return self.of.raw_at(chances, self.own, self.other)

    def comparable(self, raw: Floats) -> Floats:
        return self.of.comparable(raw)

    def largest_derivative(self, norm: ClipNorm, classes: int, reach: float) -> float:
        over: dict[ClipNorm, float] = {"l1": float(classes), "l2": math.sqrt(classes) * (1 + 1e-12), "linf": 1.0}
        return self.of.largest_derivative(reach, max(abs(self.own), abs(self.other))) * over[norm]


@dataclass(frozen=True)
class Multinomial(ClassLoss):
    """The multinomial logistic loss -ln p_y, p = softmax(raw); its gradient is p - e_y, its Hessian diag(p) - p p'.

    >>> Multinomial().gradient(np.zeros((2, 1)), np.array([1.0]))
    array([[ 0.5],
           [-0.5]])
    """

    largest_curvature: ClassVar[float] = 0.5

    def loss(self, raw: Floats, y: Floats) -> Floats:
        top = raw.max(axis=-2)
        total = np.log(np.exp(raw - top[..., None, :]).sum(axis=-2)) + top
        return np.asarray(total - raw[..., _classes(y), np.arange(len(y))])

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN_FUNCTIONS) -> Floats:
        residual = _probabilities(raw, elementary)
        residual[..., _classes(y), np.arange(len(y))] -= 1.0
        return residual

    def hessian(self, raw: Floats, y: Floats) -> Iterator[tuple[int, int, Floats]]:
        p = _probabilities(raw.copy(), PLAIN_FUNCTIONS)
        for c in range(len(p)):
            for d in range(c, len(p)):
                yield c, d, p[c] * ((c == d) - p[d])

    def largest_derivative(self, norm: ClipNorm, classes: int, reach: float) -> float:
        return MAX_RESIDUAL_NORMS[norm]


def over_classes(terms: Floats) -> Floats:
    """Sum terms [..., classes, n] -> [..., n] in an order independent of the number of rows. Overwrites the terms."""
    return rowwise.halving_sum(np.moveaxis(terms, -2, 0))


@dataclass(frozen=True)
class Hazards(ClassLoss):
    """The sum of logistic losses over the periods that count for one subject; raw predictions are log-odds by period.

    The label is 2 s + e (`data.targets`): s periods were survived, and if e = 1 the event happened in the next one. So
    the first s + e periods count. The derivative there is the hazard, less 1 where it happened; in other periods 0.

    >>> Hazards().gradient(np.zeros((3, 1)), np.array([3.0]))
    array([[ 0.5],
           [-0.5],
           [ 0. ]])
    """

    largest_curvature: ClassVar[float] = 0.25

    def loss(self, raw: Floats, y: Floats) -> Floats:
        counts, happened = periods(y, raw.shape[-2])
        return over_classes(np.asarray(np.logaddexp(0.0, np.where(happened, -raw, raw)) * counts, dtype=np.float64))

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN_FUNCTIONS) -> Floats:
        counts, happened = periods(y, raw.shape[-2])
        derivative = elementary.logistic(raw)
        derivative -= happened
        derivative *= counts
        return derivative

    def hessian(self, raw: Floats, y: Floats) -> Iterator[tuple[int, int, Floats]]:
        counts, _ = periods(y, len(raw))
        for place, p in enumerate(expit(raw)):
            yield place, place, counts[place] * p * (1 - p)

    def largest_derivative(self, norm: ClipNorm, classes: int, reach: float) -> float:
        over: dict[ClipNorm, float] = {"l1": float(classes), "l2": math.sqrt(classes) * (1 + 1e-12), "linf": 1.0}
        return over[norm]


def periods(y: Floats, count: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which periods count for each label, and in which one the event happened [count, n]."""
    place, survived = np.arange(count)[:, None], np.floor(y / 2)
    happened = (place == survived) & (y % 2 == 1)
    return (place < survived) | happened, happened


def _classes(y: Floats) -> NDArray[np.intp]:
    return y.astype(np.intp)


def _probabilities(raw: Floats, elementary: Elementary) -> Floats:
    """Return softmax over the classes [..., classes, n]. Overwrites `raw`."""
    raw -= raw.max(axis=-2, keepdims=True)
    raw = elementary.exp(raw)
    raw /= over_classes(raw.copy())[..., None, :]
    return raw
