"""The loss of one subject that is watched over periods: the sum of logistic losses over those that it lived to see,
one raw prediction a period, the log-odds that what is waited for happens in it.

Its label is 2 s + e (`data.lifetimes`): s periods were survived, and if e = 1 it happened in the next one. So s + e
periods count, the first ones.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from parley.losses.class_loss import ClassLoss
from parley.losses.loss import PLAIN, Elementary
from parley.losses.multinomial import over_classes
from parley.losses.record_bound import ClipNorm
from parley.validate import Floats


@dataclass(frozen=True)
class Hazards(ClassLoss):
    """Its derivative in a period that counts is the hazard, less 1 where it happened; in any other it is 0.

    >>> Hazards().gradient(np.zeros((3, 1)), np.array([3.0]))
    array([[ 0.5],
           [-0.5],
           [ 0. ]])
    """

    largest_curvature: ClassVar[float] = 0.25

    def loss(self, raw: Floats, y: Floats) -> Floats:
        counts, happened = periods(y, raw.shape[-2])
        return over_classes(np.asarray(np.logaddexp(0.0, np.where(happened, -raw, raw)) * counts, dtype=np.float64))

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
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
    """Which of so many periods count for each label, and in which it happened [count, n]."""
    place, survived = np.arange(count)[:, None], np.floor(y / 2)
    happened = (place == survived) & (y % 2 == 1)
    return (place < survived) | happened, happened
