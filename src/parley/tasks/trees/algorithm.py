"""Boosting by noisy leaf sums: one tree a round, its leaf values set from all answers about that tree so far.

Let a leaf's released sums be g (gradients, with noise of variance s^2) and h (curvatures), and v h the variance of its
records' errors. Then -g/h measures how far its value should move, with precision W = h^2/(v h + s^2), so a leaf that is
mostly noise counts for little. Visits add up: with F the value at a visit, L = sum W and b = sum (W F - g h/(v h +
s^2)).

The leaf values of one tree have a Gaussian prior with covariance K: neighbouring steps of a column are alike, names
share a common part. The posterior means (L + K^-1)^-1 b of several K are averaged by their evidence.

Formal guarantee: everything here is computed from released answers and public numbers, and costs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from scipy.special import expit, logit

from parley.learning.algorithms.algorithm import Algorithm, Asker, State
from parley.protocol.aggregation import EachOwnerNoise
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.tasks.trees.question import LeafSumsQuery, Leaves, RecordShare, Structure, make_structure
from parley.tasks.trees.terms import error_limit
from parley.validate import Floats

LEAF_AMPLITUDES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # of leaf values, in units of what they are expected to be
CORRELATION_LENGTHS = (0.1, 0.3, 1.0)  # over which the steps of a column are alike, as shares of its range
COMMON_NAME_VARIANCE = 0.1  # of names' variance: what all of them have in common
JITTER_SHARE = 1e-6  # of the variance: no two leaves are quite alike
TYPICAL_LEAF_SHARE = 0.01  # of an owner's records: what the curvature of a leaf that matters is about


@dataclass(frozen=True)
class Expected:
    """Prior expectations in error limits: the size of leaf values, and the error variance per curvature."""

    size: float
    chance: float


CLASSES, NUMBERS = Expected(1.0, 1.0), Expected(0.6, 0.25)


@dataclass(frozen=True, eq=False)
class BoostedTrees(Algorithm):
    """The learner; its state holds each leaf's `Information` and mean curvature, and each tree's visits."""

    structure: Structure
    share: RecordShare
    names: tuple[str, ...]  # of those who answer; one for all where one noise is for all
    records: Floats  # how many each of their answers is about
    noise: Floats  # variance of the noise in a number of their sums

    @classmethod
    def make(cls, setup: Setup) -> Self:
        noise, terms = setup.aggregation.noise(setup), setup.terms
        names = tuple(setup.schedule.names)
        if isinstance(noise, EachOwnerNoise):
            records, variances = noise.records, noise.variances
        else:
            names = ("",)
            records, variances = np.array([noise.records.sum()]), np.array([noise.all_together])
        share = RecordShare(terms.model.classifies, error_limit(terms), setup.norm)
        structure = make_structure(setup.preparation)
        return cls(
            setup.objective, terms.learning.horizon, None, structure, share, names, records, records**2 * variances
        )

    @property
    def expected(self) -> Expected:
        """The prior expectations of the target."""
        return CLASSES if self.share.classes else NUMBERS

    @cached_property
    def weights(self) -> Floats:
        """The public weight of each answerer's sums: 1 for the one with the least noise."""
        weights = 1 / (self.expected.chance + self.noise / (TYPICAL_LEAF_SHARE * self.records))
        return np.asarray(weights / weights.max())

    @cached_property
    def priors(self) -> Mapping[int, Floats]:
        """The prior covariances of every tree, by its place."""
        every = enumerate(self.structure.leaves)
        return {place: make_priors(leaves, self.expected.size) for place, leaves in every if place}

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        theta = np.broadcast_to(origin, (*replicates, origin.shape[-1]))
        nothing = np.zeros(theta.shape)
        memory = dict.fromkeys(("precision", "weighted", "curvature"), nothing)
        return State(1, theta, {**memory, "visits": np.zeros((*replicates, len(self.structure.leaves)))})

    def query(self, state: State, asker: Asker) -> LeafSumsQuery:
        return LeafSumsQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        place = self.structure.place(state.round)
        leaves, theta = self.structure.leaves[place], state.theta.copy()
        memory = {name: values.copy() for name, values in state.memory.items()}
        sums, noise, records = self._summed(combined, answers)
        gradient = sums[..., 0, : leaves.size]
        curvature = sums[..., 1, : leaves.size] / self.share.curvature_scale
        if place == 0:
            theta[..., 0] = self._level(theta[..., 0], gradient[..., 0], noise, records)
            return State(state.round + 1, theta, memory)
        leaf_places, unit = leaves.values, self.share.limit
        memory["visits"][..., place] += 1
        mean = memory["curvature"][..., leaf_places]
        mean += (curvature / records - mean) / memory["visits"][..., place, None]
        known = Information(memory["precision"][..., leaf_places], memory["weighted"][..., leaf_places])
        known = known.and_visit(theta[..., leaf_places] / unit, gradient, mean * records, self.expected.chance, noise)
        memory["precision"][..., leaf_places], memory["weighted"][..., leaf_places] = known.precision, known.weighted
        theta[..., leaf_places] = unit * posterior_mean(self.priors[place], known)
        return State(state.round + 1, theta, memory)

    def _summed(self, combined: Floats, answers: Sequence[Answer]) -> tuple[Floats, float, float]:
        """Return (weighted sums [..., 2, leaves], the variance of their noise, their number of records)."""
        if self.names == ("",):
            answering, values = [0], [combined]
        else:
            answering, values = [self.names.index(answer.owner) for answer in answers], [a.value for a in answers]
        weights, records = self.weights[answering], self.records[answering]
        total = sum(w * n * value for w, n, value in zip(weights, records, values, strict=True))
        shape = (*combined.shape[:-1], 2, self.structure.largest)
        return np.asarray(total).reshape(shape), float(weights**2 @ self.noise[answering]), float(weights @ records)

    def _level(self, level: Floats, gradient: Floats, noise: float, records: float) -> Floats:
        """Return the common level after the mean error, or for classes the log odds of the share of 1."""
        error = gradient / records
        if not self.share.classes:
            return level - self.share.limit * error
        least = min(0.5, max(1.0, noise**0.5) / records)
        return np.asarray(logit(np.clip(expit(level) - error, least, 1 - least)))


