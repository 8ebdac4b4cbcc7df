"""The multinomial logistic loss -ln p_y, p = softmax(raw), of any number of classes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data import rowwise
from parley.losses.class_loss import ClassLoss
from parley.losses.loss import PLAIN, Elementary
from parley.losses.record_bound import ClipNorm
from parley.validate import Floats

FARTHEST: dict[ClipNorm, float] = {"l1": 2.0, "l2": 2.0**0.5, "linf": 1.0}  # |p - e_y| at most


@dataclass(frozen=True)
class Multinomial(ClassLoss):
    """Its gradient is p - e_y, its second derivative diag(p) - p p'.

    >>> Multinomial().gradient(np.zeros((2, 1)), np.array([1.0]))
    array([[ 0.5],
           [-0.5]])
    """

    largest_curvature: ClassVar[float] = 0.5

    def loss(self, raw: Floats, y: Floats) -> Floats:
        top = raw.max(axis=-2)
        total = np.log(np.exp(raw - top[..., None, :]).sum(axis=-2)) + top
        return np.asarray(total - raw[..., _classes(y), np.arange(len(y))])

    def gradient(self, raw: Floats, y: Floats, elementary: Elementary = PLAIN) -> Floats:
        residual = _probabilities(raw, elementary)
        residual[..., _classes(y), np.arange(len(y))] -= 1.0
        return residual

    def hessian(self, raw: Floats, y: Floats) -> Iterator[tuple[int, int, Floats]]:
        p = _probabilities(raw.copy(), PLAIN)
        for c in range(len(p)):
            for d in range(c, len(p)):
                yield c, d, p[c] * ((c == d) - p[d])

    def largest_derivative(self, norm: ClipNorm, classes: int, reach: float) -> float:
        return FARTHEST[norm]


def over_classes(terms: Floats) -> Floats:
    """The sum over classes [..., classes, n] -> [..., n], in an order that no number of rows changes. Overwrites the
    terms."""
    return rowwise.folded(np.moveaxis(terms, -2, 0))


def _classes(y: Floats) -> NDArray[np.intp]:
    return y.astype(np.intp)


def _probabilities(raw: Floats, elementary: Elementary) -> Floats:
    """Softmax over the classes [..., classes, n]. Overwrites `raw`."""
    raw -= raw.max(axis=-2, keepdims=True)
    raw = elementary.exp(raw)
    raw /= over_classes(raw.copy())[..., None, :]
    return raw
