"""The loss of one record of several classes: formulas of its raw predictions, one for each class, and its class 0, 1,
2, ..."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.losses.loss import PLAIN, Elementary, Loss
from parley.losses.record_bound import ClipNorm
from parley.validate import Floats


@dataclass(frozen=True)
class ClassLoss(ABC):
    """A convex loss of raw predictions [..., classes, n] of records whose classes are y [n]."""

    largest_curvature: ClassVar[float] = 1.0  # the largest eigenvalue of a record's second derivative
    smooth: ClassVar[bool] = True

    @abstractmethod
    def loss(self, raw: Floats, y: Floats) -> Floats:
        """The loss of every record [..., n]."""

    @abstractmethod
    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
        """d loss/d raw [..., classes, n]. May overwrite `raw`. Formal guarantee: as `Loss.gradient`."""

    @abstractmethod
    def hessian(self, raw: Floats, y: Floats) -> Iterator[tuple[int, int, Floats]]:
        """d^2 loss/d raw_c d raw_d of raw predictions [classes, n] as (c, d, [n]), c <= d; pairs that are left out are
        zero."""

    def raw_at(self, chances: Floats) -> Floats:
        """The raw predictions [classes, n] for records whose classes have these probabilities [classes, n], above 0 and
        below 1: those of least expected loss where the loss knows them; left so, the logarithms."""
        return np.asarray(np.log(chances))

    def comparable(self, raw: Floats) -> Floats:
        """Raw predictions [..., classes, n] as they are judged beside those of a model of another kind."""
        return raw

    @abstractmethod
    def largest_derivative(self, norm: ClipNorm, classes: int, reach: float) -> float:
        """sup of the gradient's norm over the classes, for raw predictions up to this size; infinite if they are and it
        is."""


@dataclass(frozen=True)
class EachClass(ClassLoss):
    """The sum over classes of a loss of each one's own raw prediction, its target `own` for records of the class and
    `other` else.

    >>> from parley.losses.squared import Squared
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
        """Every class's targets [classes, n]."""
        return np.where(np.arange(classes)[:, None] == y, self.own, self.other)

    def loss(self, raw: Floats, y: Floats) -> Floats:
        return np.asarray(self.of.loss(raw, self.targets(y, raw.shape[-2])).sum(axis=-2))

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
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
