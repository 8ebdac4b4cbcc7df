"""An algorithm is four pure functions on a state; the loop around them is written once.

Which iterates make the model: the last, the average of the last half of the rounds, or of all.

What the learner makes of noisy answers is post-processing: it costs no privacy.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from parley.errors import AbortedRound, SettingError, TermsError
from parley.learning.outcome.posterior import Posterior
from parley.losses import Objective
from parley.network.exchange import Exchange
from parley.protocol.aggregation import Aggregation
from parley.protocol.queries import Answer, GradientQuery, Query
from parley.protocol.setup import Setup
from parley.protocol.stages import Schedule
from parley.terms import Learning
from parley.validate import LARGEST, Floats


def step_size(setup: Setup) -> float:
    """Return the terms' step, or for "auto" the first of these that the terms allow:

    1. with a public sample: 1/lambda, lambda the curvature of the cost on that sample;
    2. with bounds of every feature: 1/lambda, lambda the largest curvature such records can have (cautious);
    3. with a box and a clip: radius/clip, the classical distance over gradient bound of subgradient methods.

    Algorithm 1 divides its rho by T^2 unless the terms set a `decay`, so there the result is multiplied by T^2 and the
    first step is as long.
    """
    learning, limits = setup.terms.learning, setup.limits
    if not isinstance(learning.step, str):
        return learning.step
    largest = setup.risk.largest_curvature(setup.preparation)
    if setup.public is not None:
        length = 1 / setup.risk.curvature(setup.public)
    elif largest is not None:
        length = 1 / largest
    elif limits.radius is not None and limits.clip is not None:
        length = limits.radius / limits.clip
    else:
        raise TermsError(
            'learning.step = "auto": needs a public sample, bounds of every feature, or radius and clip; '
            "otherwise give a number"
        )
    # Six digits: readable, and the same on machines whose linear algebra differs in the last bits.
    return float(f"{length:.6g}") * learning.rules.step_unit(learning, learning.horizon)


Average = Literal["last", "tail", "all"]


def averaged(average: Floats, theta: Floats, number: int, horizon: int, which: Average) -> Floats:
    """Move the average to `theta` after round `number`: the mean of the iterates that count so far, or `theta` where
    none does yet.

    >>> mean = np.zeros(1)
    >>> for number in range(1, 5):
    ...     mean = averaged(mean, np.array([float(number)]), number, 4, "tail")
    >>> mean
    array([3.5])
    """
    counted = number - (horizon // 2 if which == "tail" else 0)
    return theta if which == "last" or counted <= 1 else np.asarray(average + (theta - average) / counted)


FIRST_HORIZONS = (8, 32, 100)  # few rounds and many: where a plan begins to look

Progress = Callable[[int, int], None]  # how much of the work is done, of how much; mostly rounds


@dataclass(frozen=True, eq=False)
class State:
    """Where a run stands before round `round`: theta[round] [..., P], and what else the algorithm remembers, by
    name."""

    round: int
    theta: Floats
    memory: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class Asker:
    """Who asks: the learner of the agreement with this hash, by its schedule."""

    terms_hash: str
    learner: str
    schedule: Schedule

    @classmethod
    def from_setup(cls, setup: Setup) -> "Asker":
        return cls(setup.hash, setup.terms.learning.learner, setup.schedule)


@dataclass(frozen=True)
class Algorithm(ABC):
    """A rule that asks `horizon` rounds of queries and updates a state."""

    objective: Objective
    horizon: int
    radius: float | None  # the box |theta| <= radius

    # the name of what it remembers beside theta: files once had one nameless array
    memory_name: ClassVar[str | None] = None
    knobs: ClassVar[tuple[str, ...]] = ("clip",)  # keys that a plan turns one at a time
    most_steps: ClassVar[int] = 2000  # local ones counted, of a plan's candidate, unless the terms as written take more
    swept: ClassVar[bool] = True  # whether a plan may look at rounds of gradients in its place, by their moments
    alone: ClassVar[bool] = False  # whether a plan looks at no other algorithm beside it
    parallel: ClassVar[bool] = True  # whether replicates of a study are an axis; else it is one run

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Build the algorithm of these terms, with its settings fixed from public knowledge."""
        return cls(setup.objective, setup.terms.learning.horizon, setup.limits.radius)

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        """The state before the first round, at the parameter `origin` [P] (or [*replicates, P]); `replicates` are the
        axes of a study's replicates."""
        theta = np.broadcast_to(origin, (*replicates, origin.shape[-1]))
        return State(1, theta, {} if self.memory_name is None else {self.memory_name: theta})

    @abstractmethod
    def query(self, state: State, asker: Asker) -> Query:
        """The query of round `state.round`, for those whose turn it is."""

    @abstractmethod
    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        """The state after the owners' combined answer; `answers` are the single ones, where the aggregation shows
        them."""

    def model(self, state: State) -> Floats:
        """The model [..., P] if the run ended here; usually theta itself."""
        return state.theta

    def questions(self, state: State, asker: Asker) -> Mapping[str, Query]:
        """The query of round `state.round` by owner. Here: the same for everybody whose turn it is."""
        return dict.fromkeys(asker.schedule.at(state.round), self.query(state, asker))

    def asked(self, state: State) -> Sequence[Floats]:
        """The parameters [..., P] at which round `state.round` asks. Here: one, for everybody."""
        return [state.theta]

    def consensus_error(self, state: State) -> float | None:
        """The largest distance of an owner's own point from the model, where owners have points."""
        return None

    def late(self, state: State) -> Mapping[str, int]:
        """Each owner's answers that came too late to be used; where rounds wait, none."""
        return {}

    def released(self, state: State, setup: Setup) -> dict[str, Any] | None:
        """What else a run released that a later forecast can use; usually nothing."""
        return None

    def posterior(self, state: State) -> Posterior | None:
        """The first replicate's posterior, where the release gives one; usually none."""
        return None

    @property
    def each(self) -> bool:
        """Whether `update` needs single answers, not only their mean."""
        return False

    @property
    def step_length(self) -> float | None:
        """The length of the learner's steps, as in `learning.step`; None: it takes none."""
        return None

    @property
    def drifts(self) -> bool:
        """Whether owners that differ pull the model away from the joint optimum even without noise."""
        return False

    def passes(self, width: int) -> int:
        """How many times a run goes over all records with so many features, for forecasts of its duration."""
        return self.horizon

    @classmethod
    def varieties(cls, learning: Learning) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the varieties that a plan compares: a description, and its keys of `[learning]`."""
        yield from ()

    @classmethod
    def first_tries(cls, learning: Learning, length: float) -> Iterator[dict[str, Any]]:
        """Yield where a plan starts to look: keys of `[learning]`, given the length 1/curvature. Here: the terms'
        own."""
        yield {}

    def foretold(self) -> Self:
        """The algorithm that a forecast follows instead; usually itself."""
        return self

    def without_noise(self) -> Self:
        """The algorithm for answers without noise; usually itself."""
        return self

    def project(self, theta: Floats) -> Floats:
        """The nearest parameter in the box."""
        return theta if self.radius is None else np.clip(theta, -self.radius, self.radius)


@dataclass(frozen=True)
class Descent(Algorithm):
    """An algorithm that goes downhill. Shared by all: asking for gradients, the learner's own g1, the box."""

    step: float

    knobs: ClassVar[tuple[str, ...]] = ("horizon", "step", "clip")

    @classmethod
    def make(cls, setup: Setup) -> Self:
        return cls(setup.objective, setup.terms.learning.horizon, setup.terms.model.radius, step_size(setup))

    @classmethod
    def varieties(cls, learning: Learning) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "best horizon, step and clip", {}

    @classmethod
    def first_tries(cls, learning: Learning, length: float) -> Iterator[dict[str, Any]]:
        for horizon in FIRST_HORIZONS:
            yield {"horizon": horizon, "step": float(f"{length * learning.rules.step_unit(learning, horizon):.4g}")}

    @property
    def step_length(self) -> float | None:
        return self.step

    def query(self, state: State, asker: Asker) -> Query:
        return GradientQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta)

    def answer(self, gradient: Callable[[Floats], Floats], theta: Floats) -> Floats:
        """The noiseless answer at theta of an owner with this mean gradient, for forecasts."""
        return gradient(theta)

    def reply(self, name: str, gradient: Callable[[Floats], Floats], state: State) -> Floats:
        """This owner's noiseless answer to its question of round `state.round`."""
        return self.answer(gradient, state.theta)

    def projected_step(self, state: State, gradient: Floats, length: float) -> Floats:
        """Take one projected step: proj(theta - length (dg1 + gradient))."""
        return self.project(state.theta - length * (self.objective.penalty_gradient(state.theta) + gradient))


def run(
    algorithm: Algorithm,
    exchange: Exchange,
    aggregation: Aggregation,
    asker: Asker,
    start: State,
    after_round: Callable[[State, Sequence[Answer]], None] = lambda state, answers: None,
) -> State:
    """All T rounds: ask, combine, update. In process, over a network: the loop cannot tell.

    A round that is aborted brings no step: the next one asks at the same parameter. If none of them can bring one, the
    run ends.
    """
    state = start
    while state.round <= algorithm.horizon:
        try:
            answers = exchange.ask(algorithm.questions(state, asker))
        except AbortedRound:
            if algorithm.horizon == 1:
                raise
            state = replace(state, round=state.round + 1)
            after_round(state, ())
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            state = algorithm.update(state, aggregation.combine(answers), answers)
        if not all(np.abs(point).max() <= LARGEST for point in algorithm.asked(state)):
            raise SettingError(
                f"learning.step: the run diverged in round {state.round - 1}; choose a smaller step, or set "
                f"model.radius"
            )
        after_round(state, answers)
    return state
