"""Private gradient descent (A; Abadi et al. 2016): batches of clipped records, with plain, momentum or Adam steps. The
optimiser and its memory are post-processing of the answers and cost no privacy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from parley.learning.algorithms.algorithm import Algorithm, Asker, State, step_size
from parley.losses.objective import SplitBatches
from parley.protocol.queries import Answer, MinibatchQuery, Query
from parley.protocol.setup import Setup
from parley.terms import Learning
from parley.validate import Floats

MOMENTUM = 0.9
FIRST_DECAY, SECOND_DECAY, ADAM_EPSILON = 0.9, 0.999, 1e-8  # Adam's usual constants (Kingma and Ba 2015)
FIRST_STEPS: dict[str, float | str] = {"plain": "auto", "momentum": "auto", "adam": 0.05}  # where a plan begins to look
OPTIMISER_MEMORY = {"plain": (), "momentum": ("velocity",), "adam": ("first", "second")}


@dataclass(frozen=True)
class PrivateSGD(Algorithm):
    """theta[k+1] = proj(theta[k] - step d[k]), k = 1..T; the model is theta[T+1].

    d is g, the penalty's gradient plus the answer (times the number of parts if a batch is split, so that it is a mean
    for every class). With momentum, v <- 0.9 v + g. With Adam, the first moment over the root of the second, both
    corrected for their start.
    """

    step: float
    optimiser: str
    parts: int = 1

    knobs: ClassVar[tuple[str, ...]] = ("epochs", "batches", "step", "clip")
    most_steps: ClassVar[int] = 200  # of runs on a pilot: no moments tell what they would bring
    swept: ClassVar[bool] = False
    alone: ClassVar[bool] = True

    @classmethod
    def make(cls, setup: Setup) -> Self:
        learning = setup.terms.learning
        optimiser, step, objective = learning.optimiser or "plain", step_size(setup), setup.objective
        parts = objective.parts(setup.preparation) if isinstance(objective, SplitBatches) else 1
        if optimiser == "momentum" and learning.step == "auto":
            step *= 1 - MOMENTUM  # so much longer is the way that one gradient goes in the end
        return cls(objective, learning.horizon, setup.limits.radius, step, optimiser, parts)

    @classmethod
    def varieties(cls, learning: Learning) -> Iterator[tuple[str, dict[str, Any]]]:
        for optimiser, step in FIRST_STEPS.items():
            begin = {"optimiser": optimiser, "step": learning.step if learning.optimiser == optimiser else step}
            yield f"{optimiser}: best epochs, batches and step", begin

    @property
    def step_length(self) -> float | None:
        return self.step

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        begin = super().start(origin, replicates)
        memory: dict[str, Floats] = {name: np.zeros_like(begin.theta) for name in OPTIMISER_MEMORY[self.optimiser]}
        if self.optimiser == "adam":
            memory["steps"] = np.zeros(1)  # rounds that are aborted bring none
        return State(1, begin.theta, memory)

    def query(self, state: State, asker: Asker) -> Query:
        return MinibatchQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        gradient = self.objective.penalty_gradient(state.theta) + self.parts * combined
        memory, direction = self._direction(state, gradient)
        return State(state.round + 1, self.project(state.theta - self.step * direction), memory)

    def _direction(self, state: State, gradient: Floats) -> tuple[dict[str, Floats], Floats]:
        if self.optimiser == "plain":
            return {}, gradient
        if self.optimiser == "momentum":
            velocity = MOMENTUM * state.memory["velocity"] + gradient
            return {"velocity": velocity}, velocity
        steps = state.memory["steps"] + 1
        first = FIRST_DECAY * state.memory["first"] + (1 - FIRST_DECAY) * gradient
        second = SECOND_DECAY * state.memory["second"] + (1 - SECOND_DECAY) * gradient**2
        mean, square = first / (1 - FIRST_DECAY ** steps[0]), second / (1 - SECOND_DECAY ** steps[0])
        return {"first": first, "second": second, "steps": steps}, mean / (np.sqrt(square) + ADAM_EPSILON)
