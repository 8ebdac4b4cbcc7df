"""The loss of one record: formulas of its raw prediction, the margin theta.x, and its target. `objectives` compose it
with tables."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit

from parley.validate import Floats


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
