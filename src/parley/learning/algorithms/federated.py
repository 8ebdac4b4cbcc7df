"""The federated family: owners take local steps and remember only what they released. The learner keeps control
variates and duals, made of released vectors alone, so they cost no privacy and fit in a checkpoint."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.data.public_numbers import STEP_TOLERANCE
from parley.learning.algorithms.algorithm import FIRST_HORIZONS, Asker, Descent, State
from parley.losses.local_update import mean_direction
from parley.protocol.queries import Answer, CorrectedQuery, Query, UpdateQuery
from parley.protocol.setup import Setup
from parley.terms import Learning
from parley.validate import Floats


@dataclass(frozen=True)
class OwnerSteps:
    """The learner's view of one owner: n_l, s_l steps of length rho_l, and the largest correction it accepts."""

    name: str
    records: int
    steps: int
    step: float
    reach: float = 0.0

    @property
    def length(self) -> float:
        """rho s: an answer times this is how far the owner's steps led."""
        return self.step * self.steps


@dataclass(frozen=True)
class Federated(Descent):
    """An algorithm whose owners take local steps, which include the penalty g1. `owners` is empty if all take
    `local_steps` of length `step` and only their mean matters."""

    local_steps: int
    proximal: float = 0.0
    owners: tuple[OwnerSteps, ...] = ()

    knobs: ClassVar[tuple[str, ...]] = ("local_steps", "horizon", "step", "clip")
    swept: ClassVar[bool] = False

    @classmethod
    def make(cls, setup: Setup) -> Self:
        usual, learning = setup.local_update, setup.terms.learning
        owners: tuple[OwnerSteps, ...] = ()
        if setup.terms.uneven or learning.rules.corrects_drift:
            rows = (
                (part.name, setup.terms.train_rows(part.name), setup.local_update_of(part.name))
                for part in setup.terms.owners
            )
            # A hair within what an owner takes: its machine may have rounded the length of a step, and so this, to
            # another last digit.
            owners = tuple(
                OwnerSteps(name, records, own.steps, own.step, own.reach * (1 - STEP_TOLERANCE))
                for name, records, own in rows
            )
        return cls(setup.objective, learning.horizon, usual.radius, usual.step, usual.steps, usual.proximal, owners)

    @property
    def each(self) -> bool:
        return bool(self.owners)

    @property
    def drifts(self) -> bool:
        return self.local_steps > 1 or bool(self.owners)

    def passes(self, width: int) -> int:
        return self.horizon * self.local_steps

    @classmethod
    def varieties(cls, learning: Learning) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "best local steps too", {}

    @classmethod
    def first_tries(cls, learning: Learning, length: float) -> Iterator[dict[str, Any]]:
        for horizon in FIRST_HORIZONS:
            for local in {1, learning.local_steps}:  # of a length that local steps bear: the automatic one
                yield {"horizon": horizon, "local_steps": local, "step": "auto"}

    @cached_property
    def _by_name(self) -> dict[str, OwnerSteps]:
        return {each.name: each for each in self.owners}

    def owner(self, name: str) -> OwnerSteps:
        """Return one owner's steps."""
        return self._by_name[name] if self.owners else OwnerSteps(name, 1, self.local_steps, self.step)

    def query(self, state: State, asker: Asker) -> Query:
        return UpdateQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta, self.local_steps)

    def questions(self, state: State, asker: Asker) -> Mapping[str, Query]:
        if not self.owners:
            return super().questions(state, asker)
        asked = {name: self.owner(name).steps for name in asker.schedule.at(state.round)}
        what = asker.terms_hash, asker.learner, state.round, state.theta
        by_steps = {steps: UpdateQuery.ask(*what, steps) for steps in set(asked.values())}
        return {name: by_steps[steps] for name, steps in asked.items()}

    def answer(self, gradient: Callable[[Floats], Floats], theta: Floats) -> Floats:
        return self.local_direction(OwnerSteps("", 1, self.local_steps, self.step), gradient, theta)

    def reply(self, name: str, gradient: Callable[[Floats], Floats], state: State) -> Floats:
        return self.local_direction(self.owner(name), gradient, state.theta)

    def local_direction(
        self, who: OwnerSteps, gradient: Callable[[Floats], Floats], theta: Floats, correction: Floats | None = None
    ) -> Floats:
        """Return the mean direction of an owner's local steps from theta, without noise."""
        return mean_direction(
            gradient, theta, who.steps, who.step, self.objective.regularisation, self.radius, self.proximal, correction
        )

    def moved(self, combined: Floats, answers: Sequence[Answer]) -> Floats:
        """Return the owners' mean displacement: sum p rho s d, over those who answered."""
        if not self.owners:
            return self.step * self.local_steps * combined
        return mean([(answer.records, self.owner(answer.owner).length * answer.value) for answer in answers])


