"""Descent without a centre: every owner has a point of its own and hears its neighbours on a graph (gradient
tracking)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from parley.learning.algorithms.algorithm import Asker, Descent, State
from parley.learning.algorithms.mixing import bearable, metropolis, mixed
from parley.learning.algorithms.step import step_size
from parley.protocol.queries import Answer, GradientQuery, Query
from parley.protocol.setup import Setup
from parley.terms.topology import Edges, edges
from parley.validate import Floats

EXCESS = 4.0  # how many times the curvature of the public sample one owner's may be at most, for the automatic step

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
        """What the graph bears (`mixing.bearable`) of a step of 1/curvature, if owners' own curvatures are as bounded
        as public knowledge says: by declared bounds, which hold for every record; or, if those are looser, by `EXCESS`
        times the public sample's."""
        if len(self.joined) == len(self.names) * (len(self.names) - 1) // 2:
            return self.step  # all points are one: gradient descent
        largest = setup.risk.largest_curvature(setup.preparation)
        excess = 1.0 if setup.public is None else EXCESS if largest is None else min(EXCESS, largest * self.step)
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
        """The owners whose points are kept by this process."""
        return self.names

    def mix(self, said: Floats, number: int, step: int) -> Floats:
        """W `said` [..., K, P] in this round; the step tells trackers (0) from points (1)."""
        return mixed(self.weights, said)

    @property
    def each(self) -> bool:
        return True

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        theta = super().start(origin, replicates).theta
        zero = np.zeros_like(theta)
        memory = {TRACKER: zero, GRADIENT: zero, POINT: theta}
        return State(1, theta, {f"{what} of {name}": value for what, value in memory.items() for name in self.mine})

    def points(self, state: State) -> Mapping[str, Floats]:
        """The owners' own [..., P], of those that are kept here."""
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
        """What is remembered of all owners that are kept here [..., K, P]."""
        return np.stack([state.memory[f"{what} of {name}"] for name in self.mine], axis=-2)
