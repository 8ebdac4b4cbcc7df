"""Descent that waits for nobody: every owner answers when it can, and each answer is used as it comes.

Formal guarantee: everything here is computed from released answers, their order of arrival and the terms. So, whatever
an owner is asked at, its `answers` answers are adaptively composed releases, each debited before it left.
docs/proofs/noise.md has the proof, and what it does not cover: how long an owner takes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from parley.errors import ExchangeError, SettingError
from parley.learning.algorithms.algorithm import Algorithm, Asker, Average, State, averaged, run, step_size
from parley.learning.algorithms.federated import mean
from parley.network.exchange import Exchange
from parley.network.exchange.in_process import AsynchronousExchange, VirtualClock, read_speeds, require_speeds
from parley.protocol.aggregation import Aggregation
from parley.protocol.queries import Answer, GradientQuery, Query
from parley.protocol.setup import Setup
from parley.protocol.stages import Schedule
from parley.terms import Terms
from parley.validate import LARGEST, Floats

POINT, STEP, TALLY, AVERAGE = "point", "step", "tally", "average"
CURVATURE_EXCESS = 2.0  # how many times the public sample's curvature an owner's cost is taken to have
# of an owner's line in the tally: answers heard, answers used, the version that it was asked at
ANSWERS_HEARD, ANSWERS_USED, ASKED_AT_VERSION = range(3)


@dataclass(frozen=True, eq=False)
class AsynchronousDescent(Algorithm):
    """theta = proj(sum_l p_l y_l), y_l = z_l - step (dg1(z_l) + owner l's latest answer) + F (theta - z_l).

    z_l is the point at which owner l was asked; p_l is n_l over the records of all owners with a used answer. A version
    is a theta. An answer asked for more than `staleness` versions ago is dropped, though paid for. The owner is then
    asked at the newest theta, until its answers are used up.

    F = 1 - step M corrects an old answer for the model's move since, as if the owner's cost had the curvature M:
    `CURVATURE_EXCESS` times the public sample's, at most 1/step. Without a sample M is 1/step and F is 0 (`follow`
    None).

    At rest without noise all z_l are theta, so sum n_l (dg1 + f_l')(theta) = 0: the joint optimum, for any answering
    frequencies and any M. Convergence is proved without F, for steps up to 2/L and any delays (Mishchenko, Iutzeler,
    Malick and Amini 2018). A step towards an owner's optimum drives no two points apart, so the largest distance of any
    y_l from its resting point never grows, and strong convexity shrinks it whenever all were heard. With F it is
    measured, not proved, for owners with a curvature below 2 M; F saves many answers of the slowest owners.
    """

    step: float
    staleness: int
    names: tuple[str, ...]
    records: tuple[int, ...]
    answers: tuple[int, ...]
    average: Average = "last"
    follow: Floats | None = None  # F [width, width], for each class alike

    @classmethod
    def make(cls, setup: Setup) -> Self:
        terms, names, answers = setup.terms, setup.schedule.names, setup.schedule.own or ()
        records, average = tuple(terms.train_rows(name) for name in names), terms.learning.average or "last"
        step = step_size(setup)
        what = (step, terms.learning.staleness or 0, names, records, answers, average, _follow(setup, step))
        return cls(setup.objective, sum(answers), terms.model.radius, *what)

    def without(self, never: Collection[str]) -> Self:
        """Return the same run if these owners never answer; the average still waits for their answers."""
        kept = [place for place, name in enumerate(self.names) if name not in never]
        records, answers = (tuple(each[place] for place in kept) for each in (self.records, self.answers))
        return replace(self, names=tuple(self.names[place] for place in kept), records=records, answers=answers)

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        theta = super().start(origin, replicates).theta
        memory = {f"{what} of {name}": theta for what in (POINT, STEP) for name in self.names}
        memory |= {TALLY: np.zeros((len(self.names), 3))}
        return State(1, theta, memory if self.average == "last" else {**memory, AVERAGE: theta})

    def query(self, state: State, asker: Asker) -> Query:
        raise NotImplementedError("each owner gets its own question; call questions() instead of query()")

    def questions(self, state: State, asker: Asker) -> Mapping[str, Query]:
        """Return the open question of each owner with answers left, for its own round and point."""
        asked = {name: self.question(state, asker, name) for name in self.names}
        return {name: query for name, query in asked.items() if query is not None}

    def question(self, state: State, asker: Asker, name: str) -> Query | None:
        """Return an owner's next question; None if its answers are used up."""
        place = self._place(name)
        number = int(state.memory[TALLY][place, ANSWERS_HEARD]) + 1
        if number > self.answers[place]:
            return None
        return GradientQuery.ask(asker.terms_hash, asker.learner, number, state.memory[f"{POINT} of {name}"])

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        """Return the state after one answer: a new version, or the same one if it came too late."""
        (answer,) = answers
        place, memory = self._place(answer.owner), dict(state.memory)
        tally, theta = state.memory[TALLY].copy(), state.theta
        version = tally[:, ANSWERS_USED].sum()
        tally[place, ANSWERS_HEARD] += 1
        if version - tally[place, ASKED_AT_VERSION] <= self.staleness:
            tally[place, ANSWERS_USED] += 1
            memory |= self.step_from(state, answer)
            theta = self.project(self.moved(replace(state, memory={**memory, TALLY: tally})))
            version += 1
            if self.average != "last":
                memory[AVERAGE] = averaged(state.memory[AVERAGE], theta, int(version), self.horizon, self.average)
        tally[place, ASKED_AT_VERSION] = version
        memory |= {TALLY: tally, f"{POINT} of {answer.owner}": theta}
        return State(state.round + 1, theta, memory)

    def step_from(self, state: State, answer: Answer) -> dict[str, Floats]:
        """Return what is kept of an answer: where it leads from its point z, less F z."""
        point = state.memory[f"{POINT} of {answer.owner}"]
        gradient = self.objective.penalty_gradient(point) + answer.value
        return {f"{STEP} of {answer.owner}": np.asarray(point - self.step * gradient - self._follow_parameters(point))}

    def moved(self, state: State) -> Floats:
        """Return the next theta: the mean of where the owners' latest answers lead, weighted by records."""
        used = state.memory[TALLY][:, ANSWERS_USED]
        answered = [place for place in range(len(self.names)) if used[place]]
        steps = mean([(self.records[place], state.memory[f"{STEP} of {self.names[place]}"]) for place in answered])
        return np.asarray(steps + self._follow_parameters(state.theta))

    def _follow_parameters(self, theta: Floats) -> Floats | float:
        """Return F theta [..., P], class by class if there are several."""
        if self.follow is None:
            return 0.0
        return np.asarray((theta.reshape(*theta.shape[:-1], -1, len(self.follow)) @ self.follow).reshape(theta.shape))

    def model(self, state: State) -> Floats:
        return state.memory.get(AVERAGE, state.theta)

    def late(self, state: State) -> Mapping[str, int]:
        tally = state.memory[TALLY]
        return {name: int(answered - used) for name, (answered, used, _) in zip(self.names, tally, strict=True)}

    def used(self, state: State) -> int:
        """Return the number of answers in the model."""
        return int(state.memory[TALLY][:, ANSWERS_USED].sum())

    def _place(self, name: str) -> int:
        return self.names.index(name)


def _follow(setup: Setup, step: float) -> Floats | None:
    """Return F from the public sample; None without one, or if the cost has corners or parameters of several kinds."""
    if setup.public is None or not setup.terms.model.smooth or not setup.risk.alike:
        return None
    each, (size, directions) = setup.risk.loss.largest_curvature, np.linalg.eigh(setup.public.statistics[0])
    ridge = float(size.sum()) / len(setup.public)
    curvature = CURVATURE_EXCESS * (each * (np.maximum(size, 0.0) + ridge) + setup.risk.regularisation)
    return np.asarray((directions * np.maximum(1 - step * curvature, 0.0)) @ directions.T)


def usual_speeds(schedule: Schedule) -> dict[str, Fraction]:
    """Return the default speeds: each owner's number of answers, so that all finish at once."""
    return {name: Fraction(len(schedule.rounds_of(name))) for name in schedule.names}


def check_speeds(terms: Terms, speeds: Mapping[str, float] | None) -> None:
    """Refuse speeds for terms that wait for every owner, and speeds of unknown owners."""
    if speeds is not None and terms.learning.waits:
        raise SettingError(
            "speeds: allowed only with learning.staleness; without that key every round waits for every owner"
        )
    require_speeds([part.name for part in terms.owners], speeds or {})


def on_virtual_clock(exchange: Exchange, schedule: Schedule, speeds: Mapping[str, float] | None = None) -> VirtualClock:
    """Put the owners on a virtual clock."""
    usual = usual_speeds(schedule)
    return VirtualClock(exchange, read_speeds(schedule.names, usual, speeds))


def run_by_terms(
    algorithm: Algorithm,
    exchange: Exchange,
    aggregation: Aggregation,
    asker: Asker,
    start: State,
    after_round: Callable[[State, Sequence[Answer]], None] = lambda state, answers: None,
) -> State:
    """Run all rounds as the terms say: waiting for every owner, or for none."""
    if not isinstance(algorithm, AsynchronousDescent):
        return run(algorithm, exchange, aggregation, asker, start, after_round)
    if not isinstance(exchange, AsynchronousExchange):
        raise SettingError(
            "learning.staleness: not allowed here, because this run waits for every owner in each round; use parley "
            "train or parley learner run"
        )
    return run_asynchronously(algorithm, exchange, asker, start, after_round)


def run_asynchronously(
    algorithm: AsynchronousDescent,
    exchange: AsynchronousExchange,
    asker: Asker,
    start: State,
    after_round: Callable[[State, Sequence[Answer]], None] = lambda state, answers: None,
) -> State:
    """Run every owner's answers, each used as it comes. `after_round` gets the state after each answer, before the next
    question leaves. Only the answer to an owner's open question counts; any other, such as one sent again, is ignored.
    """
    state, questions = start, dict(algorithm.questions(start, asker))
    for name, query in questions.items():
        exchange.send(name, query)
    while questions and (answer := exchange.receive()) is not None:
        name = answer.owner
        if name not in questions or answer.query != questions[name].id:
            continue
        before = algorithm.used(state)
        with np.errstate(over="ignore", invalid="ignore"):
            state = algorithm.update(state, answer.value, [answer])
        if not np.abs(state.theta).max() <= LARGEST:
            raise SettingError(
                f"learning.step: the run diverged at answer {state.round - 1}; choose a smaller step, or set "
                f"model.radius"
            )
        after_round(state, [answer] if algorithm.used(state) > before else [])
        del questions[name]
        if (following := algorithm.question(state, asker, name)) is not None:
            questions[name] = following
            exchange.send(name, following)
    if not algorithm.used(state):
        raise ExchangeError(
            "no owner answered in time, so there is no model; check that owners are running, or raise "
            "learning.staleness"
        )
    return state
