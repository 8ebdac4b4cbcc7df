"""Boosting by noisy leaf sums: a tree a round, whose leaves are set to what all answers about them say together.

The learner sees the answers, how many records they are about and how large their noise is; all else follows from
those. Owners whose noise drowns what they say count for less, by weights that are public.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import expit, logit

from parley.learning.algorithms.algorithm import Algorithm, Asker, State
from parley.protocol.aggregation import EachOwnerNoise
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.tasks.trees.leaf_sums import RecordShare
from parley.tasks.trees.leaf_values import Information, make_priors, posterior_mean
from parley.tasks.trees.question import LeafSumsQuery
from parley.tasks.trees.structure import Structure, make_structure
from parley.tasks.trees.terms import error_limit
from parley.validate import Floats

LEAF = 0.01  # of an owner's records: what the curvature of a leaf that matters is about


@dataclass(frozen=True)
class Expected:
    """What is expected of a target before anything is known, in units of what an error counts at most: the size of leaf
    values, and the variance of a record's error by its curvature."""

    size: float
    chance: float


CLASSES, NUMBERS = Expected(1.0, 1.0), Expected(0.6, 0.25)


@dataclass(frozen=True, eq=False)
class BoostedTrees(Algorithm):
    """The state remembers, leaf by leaf, what was released so far (`leaf_values`), the mean curvature, and how often
    each tree was asked for."""

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
        """What is expected of the target."""
        return CLASSES if self.share.classes else NUMBERS

    @cached_property
    def weights(self) -> Floats:
        """How much the sums of each who answers count: 1 for the quietest."""
        weights = 1 / (self.expected.chance + self.noise / (LEAF * self.records))
        return np.asarray(weights / weights.max())

    @cached_property
    def priors(self) -> Mapping[int, Floats]:
        """What is expected of the leaves of every tree, by its place."""
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
        here, unit = leaves.values, self.share.limit
        memory["visits"][..., place] += 1
        mean = memory["curvature"][..., here]
        mean += (curvature / records - mean) / memory["visits"][..., place, None]
        known = Information(memory["precision"][..., here], memory["weighted"][..., here])
        known = known.and_visit(theta[..., here] / unit, gradient, mean * records, self.expected.chance, noise)
        memory["precision"][..., here], memory["weighted"][..., here] = known.precision, known.weighted
        theta[..., here] = unit * posterior_mean(self.priors[place], known)
        return State(state.round + 1, theta, memory)

    def _summed(self, combined: Floats, answers: Sequence[Answer]) -> tuple[Floats, float, float]:
        """(weighted sums [..., 2, leaves] of those who answered, the variance of their noise, how many records)."""
        if self.names == ("",):
            there, values = [0], [combined]
        else:
            there, values = [self.names.index(answer.owner) for answer in answers], [a.value for a in answers]
        weights, records = self.weights[there], self.records[there]
        total = sum(w * n * value for w, n, value in zip(weights, records, values, strict=True))
        shape = (*combined.shape[:-1], 2, self.structure.largest)
        return np.asarray(total).reshape(shape), float(weights**2 @ self.noise[there]), float(weights @ records)

    def _level(self, level: Floats, gradient: Floats, noise: float, records: float) -> Floats:
        """What all records have in common, told by the sum of gradients where nothing else is known: the mean error, or
        the log odds of the share of 1."""
        error = gradient / records
        if not self.share.classes:
            return level - self.share.limit * error
        least = min(0.5, max(1.0, noise**0.5) / records)
        return np.asarray(logit(np.clip(expit(level) - error, least, 1 - least)))
