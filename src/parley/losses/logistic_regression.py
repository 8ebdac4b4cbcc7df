"""Logistic regression: g2 = ln(1 + exp(-y theta.x))."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from parley.data import Design
from parley.losses.margin import MarginObjective
from parley.validate import Floats


@dataclass(frozen=True)
class LogisticRegression(MarginObjective):
    """The smooth classifier; its margin is the log-odds of class 1.

    >>> LogisticRegression().slope(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    largest_bend: ClassVar[float] = 0.25

    def loss(self, margin: Floats, y: Floats) -> Floats:
        return np.logaddexp(0.0, -y * margin)

    def slope(self, margin: Floats, y: Floats) -> Floats:
        return _slope(margin, y, lambda values: np.asarray(expit(values, out=values)))

    def slopes(self, block: Design, flat: Floats) -> Floats:
        return _slope(block.margins(flat), block.y, block.logistic)

    def bend(self, margin: Floats, y: Floats) -> Floats:
        probability = expit(margin)
        return probability * (1 - probability)  # type: ignore[no-any-return]

    def largest_slope(self, largest_margin: float, target_bound: float) -> float:
        return 1.0


def _slope(margin: Floats, y: Floats, logistic: Callable[[Floats], Floats]) -> Floats:
    margin *= -y
    slope = logistic(margin)
    slope *= -y
    return slope
