"""What one owner is asked under one agreement, how its answers are released, and what any number of them costs."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Protocol

from parley.errors import Malformed, OutOfOrder
from parley.privacy.accounting import Series, SharedLaw
from parley.protocol.queries import Query, Question
from parley.protocol.schedule import Schedule
from parley.terms import Terms


class Resolver(Protocol):
    """What an aggregation asks of a setup (`protocol.setup`)."""

    @property
    def terms(self) -> Terms: ...

    @property
    def schedule(self) -> Schedule: ...

    def plans(self, name: str) -> "Iterator[StagePlan]":
        """What an owner is asked, with which noise, at which cost."""
        ...

    def question(self, plan: "StagePlan", name: str) -> Question:
        """The rules of a stage's questions for one owner."""
        ...

    def part(self, name: str) -> "Part":
        """What the terms fix for the owner of this name."""
        ...

    def law(self, stage: int = 0, epsilon: Fraction | None = None) -> SharedLaw:
        """The law of the one noise of a stage, if hosts drew one."""
        ...

    def most_uses(self, plan: "StagePlan") -> int:
        """How many of its answers one record can be in, of the owner where that is most."""
        ...


@dataclass(frozen=True)
class StagePlan:
    """One stage before its question and its noise are resolved."""

    kind: str
    rounds: Sequence[int]
    mechanism: str
    epsilon: Fraction
    delta: Fraction
    alpha: float | None = None  # of stable noise


@dataclass(frozen=True, eq=False)
class Stage:
    """One kind of question, asked of one owner in some rounds, and how its answers are released. Costs of stages add
    up.

    Formal guarantee: k answers, the last of them to round r, cost at most what `series` says of `uses`(r, k) releases.
    Where the answers of an epoch are about disjoint rows, all of an epoch cost a person no more than one release
    (`queries.minibatch`, `accounting.in_pieces`); k answers fall into at most k epochs, and into no more than there
    were turns in until round r.
    """

    question: Question
    rounds: Sequence[int]
    series: Series

    def uses(self, number: int, answers: int) -> int:
        """How many releases so many answers count for, the last of them to round `number`."""
        if self.question.disjoint == 1:
            return answers
        return min(answers, self._epochs_until(number))

    def _epochs_until(self, number: int) -> int:
        """How many epochs up to this round had a turn."""
        batches = self.question.disjoint
        if isinstance(self.rounds, range):
            return (min(number, self.rounds[-1]) - 1) // batches + 1
        return self._epochs[bisect_right(self.rounds, number) - 1] if number >= self.rounds[0] else 0

    @cached_property
    def _epochs(self) -> list[int]:
        """After each turn, in how many epochs there was one."""
        epochs = [(number - 1) // self.question.disjoint for number in self.rounds]
        return list(accumulate((int(place == 0 or epochs[place - 1] != e) for place, e in enumerate(epochs))))


@dataclass(frozen=True, eq=False)
class Part:
    """What is fixed for one owner: training, and after it the score if one is agreed on.

    Formal guarantee: the answers of all stages together are (epsilon, delta)-DP: those of one stage by its series, and
    stages add up by simple composition (held-out rows are other rows, but maybe the same people's).
    """

    name: str
    epsilon: Fraction
    delta: Fraction
    stages: tuple[Stage, ...]

    @property
    def training(self) -> Stage:
        return self.stages[0]

    @property
    def step_epsilon(self) -> Fraction:
        """What one training answer alone costs those whom it is about."""
        return self.training.series.spent_after(1)

    @property
    def rounds(self) -> int:
        """The last round that this owner can be asked in."""
        return self.stages[-1].rounds[-1]

    @property
    def gaps(self) -> bool:
        """Whether this owner is asked in some rounds only."""
        return sum(len(stage.rounds) for stage in self.stages) < self.rounds

    def stage(self, number: int) -> Stage:
        """The stage that a round belongs to, or a refusal."""
        for stage in self.stages:
            if number in stage.rounds:
                return stage
        raise OutOfOrder(
            f"round {number} was asked: expected one in which {self.name} has its turn, up to round {self.rounds}"
        )

    def require_sound_arithmetic(self) -> None:
        """Refuse a machine by whose arithmetic this owner's answers would not be private."""
        for stage in self.stages:
            stage.question.require_sound_arithmetic()

    def check(self, query: Query, replicates: tuple[int, ...]) -> Stage:
        """The stage that answers this query; a refusal before any record is touched if none does."""
        if type(query.round) is not int or not isinstance(query.id, str) or not 1 <= len(query.id) <= 200:
            raise Malformed("query: expected a whole number as its round and 1 to 200 characters as its id")
        stage = self.stage(query.round)
        stage.question.check(query, replicates)
        return stage

    def cost(self, number: int, answers: int) -> Fraction:
        """The epsilon spent by this many answers, the last of them to round `number`. A score is asked once, so all but
        it are training."""
        training = self.training
        if self.stage(number) is training:
            return training.series.spent_after(training.uses(number, answers))
        return training.series.spent_after(training.uses(number, answers - 1)) + self.stages[1].series.spent_after(1)


def make_stage(question: Question, rounds: Sequence[int], series: Series) -> Stage:
    """The stage, if its noise can be drawn and booked: what cannot is refused now, before anything is reserved for
    ever."""
    series.mechanism.event  # noqa: B018 - refuses noise of an impossible size
    series.mechanism.tail(0.5, question.size)  # and a scale that no sampler holds
    return Stage(question, rounds, series)
