"""An algorithm is four pure functions on a state; the loop around them is written once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from parley.errors import SettingError
from parley.exchange import Exchange
from parley.objectives import MarginObjective
from parley.queries import Answer, GradientQuery, Query, UpdateQuery
from parley.validate import LARGEST, Floats


@dataclass(frozen=True, eq=False)
class State:
    """Where a run stands before round `round`: theta[round] [..., p], and what else the algorithm remembers (Algorithm 2: bar)."""

    round: int
    theta: Floats
    memory: Floats


@dataclass(frozen=True)
class Algorithm(ABC):
    """A rule that asks `horizon` queries and updates a state."""

    objective: MarginObjective
    horizon: int
    radius: float | None  # the box |theta| <= radius

    @abstractmethod
    def start(self, width: int, worlds: tuple[int, ...] = ()) -> State:
        """The state before the first round, for models of this width; `worlds` are the axes of a study's replicates."""

    @abstractmethod
    def query(self, state: State, terms: str, learner: str) -> Query:
        """What round `state.round` asks."""

    @abstractmethod
    def update(self, state: State, combined: Floats) -> State:
        """The state after the owners' combined answer."""

    @abstractmethod
    def model(self, state: State) -> Floats:
        """The model [..., p] if the run ended here."""


@dataclass(frozen=True)
class Descent(Algorithm):
    """An algorithm that walks downhill. Shared by all: a start at zero, asking for gradients, the learner's own g1, the box."""

    step: float

    def start(self, width: int, worlds: tuple[int, ...] = ()) -> State:
        zero = np.zeros((*worlds, width))
        return State(1, zero, zero)

    def query(self, state: State, terms: str, learner: str) -> GradientQuery | UpdateQuery:
        return GradientQuery.ask(terms, learner, state.round, state.theta)

    def answer(self, gradient: Callable[[Floats], Floats], theta: Floats) -> Floats:
        """What an owner whose records' mean gradient is this function answers at theta, but for the noise: for forecasts."""
        return gradient(theta)

    def moved(self, state: State, gradient: Floats, length: float) -> Floats:
        """One projected step: proj(theta - length (dg1 + gradient))."""
        theta = state.theta - length * (self.objective.penalty_gradient(state.theta) + gradient)
        return theta if self.radius is None else np.clip(theta, -self.radius, self.radius)


def run(
    algorithm: Algorithm,
    exchange: Exchange,
    combine: Callable[[Sequence[Answer]], Floats],
    terms: str,
    learner: str,
    start: State,
    progress: Callable[[State], None] = lambda state: None,
) -> State:
    """All T rounds: ask, combine, update. In process, over a network: the loop cannot tell."""
    state = start
    while state.round <= algorithm.horizon:
        query = algorithm.query(state, terms, learner)
        with np.errstate(over="ignore", invalid="ignore"):
            state = algorithm.update(state, combine(exchange.ask(query)))
        if not np.abs(state.theta).max() <= LARGEST:
            raise SettingError(
                f"learning.step: the run diverged in round {query.round}; choose a smaller step, or set model.radius"
            )
        progress(state)
    return state