@dataclass(frozen=True)
class Information:
    """What was released about leaves so far: precisions L and weighted values b, each [..., leaves]."""

    precision: Floats
    weighted: Floats

    def and_visit(
        self, values: Floats, gradient: Floats, curvature: Floats, chance: float, noise: float
    ) -> "Information":
        """Return the information after one more visit with sums of gradients and curvatures [..., leaves] at these
        values. `chance` is the variance of a record's error, `noise` that of a sum."""
        h = np.maximum(curvature, 0.0)
        gain = h / (chance * h + noise)
        return Information(self.precision + h * gain, self.weighted + h * gain * values - gain * gradient)


def posterior_mean(priors: Floats, information: Information) -> Floats:
    """Return the leaf values [..., leaves], averaged over priors [priors, leaves, leaves] by their evidence."""
    L, b = (x.reshape(-1, x.shape[-1]) for x in (information.precision, information.weighted))
    means = [_mean(priors, precision, weighted) for precision, weighted in zip(L, b, strict=True)]
    return np.stack(means).reshape(information.precision.shape)


def _mean(priors: Floats, precision: Floats, weighted: Floats) -> Floats:
    """Posterior mean of one replicate. (L + K^-1)^-1 = K - K r B^-1 r K with r = sqrt L and B = 1 + r K r, which is
    well conditioned; the log evidence is (b' (L + K^-1)^-1 b - log det B)/2 plus a constant."""
    r = np.sqrt(precision)
    B = np.eye(len(r)) + r[:, None] * priors * r
    pulled = priors @ weighted
    inner = np.linalg.solve(B, (r * pulled)[..., None])[..., 0]
    means = pulled - np.einsum("kij,kj->ki", priors * r, inner)
    evidence = 0.5 * (means @ weighted - np.linalg.slogdet(B)[1])
    weight = np.exp(evidence - evidence.max())
    return np.asarray((weight / weight.sum()) @ means)


def make_priors(leaves: Leaves, unit: float) -> Floats:
    """Return the prior covariances [priors, leaves, leaves] of one tree whose values have size `unit`."""
    shapes = np.stack(
        [
            _shape(leaves, length)
            for length in (CORRELATION_LENGTHS if _lies_in_order(leaves) else CORRELATION_LENGTHS[:1])
        ]
    )
    sizes = (unit * np.array(LEAF_AMPLITUDES)) ** 2
    found = (sizes[:, None, None, None] * shapes).reshape(-1, leaves.size, leaves.size)
    return np.asarray(found)


def _lies_in_order(leaves: Leaves) -> bool:
    return any(axis.ordered for axis in leaves.axes)


def _shape(leaves: Leaves, length: float) -> Floats:
    shape: Floats = np.ones((1, 1))
    for axis in leaves.axes:
        shape = np.asarray(np.kron(shape, _correlation(axis.ordered, axis.groups, length)), dtype=np.float64)
    return shape + JITTER_SHARE * np.eye(len(shape))


@lru_cache(maxsize=256)
def _correlation(ordered: int, groups: int, length: float) -> Floats:
    """The correlation of one column's groups: decaying with the distance of steps; gaps and names apart."""
    if not ordered:
        return np.eye(groups) + COMMON_NAME_VARIANCE
    steps = np.arange(ordered) / ordered
    shape = np.eye(groups)
    shape[:ordered, :ordered] = np.exp(-np.abs(steps[:, None] - steps) / length)
    return shape
