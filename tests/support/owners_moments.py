"""The forecast for least squares when each owner's own second moments are known: exact, owners that differ and take
turns included.

From one pilot for all, rounds that ask some owners only are an approximation: whoever is asked is thought to be like
the rest. Here every round has the gradients of those it asks, and where owners take local steps each follows its own:
drift is part of it. The algorithm's error then obeys a linear recursion in full matrices; as in `error_moments`, it is
found by running the algorithm itself, once without noise and once for every unit of noise in every round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from parley.data import Summable
from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Descent, State
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.start import starting_point
from parley.protocol.aggregation import weighted_mean
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Moments:
    """mean w x x' [p, p], mean w x y [p] and mean w y^2 of one owner's training rows."""

    A: Floats
    b: Floats
    c: float

    @classmethod
    def of(cls, design: Summable) -> "Moments":
        return cls(*design.statistics)


def expected_path(setup: Setup, owners: Mapping[str, Moments]) -> Floats:
    """E psi after each round [T]: the expected relative fitness of the joint model, given every owner's own moments.

    Exact for a squared loss whose clip and box do not bind, whatever the schedule.
    """
    algorithm = make_algorithm(setup).foretold()
    if not isinstance(algorithm, Descent) or not setup.risk.quadratic:
        raise SettingError("moments of the owners say enough for descent on linear-regression only")
    if not setup.aggregation.averages:
        raise SettingError("aggregation.rule: moments of the owners say enough for the mean of their answers only")
    free, names = replace(algorithm, radius=None), setup.schedule.names
    noise, ridge = setup.aggregation.noise(setup), setup.risk.regularisation
    A, b = np.array([owners[name].A for name in names]), np.array([owners[name].b for name in names])
    shares = noise.records / noise.records.sum()
    hessian = 2 * np.einsum("l,lij->ij", shares, A) + ridge * np.eye(A.shape[1])
    best = np.linalg.solve(hessian, 2 * shares @ b)
    least = float(shares @ np.array([owners[name].c for name in names])) - 0.5 * float(best @ hessian @ best)
    T, p = free.horizon, len(best)
    origin = starting_point(setup)
    # Row 0: the path without noise. The others, from zero and without b: one unit of noise in one coordinate of one
    # round, of everybody's mean or, where owners are told apart, of one of them.
    voices = len(names) if free.each else 1
    theta = np.zeros((1 + T * p * voices, p))
    theta[0] = origin
    only = np.zeros((len(theta), 1))
    only[0] = 1.0
    memory = {name: np.zeros_like(theta) for name in free.start(origin).memory}
    for name, begin in free.start(origin).memory.items():
        memory[name][0] = begin
    state = State(1, theta, memory)
    path = np.empty(T)
    for k in range(1, T + 1):
        asked = frozenset(setup.schedule.at(k))
        members = np.array([name in asked for name in names])
        answers = [
            Answer(
                "",
                names[each],
                int(noise.records[each]),
                free.reply(names[each], partial(_gradient, A[each], only * b[each]), state),
            )
            for each in np.flatnonzero(members)
        ]
        first = 1 + (k - 1) * voices * p
        if free.each:
            for place, answer in enumerate(answers):
                rows = first + place * p + np.arange(p)
                answer.value[rows, np.arange(p)] += np.sqrt(noise.variances[names.index(answer.owner)])
        combined = weighted_mean(answers)
        if not free.each:
            combined[first + np.arange(p), np.arange(p)] += np.sqrt(noise.variance(members))
        state = free.update(state, combined, answers)
        model = free.model(state)
        error = np.concatenate([model[:1] - best, model[1:]])
        path[k - 1] = 0.5 * float(np.einsum("ri,ij,rj->", error, hessian, error)) / least
    return path


def _gradient(A: Floats, b: Floats, theta: Floats) -> Floats:
    return np.asarray(2 * (theta @ A - b))
