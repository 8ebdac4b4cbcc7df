"""Descent without a centre: every owner has its own point and hears its neighbours on a graph (gradient tracking)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from parley.learning.algorithms.algorithm import Asker, Descent, State, step_size
from parley.protocol.queries import Answer, GradientQuery, Query
from parley.protocol.setup import Setup
from parley.terms.topology import Edges, edges
from parley.validate import Floats


def metropolis(names: tuple[str, ...], joined: Edges) -> Floats:
    """Return W [K, K], symmetric with rows that add up to 1: neighbours weigh 1/(1 + the larger of their degrees).

    >>> metropolis(("a", "b", "c"), (("a", "b"), ("b", "c"))).round(2)
    array([[0.67, 0.33, 0.  ],
           [0.33, 0.33, 0.33],
           [0.  , 0.33, 0.67]])
    """
    place = {name: k for k, name in enumerate(names)}
    ends = np.array([(place[one], place[other]) for one, other in joined], dtype=np.intp).reshape(-1, 2)
    degrees = np.bincount(ends.ravel(), minlength=len(names))
    W = np.zeros((len(names), len(names)))
    one, other = ends.T
    W[one, other] = W[other, one] = 1 / (1 + np.maximum(degrees[one], degrees[other]))
    return np.asarray(W + np.diag(1 - W.sum(axis=1)))


def mix_rows(weights: Floats, values: Floats) -> Floats:
    """Mix `values` [..., J, P] by these rows of W [R, J], into [..., R, P]. The order of summation is fixed, so a row
    is the same to the bit whether computed alone or with others, and with or without owners of weight 0."""
    total = np.zeros((*values.shape[:-2], len(weights), values.shape[-1]))
    for j in range(values.shape[-2]):
        total += weights[:, j, None] * values[..., j, None, :]
    return total


def spectral_gap(weights: Floats) -> float:
    """Return 1 - |second largest eigenvalue|, the least share by which a round of mixing shrinks differences.

    >>> round(spectral_gap(np.full((3, 3), 1 / 3)), 12)
    1.0
    """
    away = weights - 1 / len(weights)
    return 1 - float(np.abs(np.linalg.eigvalsh(away)).max())


def largest_stable_step(weights: Floats, curvatures: Floats) -> float:
    """Return the largest stable step for this graph and any convex costs with curvature at most `curvatures` [K]; inf:
    any.

    Formal guarantee: with a shorter step, without noise and with everybody asked in every round, gradients converge to
    those of the pooled optimum and all owners' points to one another, from every start, as long as the box does not
    bind. Only bounds on the curvatures are needed; costs need not be quadratic.

    Proof. Let p be the points and q the gradients, relative to the optimum. Convex costs give <p_l, q_l> >=
    |q_l|^2/curvatures_l. Eliminating the trackers from `Gossip.update` gives p = -step (z - 1) W^2 (z - W)^-2 q, except
    for a constant in the mean and a part from the start and first gradients, which dies out. On |z| = 1, with c = Re z
    and w an eigenvalue of W, the real part of (z - 1) w^2/(z - w)^2 is w^2 (1 - c) (2 c + 1 - 2 w - w^2)/(1 - 2 w c +
    w^2)^2. This is least at c = -1, where it is -2 w^2/(1 + w)^2: with s = 1 + w and t = 1 - c in [0, 2], 2 ((2 - s)^2
    + 2 (s - 1) t)^2 - s^2 t (s^2 - 4 + 2 t) = (2 - t) (2 - s) ((2 - s)^3 + 2 (3 s - 2) t) >= 0, because the last factor
    is linear in t, (2 - s)^3 at t = 0 and s^2 (6 - s) at t = 2. So, summed over rounds, <q, (1/curvatures - step M) q>
    grows no faster than the root of the sum of |q|^2, for M = 2 W^2 (1 + W)^-2 (Parseval; the mean's own part
    telescopes). If step M < 1/curvatures, the sum of |q|^2 is therefore finite: q goes to 0, and with it what W evens
    out. Metropolis weights have w > -1, because every owner has weight on itself.

    >>> round(largest_stable_step(np.full((3, 3), 1 / 3), np.ones(3)), 9)  # all hear all: gradient descent, 2/curvature
    2.0
    """
    w, V = np.linalg.eigh(weights)
    root = np.sqrt(curvatures)
    largest_eigenvalue = np.linalg.eigvalsh(root[:, None] * ((V * (2 * w**2 / (1 + w) ** 2)) @ V.T) * root)[-1]
    return float(1 / largest_eigenvalue) if largest_eigenvalue > 0 else float("inf")


# how many times the curvature of the public sample one owner's may be at most, for the automatic step
CURVATURE_EXCESS = 4.0

POINT, TRACKER, GRADIENT = "point", "tracker", "gradient"


@dataclass(frozen=True)
class Gossip(Descent):
    """y <- W (y + g - previous g), x <- proj(W (x - step y)), with g_l = dg1(x_l) + K n_l/n times owner l's answer at
    x_l.

    x_l, y_l, g_l are owner l's point, tracker and last gradient; W holds the graph's Metropolis weights. The model is
    the mean of the points. An owner releases one noisy gradient a round; everything else is made of released vectors
    and costs no privacy, here as among peers (`peers.py`). An owner that is not asked, or is skipped, counts with its
    last release.

    W keeps sums, so the mean tracker is the mean gradient, and the mean point moves along it. At rest without noise, W
    evens out points and trackers, so x_l = x and sum n_l/n f_l'(x) = 0: the pooled optimum, on any graph. If everybody
    hears everybody, W is 1/K and this is gradient descent with equal steps, noise included.
    """

    names: tuple[str, ...]
    records: tuple[int, ...]
    joined: Edges

    @classmethod
    def make(cls, setup: Setup) -> Self:
        terms, learning = setup.terms, setup.terms.learning
        names = tuple(part.name for part in terms.owners)
        joined = edges(learning.topology or "complete", names)
        records = tuple(terms.train_rows(name) for name in names)
        made = cls(setup.objective, learning.horizon, terms.model.radius, step_size(setup), names, records, joined)
        return made if learning.step != "auto" else replace(made, step=made._automatic_step(setup))

    def _automatic_step(self, setup: Setup) -> float:
        """Return what the graph allows (`largest_stable_step`) of a step of 1/curvature. Owners' curvatures are bounded
        by declared bounds, or by `CURVATURE_EXCESS` times the public sample's if that is smaller."""
        if len(self.joined) == len(self.names) * (len(self.names) - 1) // 2:
            return self.step  # all points are one: gradient descent
        largest = setup.risk.largest_curvature(setup.preparation)
        excess = 1.0
        if setup.public is not None:
            excess = CURVATURE_EXCESS if largest is None else min(CURVATURE_EXCESS, largest * self.step)
        ridge = min(1.0, self.objective.regularisation * self.step)  # its part of the curvature is not scaled
        # nobody's part of all exceeds all
        curvatures = np.minimum(len(self.names), ridge + (excess - ridge) * self.scale)
        return self.step * min(1.0, float(f"{largest_stable_step(self.weights, curvatures):.6g}"))

    @cached_property
    def weights(self) -> Floats:
        """The mixing weights W [K, K]."""
        return metropolis(self.names, self.joined)

    @cached_property
    def scale(self) -> Floats:
        """K n_l/n [K]: makes the plain mean of the gradients the mean weighted by records."""
        return np.array(self.records) * (len(self.names) / sum(self.records))

    @property
    def mine(self) -> tuple[str, ...]:
        """The owners whose points this process keeps."""
        return self.names

    def mix(self, values: Floats, number: int, step: int) -> Floats:
        """Mix `values` [..., K, P] by W in this round; `step` is 0 for trackers, 1 for points."""
        return mix_rows(self.weights, values)

    @property
    def each(self) -> bool:
        return True

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        theta = super().start(origin, replicates).theta
        zero = np.zeros_like(theta)
        memory = {TRACKER: zero, GRADIENT: zero, POINT: theta}
        return State(1, theta, {f"{what} of {name}": value for what, value in memory.items() for name in self.mine})

    def points(self, state: State) -> Mapping[str, Floats]:
        """Return the points [..., P] of the owners kept here."""
        return {name: state.memory[f"{POINT} of {name}"] for name in self.mine}

    def asked(self, state: State) -> Sequence[Floats]:
        return list(self.points(state).values())

    def consensus_error(self, state: State) -> float:
        """Return the largest distance of an owner's point from the model, averaged over replicates."""
        away = np.linalg.norm(self._all(state, POINT) - state.theta[..., None, :], axis=-1)
        return float(np.mean(away.max(axis=-1)))

    def questions(self, state: State, asker: Asker) -> Mapping[str, Query]:
        points, who = self.points(state), (asker.terms_hash, asker.learner)
        turns = asker.schedule.at(state.round)
        return {name: GradientQuery.ask(*who, state.round, points[name]) for name in turns if name in points}

    def reply(self, name: str, gradient: Callable[[Floats], Floats], state: State) -> Floats:
        return gradient(self.points(state)[name])

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        points, trackers, before = (self._all(state, key) for key in (POINT, TRACKER, GRADIENT))
        gradients, place = before.copy(), {name: k for k, name in enumerate(self.mine)}
        for answer in answers:
            k, share = place[answer.owner], self.scale[self.names.index(answer.owner)]
            gradients[..., k, :] = self.objective.penalty_gradient(points[..., k, :]) + share * answer.value
        trackers = self.mix(trackers + gradients - before, state.round, 0)
        points = self.project(self.mix(points - self.step * trackers, state.round, 1))
        parts = {TRACKER: trackers, GRADIENT: gradients, POINT: points}
        memory = {f"{key} of {name}": value[..., k, :] for key, value in parts.items() for name, k in place.items()}
        return State(state.round + 1, self.mean(points), memory)

    def mean(self, points: Floats) -> Floats:
        """Return the model of these points [..., K, P], projected because a mean may round out of the box."""
        return self.project(points.mean(axis=-2))

    def _all(self, state: State, what: str) -> Floats:
        """Stack the memory of all owners kept here [..., K, P]."""
        return np.stack([state.memory[f"{what} of {name}"] for name in self.mine], axis=-2)
