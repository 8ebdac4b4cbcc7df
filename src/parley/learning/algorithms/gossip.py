"""Descent without a centre: every owner has a point of its own and hears its neighbours on a graph (gradient
tracking).
"""

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
    """W [K, K], symmetric, rows that add up to 1: neighbours weigh 1/(1 + the larger of their degrees), oneself the
    rest.

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


def mixed(weights: Floats, values: Floats) -> Floats:
    """What those with these rows of W [R, J] hear of `values` [..., J, P]: [..., R, P].

    Summed in one order, number by number, so that a row comes out the same to the bit whoever computes it, alone or
    with all others, and whether owners that weigh nothing are in the sum or not.
    """
    total = np.zeros((*values.shape[:-2], len(weights), values.shape[-1]))
    for j in range(values.shape[-2]):
        total += weights[:, j, None] * values[..., j, None, :]
    return total


def spectral_gap(weights: Floats) -> float:
    """1 - |second largest eigenvalue|: the share by which a round of mixing shrinks differences at least; 1: at once,
    0: never.

    >>> round(spectral_gap(np.full((3, 3), 1 / 3)), 12)
    1.0
    """
    away = weights - 1 / len(weights)
    return 1 - float(np.abs(np.linalg.eigvalsh(away)).max())


def bearable(weights: Floats, curvatures: Floats) -> float:
    """The longest step that the graph bears, whatever convex costs owners have whose curvature is at most `curvatures`
    [K]; inf: any.

    Formal guarantee: with a shorter step, without noise and with everybody asked in every round, gradients go to those
    of the pooled optimum and all owners' points to one another, from every start, as long as the box does not bind. Of
    nobody's curvature more than its bound has to be known, and nobody's cost has to be quadratic.

    Proof. Around the optimum let p be the points, q the gradients: convex costs make <p_l, q_l> >=
    |q_l|^2/curvatures_l. Eliminating trackers from `Gossip.update`, p = -step (z - 1) W^2 (z - W)^-2 q, except for what
    start and first gradients leave, which dies out, and a constant in the mean. On |z| = 1, with c = Re z and w an
    eigenvalue of W, the real part of (z - 1) w^2/(z - w)^2 is w^2 (1 - c) (2 c + 1 - 2 w - w^2)/(1 - 2 w c + w^2)^2,
    and this is least at c = -1, where it is -2 w^2/(1 + w)^2: with s = 1 + w and t = 1 - c in [0, 2], 2 ((2 - s)^2 + 2
    (s - 1) t)^2 - s^2 t (s^2 - 4 + 2 t) = (2 - t) (2 - s) ((2 - s)^3 + 2 (3 s - 2) t) >= 0, for the last factor is
    linear in t, (2 - s)^3 at t = 0 and s^2 (6 - s) at t = 2. So, summed over rounds, <q, (1/curvatures - step M) q>
    grows no faster than the root of the sum of |q|^2, for M = 2 W^2 (1 + W)^-2 (Parseval; the mean's own part is a
    telescoping sum). Where step M < 1/curvatures the sum of |q|^2 is therefore finite: q goes to 0, and with it what W
    evens out. (Metropolis weights have w > -1: everybody weighs something to itself.)

    >>> round(bearable(np.full((3, 3), 1 / 3), np.ones(3)), 9)  # all hear all: gradient descent, 2/curvature
    2.0
    """
    w, V = np.linalg.eigh(weights)
    root = np.sqrt(curvatures)
    most = np.linalg.eigvalsh(root[:, None] * ((V * (2 * w**2 / (1 + w) ** 2)) @ V.T) * root)[-1]
    return float(1 / most) if most > 0 else float("inf")


# how many times the curvature of the public sample one owner's may be at most, for the automatic step
CURVATURE_EXCESS = 4.0

POINT, TRACKER, GRADIENT = "point", "tracker", "gradient"


@dataclass(frozen=True)
class Gossip(Descent):
    """y <- W (y + g - g of before), x <- proj(W (x - step y)), where g_l = dg1(x_l) + K n_l/n times what owner l
    answered at x_l.

    x_l, y_l, g_l are owner l's point, tracker and last gradient, W the Metropolis weights of the graph. What an owner
    releases a round is one noisy gradient; all else is made of released vectors, by whoever has them: it costs no
    privacy, here in one process as among peers (`peers.py`), who keep their own owner's point alone and hear the rest.
    Who is not asked, or skipped, is stood in for by what it released last.

    W keeps sums, so the mean of the trackers is that of the gradients, and the mean of the points moves along it. Where
    all rest without noise, W evens out points and trackers, so x_l = x and sum n_l/n f_l'(x) = 0: the pooled optimum,
    whatever the graph. Where everybody hears everybody, W is 1/K, all points are one, and this is gradient descent with
    equal steps, noise included.

    The model, and theta, is the mean of the points.
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
        return made if learning.step != "auto" else replace(made, step=made._automatic(setup))

    def _automatic(self, setup: Setup) -> float:
        """What the graph bears (`bearable`) of a step of 1/curvature, if owners' own curvatures are as bounded as
        public knowledge says: by declared bounds, which hold for every record; or, if those are looser, by
        `CURVATURE_EXCESS` times the public sample's."""
        if len(self.joined) == len(self.names) * (len(self.names) - 1) // 2:
            return self.step  # all points are one: gradient descent
        largest = setup.risk.largest_curvature(setup.preparation)
        excess = 1.0
        if setup.public is not None:
            excess = CURVATURE_EXCESS if largest is None else min(CURVATURE_EXCESS, largest * self.step)
        ridge = min(1.0, self.objective.regularisation * self.step)  # its part of the curvature is not scaled
        # nobody's part of all exceeds all
        curvatures = np.minimum(len(self.names), ridge + (excess - ridge) * self.scale)
        return self.step * min(1.0, float(f"{bearable(self.weights, curvatures):.6g}"))

    @cached_property
    def weights(self) -> Floats:
        """The mixing weights between owners, W [K, K]."""
        return metropolis(self.names, self.joined)

    @cached_property
    def scale(self) -> Floats:
        """K n_l/n [K]: with these the plain mean of the gradients is the one weighted by records."""
        return np.array(self.records) * (len(self.names) / sum(self.records))

    @property
    def mine(self) -> tuple[str, ...]:
        """The owners whose points this process keeps."""
        return self.names

    def mix(self, values: Floats, number: int, step: int) -> Floats:
        """Mix `values` [..., K, P] by W in this round; the step tells trackers (0) from points (1)."""
        return mixed(self.weights, values)

    @property
    def each(self) -> bool:
        return True

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        theta = super().start(origin, replicates).theta
        zero = np.zeros_like(theta)
        memory = {TRACKER: zero, GRADIENT: zero, POINT: theta}
        return State(1, theta, {f"{what} of {name}": value for what, value in memory.items() for name in self.mine})

    def points(self, state: State) -> Mapping[str, Floats]:
        """The points [..., P] of the owners kept here."""
        return {name: state.memory[f"{POINT} of {name}"] for name in self.mine}

    def asked(self, state: State) -> Sequence[Floats]:
        return list(self.points(state).values())

    def consensus_error(self, state: State) -> float:
        """How far the farthest owner's point lies from the model, on average over the replicates."""
        away = np.linalg.norm(self._all(state, POINT) - state.theta[..., None, :], axis=-1)
        return float(np.mean(away.max(axis=-1)))

    def questions(self, state: State, asker: Asker) -> Mapping[str, Query]:
        points, who = self.points(state), (asker.terms_hash, asker.learner)
        turns = asker.schedule.at(state.round)
        return {name: GradientQuery.ask(*who, state.round, points[name]) for name in turns if name in points}

    def reply(self, name: str, gradient: Callable[[Floats], Floats], state: State) -> Floats:
        return gradient(self.points(state)[name])

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        points, trackers, before = (self._all(state, what) for what in (POINT, TRACKER, GRADIENT))
        gradients, place = before.copy(), {name: k for k, name in enumerate(self.mine)}
        for answer in answers:
            k, share = place[answer.owner], self.scale[self.names.index(answer.owner)]
            gradients[..., k, :] = self.objective.penalty_gradient(points[..., k, :]) + share * answer.value
        trackers = self.mix(trackers + gradients - before, state.round, 0)
        points = self.project(self.mix(points - self.step * trackers, state.round, 1))
        parts = {TRACKER: trackers, GRADIENT: gradients, POINT: points}
        memory = {f"{what} of {name}": value[..., k, :] for what, value in parts.items() for name, k in place.items()}
        return State(state.round + 1, self.mean(points), memory)

    def mean(self, points: Floats) -> Floats:
        """The model of these points [..., K, P]; a mean may round out of the box."""
        return self.project(points.mean(axis=-2))

    def _all(self, state: State, what: str) -> Floats:
        """The memory of all owners kept here [..., K, P]."""
        return np.stack([state.memory[f"{what} of {name}"] for name in self.mine], axis=-2)
