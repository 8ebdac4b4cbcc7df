"""Local steps on networks (FedAvg, FedProx, FedLin): every step has noise of its own, or the whole answer is clipped.

Nothing bounds how far s steps drive the paths of two tables apart: on a network the factor is (1 + step L)^s, and L is
unknown. So no answer is charged as one gradient, as it is for convex losses (`losses.local_update`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from parley.data.split import Places
from parley.errors import GuaranteeError, Malformed
from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.federated import OwnerSteps, mean
from parley.numerals import counted
from parley.privacy.mechanisms import Bounded, Extent, Mechanism, Noise
from parley.protocol.queries import Answer
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, Tables
from parley.protocol.setup import Setup
from parley.tasks.networks.question import (
    NetworkGradientQuery,
    NetworkGradientQuestion,
    NetworkSGD,
    agreed_gradients,
    cosine_share,
)
from parley.terms import Terms
from parley.validate import LARGEST, Floats


@dataclass(frozen=True, eq=False)
class NetworkUpdateQuery(Query):
    """The mean direction of `steps` local steps from theta [..., P]; "..." are replicates."""

    kind: ClassVar[str] = "network-update"
    theta: Floats
    steps: int


@dataclass(frozen=True, eq=False)
class CorrectedNetworkUpdateQuery(Query):
    """`NetworkUpdateQuery` with a constant `correction` [..., P] added to every step's gradient, and not to the answer.
    0 steps ask for the gradient at theta."""

    kind: ClassVar[str] = "corrected-network-update"
    theta: Floats
    correction: Floats
    steps: int


@dataclass(frozen=True, eq=False)
class NetworkUpdateQuestion(Question):
    """The mean of s directions d_j = g_j + mu (w_j - theta), with w_1 = theta and w_(j+1) = w_j - rho (d_j + c). g_j is
    the noisy answer to `gradient` at w_j; c is the query's correction, or 0.

    Formal guarantee (record): g_j is an answer to `NetworkGradientQuestion`, with a draw of its own and the noise of
    one release. w_j follows from the query and g_1, ..., g_(j-1). So g_1, ..., g_s are s adaptively chosen releases of
    one mechanism, whatever the network, mu, rho and c; the answer is post-processing. `releases` charges s of them, and
    the noise is calibrated for all of a schedule's (`stages.all_releases`). The answer shows only their mean, which is
    not counted: without convexity nothing is proved of it.

    Formal guarantee (owner, `answer_clip`): g_j has no noise, the answer is clipped as a whole, two tables move it by
    at most twice the clip, and it is one release.

    Extent: rho mu <= 1 (`privacy_checks.check_noisy_steps`), so without c the end is theta - rho sum q_j g_j, 0 <= q_j
    <= 1, and the answer is in the convex hull of 0 and the g_j. With c, mu is 0 and it is their mean. Except with
    probability p, all s of them are in the gradient's noisy extent for p/s.
    """

    asks: ClassVar[type[Query]] = NetworkUpdateQuery

    gradient: NetworkGradientQuestion
    steps: int  # s
    step: float  # rho in the first round; it shrinks along half a cosine
    proximal: float  # mu
    horizon: int
    pace: int  # rounds in a step of the algorithm; of two, the first asks for the gradient at theta

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms, learning = context.terms, context.terms.learning
        rows, table = terms.train_rows(owner), terms.train_places(owner)
        gradient = NetworkGradientQuestion.from_gradients(
            agreed_gradients(context, owner), rows, learning.batches or 1, table, context.norm
        )
        step, steps = own_steps(terms, owner)
        return cls(
            parameters=gradient.parameters,
            records=rows,
            size=gradient.size,
            norm=gradient.norm,
            sensitivity=gradient.sensitivity,
            extent=gradient.extent,
            bound=None,
            gradient=gradient,
            steps=steps,
            step=step,
            proximal=learning.proximal or 0.0,
            horizon=learning.horizon,
            pace=learning.rounds_per_step,
        )

    @property
    def rate(self) -> float:
        return self.gradient.rate

    @property
    def public_numbers(self) -> dict[str, float]:
        return {**self.gradient.public_numbers, "step": self.step}

    @property
    def releases_by_parity(self) -> tuple[int, int]:
        return (max(self.steps_in(0), 1), max(self.steps_in(1), 1)) if self.noisy_steps else (1, 1)

    def steps_in(self, number: int) -> int:
        """Return how many steps round `number` asks for; 0 asks for the gradient at theta."""
        return 0 if self.pace == 2 and number % 2 else self.steps

    def noisy_extent(self, mechanism: Mechanism, probability: float) -> Extent:
        return super().noisy_extent(mechanism, probability / self.steps)

    def words(self) -> str:
        pull = ", pulled towards their start" if self.proximal else ""
        own = ", with noise of its own" if self.noisy_steps else ""
        said = (
            f"the mean direction of {counted(self.steps, 'local step')}{pull}, each along "
            f"{self.gradient.mean_words()}{own}, as vectors of {self.size:,} numbers"
        )
        return f"in turn {self.gradient.mean_words()} and {said}" if self.pace == 2 else said

    def require_sound_arithmetic(self) -> None:
        self.gradient.require_sound_arithmetic()

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        steps, agreed = query.counts["steps"], self.steps_in(query.round)
        if type(steps) is not int or steps != agreed:
            raise Malformed(f"steps: expected the agreed number of local steps, {agreed}")
        for name, numbers in query.arrays.items():
            check_parameter(numbers, (*replicates, self.parameters), name)

    def bounded(self, query: Query, *given: Any, **named: Any) -> Bounded:
        """Return the answer before its noise; refused where every step adds noise, since no such value exists."""
        if self.noisy_steps:
            raise GuaranteeError("local steps: an answer without noise does not exist, because every step adds noise")
        return super().bounded(query, *given, **named)

    def exact(self, query: Query, tables: Tables) -> Floats:
        """Return the answer where it is clipped as a whole; else the exact value of its first release, the gradient at
        theta. Later ones are asked where the noise of earlier ones led."""
        replicates = query.arrays["theta"].shape[:-1]

        def gradient(asked: NetworkGradientQuery) -> Floats:
            return self.gradient.bounded(asked, tables, replicates).value

        return gradient(_asked_at(query, query.arrays["theta"])) if self.noisy_steps else self._walked(query, gradient)

    def about(self, query: Query, tables: Tables, places: Places) -> Floats:
        """Return the exact value of its first release if these rows are drawn."""
        return self.gradient.about(_asked_at(query, query.arrays["theta"]), tables, places)

    @property
    def noisy_steps(self) -> bool:
        """Whether every step has noise of its own; else the answer does."""
        return self.answer_clip is None

    def released(
        self, query: Query, tables: Tables, replicates: tuple[int, ...], mechanism: Mechanism, noise: Noise
    ) -> Callable[[], Floats]:
        """Return what takes all steps, each with its noise: a stored answer is the only walk of its question."""
        if not self.noisy_steps:
            return super().released(query, tables, replicates, mechanism, noise)

        def noisy(asked: NetworkGradientQuery) -> Floats:
            seed = noise.seed() if self.draws else b""
            return mechanism.release(self.gradient.bounded(asked, tables, replicates, seed), noise)

        return partial(self._walked, query, noisy)

    def _walked(self, query: Query, gradient: Callable[[NetworkGradientQuery], Floats]) -> Floats:
        """Return the mean direction of the query's steps along these gradients."""
        theta, correction = query.arrays["theta"], query.arrays.get("correction", 0.0)
        length = self.step * cosine_share((query.round - 1) // self.pace + 1, self.horizon // self.pace)
        w, total, steps = theta, np.zeros_like(theta), max(query.counts["steps"], 1)
        for _ in range(steps):
            direction = gradient(_asked_at(query, w))
            if self.proximal:
                direction = direction + self.proximal * (w - theta)
            total = total + direction
            w = np.clip(w - length * (direction + correction), -LARGEST, LARGEST)
        return np.asarray(total / steps)


@dataclass(frozen=True, eq=False)
class CorrectedNetworkUpdateQuestion(NetworkUpdateQuestion):
    """The learner chooses the correction: it moves where gradients are asked, and no gradient's sensitivity."""

    asks = CorrectedNetworkUpdateQuery

    def words(self) -> str:
        return super().words() + "; the learner corrects local steps by earlier answers"


def _asked_at(query: Query, w: Floats) -> NetworkGradientQuery:
    return NetworkGradientQuery(query.id, query.terms_hash, query.learner, query.round, w)


def own_steps(terms: Terms, owner: str) -> tuple[float, int]:
    """Return (length, number) of an owner's local steps."""
    learning, own, usual = terms.learning, terms.owner(owner), terms.learning.local_steps or 1
    steps = own.local_steps or usual
    if own.step is not None:
        return own.step, steps
    everybody = [each.local_steps or usual for each in terms.owners]
    return learning.rules.local_step(float(learning.step), steps, everybody), steps


@dataclass(frozen=True)
class NetworkAveraging(NetworkSGD):
    """FedAvg and FedProx: theta[k+1] = theta[k] - sum p rho s answer, where the optimiser is plain; others take the
    owners' mean displacement over the terms' rho s as a gradient. With one step each it is `NetworkSGD`."""

    local_steps: int = 1
    owners: tuple[OwnerSteps, ...] = ()  # where they differ, or are corrected

    @classmethod
    def make(cls, setup: Setup) -> Self:
        terms, owners = setup.terms, tuple[OwnerSteps, ...]()
        if terms.uneven or terms.learning.rules.corrects_drift:
            steps = {part.name: own_steps(terms, part.name) for part in terms.owners}
            owners = tuple(
                OwnerSteps(name, terms.train_rows(name), number, length) for name, (length, number) in steps.items()
            )
        return replace(super().make(setup), local_steps=terms.learning.local_steps or 1, owners=owners)

    @property
    def each(self) -> bool:
        return bool(self.owners)

    @property
    def drifts(self) -> bool:
        return self.local_steps > 1 or bool(self.owners)

    def passes(self, width: int) -> int:
        return self.horizon * self.local_steps

    def query(self, state: State, asker: Asker) -> Query:  # type: ignore[override]
        return NetworkUpdateQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta, self.local_steps)

    def questions(self, state: State, asker: Asker) -> Mapping[str, Query]:
        if not self.owners:
            return super().questions(state, asker)
        what, names = (asker.terms_hash, asker.learner, state.round, state.theta), asker.schedule.at(state.round)
        return {name: NetworkUpdateQuery.ask(*what, self.owner(name).steps) for name in names}

    def owner(self, name: str) -> OwnerSteps:
        """Return one owner's steps, if owners are told apart."""
        return next(each for each in self.owners if each.name == name)

    def correction(self, name: str, state: State) -> Floats:
        """Return what is added to this owner's gradients."""
        return np.zeros_like(state.theta)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        gradient, usual = combined, self.step * self.local_steps
        if self.owners:
            moved = [
                (each.records, self.owner(each.owner).length * (each.value + self.correction(each.owner, state)))
                for each in answers
            ]
            gradient = mean(moved) / usual
        return NetworkSGD.update(replace(self, step=usual), state, gradient)