def mean(weighted: Sequence[tuple[int, Floats]]) -> Floats:
    """Return the mean of arrays, weighted by records.

    >>> mean([(1, np.array([4.0])), (3, np.array([0.0]))])
    array([1.])
    """
    total = sum(records for records, _ in weighted)
    return np.asarray(
        sum((records / total * value for records, value in weighted), start=np.zeros_like(weighted[0][1]))
    )


@dataclass(frozen=True)
class Corrected(Federated):
    """An algorithm that asks each owner its own question, corrected by its earlier answers. The memory holds one array
    per owner, named by `keeps`. If `paired`, a step takes two rounds, and every odd one asks for the gradients at
    theta."""

    paired: bool = False

    keeps: ClassVar[str]

    @property
    def drifts(self) -> bool:
        return False

    @abstractmethod
    def corrections(self, state: State) -> Mapping[str, Floats]:
        """Return the correction of each owner's gradients, before it is clipped to what the owner accepts."""

    def correction(self, name: str, state: State) -> Floats:
        """Return the correction in one owner's question; clipped only in a box, because forecasts are linear."""
        asked, reach = self.corrections(state)[name], self.owner(name).reach
        return asked if self.radius is None else np.clip(asked, -reach, reach)

    def gradient_round(self, number: int) -> bool:
        """Whether this round asks for gradients."""
        return self.paired and number % 2 == 1

    def kept(self, state: State, what: str | None = None) -> dict[str, Floats]:
        """Return the memory of each owner, by name."""
        return {each.name: state.memory[f"{what or self.keeps} of {each.name}"] for each in self.owners}

    def memory(self, kept: Mapping[str, Floats], what: str | None = None) -> dict[str, Floats]:
        """Return these arrays under the names that a state uses."""
        return {f"{what or self.keeps} of {name}": value for name, value in kept.items()}

    def everybody(self, kept: Mapping[str, Floats]) -> Floats:
        """Return the mean over all owners, weighted by records, whoever was asked."""
        return mean([(each.records, kept[each.name]) for each in self.owners])

    def query(self, state: State, asker: Asker) -> Query:
        """Return the query of an owner that needs no correction."""
        steps = 0 if self.gradient_round(state.round) else self.local_steps
        return self._ask(state, asker, np.zeros_like(state.theta), steps)

    def questions(self, state: State, asker: Asker) -> Mapping[str, Query]:
        names = asker.schedule.at(state.round)
        if self.gradient_round(state.round):
            return dict.fromkeys(names, self.query(state, asker))
        return {name: self._ask(state, asker, self.correction(name, state), self.owner(name).steps) for name in names}

    def reply(self, name: str, gradient: Callable[[Floats], Floats], state: State) -> Floats:
        if self.gradient_round(state.round):
            return np.asarray(self.objective.penalty_gradient(state.theta) + gradient(state.theta))
        return self.local_direction(self.owner(name), gradient, state.theta, self.correction(name, state))

    def _ask(self, state: State, asker: Asker, correction: Floats, steps: int) -> CorrectedQuery:
        return CorrectedQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta, correction, steps)


@dataclass(frozen=True)
class Tracking(Corrected):
    """Corrects each owner's steps by the mean of the control variates less its own, v_l, which estimates its gradient.
    Once the v_l are the gradients at the optimum, whose mean is 0, no step leaves it."""

    keeps: ClassVar[str] = "variate"

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        begin = super().start(origin, replicates)
        return State(1, begin.theta, self.memory({each.name: np.zeros_like(begin.theta) for each in self.owners}))

    def corrections(self, state: State) -> Mapping[str, Floats]:
        variates = self.kept(state)
        average = self.everybody(variates)
        return {name: average - own for name, own in variates.items()}
