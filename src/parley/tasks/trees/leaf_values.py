"""What noisy sums say about the values of leaves: the mean of their posterior, under priors that the answers choose.

A leaf whose records' gradients add up to g + noise and curvatures to h says that its value should move by d, where
-(g + noise) = h d + the chance of the records (variance v h) + the noise's own (variance s^2). That is a measurement
-g/h of d with precision W = h^2/(v h + s^2): a leaf of few records, whose sums are mostly noise, counts for little, so
that no curvature needs a floor and no step a rate. Measurements of all visits add up: with F the value at a visit,
the information is L = sum W, and b = sum (W F - g h/(v h + s^2)).

The values of one tree's leaves are Gaussian a priori with covariance K: neighbouring steps of a column alike, names
independent but for what they have in common. Several such K, of different amplitudes and lengths, are weighed by how
well they explain what was released (their evidence), and the posterior means (L + K^-1)^-1 b are averaged by that.

Formal guarantee: everything here is computed from released answers and public numbers, and costs nothing.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from parley.tasks.trees.structure import Leaves
from parley.validate import Floats

AMPLITUDES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # of leaf values, in units of what they are expected to be
LENGTHS = (0.1, 0.3, 1.0)  # over which the steps of a column are alike, as shares of its range
COMMON = 0.1  # of names' variance: what all of them have in common
JITTER = 1e-6  # of the variance: no two leaves are quite alike


@dataclass(frozen=True)
class Information:
    """What was released about leaves so far: precisions L and weighted values b, each [..., leaves]."""

    precision: Floats
    weighted: Floats

    def and_visit(
        self, values: Floats, gradient: Floats, curvature: Floats, chance: float, noise: float
    ) -> "Information":
        """With one more visit: sums of gradients and curvatures [..., leaves] at these values, `chance` the variance of
        a record's error, `noise` that of a sum."""
        h = np.maximum(curvature, 0.0)
        gain = h / (chance * h + noise)
        return Information(self.precision + h * gain, self.weighted + h * gain * values - gain * gradient)


def posterior_mean(priors: Floats, information: Information) -> Floats:
    """The leaf values [..., leaves] by information about them, averaged over priors [priors, leaves, leaves] by their
    evidence."""
    L, b = (x.reshape(-1, x.shape[-1]) for x in (information.precision, information.weighted))
    means = [_mean(priors, precision, weighted) for precision, weighted in zip(L, b, strict=True)]
    return np.stack(means).reshape(information.precision.shape)


def _mean(priors: Floats, precision: Floats, weighted: Floats) -> Floats:
    """For one replicate. (L + K^-1)^-1 = K - K r B^-1 r K with r = sqrt L and B = 1 + r K r, well conditioned; the log
    evidence is (b' (L + K^-1)^-1 b - log det B)/2 and what all K share."""
    r = np.sqrt(precision)
    B = np.eye(len(r)) + r[:, None] * priors * r
    pulled = priors @ weighted
    inner = np.linalg.solve(B, (r * pulled)[..., None])[..., 0]
    means = pulled - np.einsum("kij,kj->ki", priors * r, inner)
    evidence = 0.5 * (means @ weighted - np.linalg.slogdet(B)[1])
    weight = np.exp(evidence - evidence.max())
    return np.asarray((weight / weight.sum()) @ means)


def make_priors(leaves: Leaves, unit: float) -> Floats:
    """The covariances [priors, leaves, leaves] that are weighed for one tree, values being expected of size `unit`."""
    shapes = np.stack([_shape(leaves, length) for length in (LENGTHS if _lies_in_order(leaves) else LENGTHS[:1])])
    sizes = (unit * np.array(AMPLITUDES)) ** 2
    found = (sizes[:, None, None, None] * shapes).reshape(-1, leaves.size, leaves.size)
    return np.asarray(found)


def _lies_in_order(leaves: Leaves) -> bool:
    return any(axis.ordered for axis in leaves.axes)


def _shape(leaves: Leaves, length: float) -> Floats:
    """The correlation of leaf values: the product of those of the columns."""
    shape: Floats = np.ones((1, 1))
    for axis in leaves.axes:
        shape = np.asarray(np.kron(shape, _correlation(axis.ordered, axis.groups, length)), dtype=np.float64)
    return shape + JITTER * np.eye(len(shape))


@lru_cache(maxsize=256)
def _correlation(ordered: int, groups: int, length: float) -> Floats:
    """Of the groups of one column: falling off with the distance of steps; gaps and names apart."""
    if not ordered:
        return np.eye(groups) + COMMON
    steps = np.arange(ordered) / ordered
    shape = np.eye(groups)
    shape[:ordered, :ordered] = np.exp(-np.abs(steps[:, None] - steps) / length)
    return shape