@dataclass(frozen=True)
class NetworkFedLin(NetworkAveraging):
    """Odd rounds ask for gradients v_l at theta; even rounds for local steps corrected by c_l = sum p v - v_l, made of
    released numbers: two answers a step. Owners that are not heard count by what they released last."""

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        begin = super().start(origin, replicates)
        variates = {_held(each.name): np.zeros_like(begin.theta) for each in self.owners}
        return replace(begin, memory={**begin.memory, **variates})

    def correction(self, name: str, state: State) -> Floats:
        average = mean([(each.records, state.memory[_held(each.name)]) for each in self.owners])
        return np.clip(average - state.memory[_held(name)], -LARGEST, LARGEST)

    def questions(self, state: State, asker: Asker) -> Mapping[str, Query]:
        what, names = (asker.terms_hash, asker.learner, state.round, state.theta), asker.schedule.at(state.round)
        ask = partial(CorrectedNetworkUpdateQuery.ask, *what)
        if state.round % 2:
            return dict.fromkeys(names, ask(np.zeros_like(state.theta), 0))
        return {name: ask(self.correction(name, state), self.owner(name).steps) for name in names}

    def share(self, number: int) -> float:
        return 1.0 if self.constant else cosine_share((number + 1) // 2, self.horizon // 2)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        if state.round % 2:
            heard = {_held(each.owner): each.value for each in answers}
            return State(state.round + 1, state.theta, {**state.memory, **heard})
        after = super().update(state, combined, answers)
        return replace(after, memory={**state.memory, **after.memory})


def _held(name: str) -> str:
    return f"variate of {name}"
