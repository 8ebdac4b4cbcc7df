"""An algorithm is a set of pure functions on a state, around which the loop is written once. It costs no privacy: what
the learner makes of noisy answers is post-processing."""

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

    Algorithm 1 divides its rho by T^2 unless the terms set a `decay`, so there the result is multiplied by T^2.
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
            'learning.step = "auto": needs a public sample, bounds of every feature, or model.radius with '
            "privacy.clip; "
            "otherwise give a number"
        )
    # Six digits: readable, and the same on machines whose linear algebra differs in the last bits.
    return float(f"{length:.6g}") * learning.rules.step_unit(learning, learning.horizon)


Average = Literal["last", "tail", "all"]


def averaged(average: Floats, theta: Floats, number: int, horizon: int, which: Average) -> Floats:
    """Update the average with `theta` after round `number`; return `theta` while no iterate counts yet.

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
    """The state before round `round`: theta[round] [..., P], and the algorithm's further memory by name."""

    round: int
    theta: Floats
    memory: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True)
class Asker:
    """The learner of the agreement with this hash, and its schedule."""

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
        """Return the state before the first round at `origin` [P] or [*replicates, P]."""
        theta = np.broadcast_to(origin, (*replicates, origin.shape[-1]))
        return State(1, theta, {} if self.memory_name is None else {self.memory_name: theta})

    @abstractmethod
    def query(self, state: State, asker: Asker) -> Query:
        """Return the query of round `state.round`, for the owners whose turn it is."""

    @abstractmethod
    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        """Return the state after the combined answer; `answers` has the single ones, if the aggregation shows them."""

    def model(self, state: State) -> Floats:
        """Return the model [..., P] if the run ended here; usually theta itself."""
        return state.theta

    def questions(self, state: State, asker: Asker) -> Mapping[str, Query]:
        """Return the query of round `state.round` by owner. Default: the same for all whose turn it is."""
        return dict.fromkeys(asker.schedule.at(state.round), self.query(state, asker))

    def asked(self, state: State) -> Sequence[Floats]:
        """Return the parameters [..., P] at which round `state.round` asks. Default: theta, for everybody."""
        return [state.theta]

    def consensus_error(self, state: State) -> float | None:
        """Return the largest distance of an owner's own point from the model, if owners have points."""
        return None

    def late(self, state: State) -> Mapping[str, int]:
        """Return the number of answers by owner that came too late to be used; empty if rounds wait."""
        return {}

    def released(self, state: State, setup: Setup) -> dict[str, Any] | None:
        """Return further releases of the run that a later forecast can use; usually None."""
        return None

    def posterior(self, state: State) -> Posterior | None:
        """Return the first replicate's posterior, if the release gives one; usually None."""
        return None

    @property
    def each(self) -> bool:
        """Whether `update` needs single answers, not only their mean."""
        return False

    @property
    def step_length(self) -> float | None:
        """The length of the learner's steps, as in `learning.step`; None if it takes none."""
        return None

    @property
    def drifts(self) -> bool:
        """Whether heterogeneity moves the model away from the joint optimum even without noise."""
        return False

    def passes(self, width: int) -> int:
        """Return how often a run passes over all records with this many features, to forecast its duration."""
        return self.horizon

    @classmethod
    def varieties(cls, learning: Learning) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the variants that a plan compares: a description, and its `[learning]` keys."""
        yield from ()

    @classmethod
    def first_tries(cls, learning: Learning, length: float) -> Iterator[dict[str, Any]]:
        """Yield a plan's starting points as `[learning]` keys, given the length 1/curvature. Default: none changed."""
        yield {}

    def foretold(self) -> Self:
        """Return the algorithm that a forecast follows instead; usually itself."""
        return self

    def without_noise(self) -> Self:
        """Return the algorithm for answers without noise; usually itself."""
        return self

    def project(self, theta: Floats) -> Floats:
        """Return the nearest parameter in the box."""
        return theta if self.radius is None else np.clip(theta, -self.radius, self.radius)


@dataclass(frozen=True)
class Descent(Algorithm):
    """Base of gradient methods: asks for gradients, adds the learner's own g1, keeps to the box."""

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
        """Return the noiseless answer at theta of an owner with this mean gradient, for forecasts."""
        return gradient(theta)

    def reply(self, name: str, gradient: Callable[[Floats], Floats], state: State) -> Floats:
        """Return this owner's noiseless answer to its question of round `state.round`."""
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
    """Run all T rounds: ask, combine, update. After an aborted round the next asks at the same parameter; if the only
    round is aborted, the run ends."""
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
