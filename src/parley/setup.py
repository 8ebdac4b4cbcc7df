"""Terms and public knowledge, resolved once: what everybody computes alike before the first question is asked.

The walk of one number begins here: terms -> setup -> an owner's stage (bound, mechanism, cost of k answers) -> its answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import pandas as pd

from parley import objectives
from parley.accounting import Series, exact, make_series
from parley.data import fit_preparation
from parley.errors import Malformed, OutOfOrder
from parley.queries import KINDS, Context, Query, Question
from parley.schedule import Schedule, make_schedule
from parley.terms import Terms


@dataclass(frozen=True, eq=False)
class Stage:
    """One kind of question, asked of one owner in some rounds, and how its answers are released. Costs of stages add up."""

    question: Question
    rounds: Sequence[int]
    series: Series


@dataclass(frozen=True, eq=False)
class Part:
    """What is fixed for one owner: training, and after it the score if one is agreed on.

    Formal guarantee: the answers of all stages together are (epsilon, delta)-DP: those of one stage by its series, and stages add up by
    simple composition (held-out rows are other rows, but maybe the same people's).
    """

    name: str
    epsilon: Fraction
    delta: Fraction
    stages: tuple[Stage, ...]

    @property
    def training(self) -> Stage:
        return self.stages[0]

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
        raise OutOfOrder(f"round {number} was asked: expected one in which {self.name} has its turn, up to round {self.rounds}")

    def check(self, query: Query, worlds: tuple[int, ...]) -> Stage:
        """The stage that answers this query; a refusal before any record is touched if none does."""
        if type(query.round) is not int or not isinstance(query.id, str) or not 1 <= len(query.id) <= 200:
            raise Malformed("query: expected a whole number as its round and 1 to 200 characters as its id")
        stage = self.stage(query.round)
        stage.question.check(query, worlds)
        return stage

    def cost(self, number: int, answers: int) -> Fraction:
        """The epsilon spent by this many answers, the last of them to round `number`. A score is asked once, so all but it are training."""
        if self.stage(number) is self.training:
            return self.training.series.spent_after(answers)
        return self.training.series.spent_after(answers - 1) + self.stages[1].series.spent_after(1)


@dataclass(frozen=True, eq=False)
class Setup(Context):
    """Everything that the terms and public knowledge fix. Each owner's part is resolved when it is first asked for."""

    schedule: Schedule

    @property
    def hash(self) -> str:
        return self.terms.hash

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """Every owner's part, in the order of the terms."""
        return {part.name: self.part(part.name) for part in self.terms.owners}

    @cached_property
    def _parts(self) -> dict[str, Part]:
        return {}

    def part(self, name: str) -> Part:
        """What is fixed for one owner."""
        if name not in self._parts:
            epsilon, delta = exact(self.terms.owner(name).epsilon), Fraction(str(self.terms.privacy.delta))
            self._parts[name] = Part(name, epsilon, delta, tuple(self._stages(name)))
        return self._parts[name]

    def under(self, terms: Terms) -> "Setup":
        """The same columns and the same public knowledge under other terms."""
        return Setup(terms, self.preparation, self.public, objectives.make(terms.model), make_schedule(terms))

    def _stages(self, name: str) -> Iterator[Stage]:
        terms, privacy = self.terms, self.terms.privacy
        question = KINDS[terms.learning.facts.asks].resolve(self, name)
        rounds, budget = self.schedule.rounds_of(name), (terms.training_epsilon(name), Fraction(str(privacy.delta)))
        noise = make_series(privacy.mechanism, *budget, len(rounds), question.sensitivity, privacy.shared_records)
        yield _stage(question, rounds, noise)
        if privacy.score_epsilon is not None:
            score = KINDS["score"].resolve(self, name)
            once = make_series("laplace", terms.score_epsilon, Fraction(0), 1, score.sensitivity, privacy.shared_records)
            yield _stage(score, (terms.rounds,), once)


def _stage(question: Question, rounds: Sequence[int], series: Series) -> Stage:
    """The stage, if its noise can be drawn and booked: what cannot is refused now, before anything is reserved for ever."""
    series.mechanism.event  # noqa: B018 - refuses noise of an impossible size
    series.mechanism.tail(0.5, question.size)  # and a scale that no sampler holds
    return Stage(question, rounds, series)


def resolve(terms: Terms, example: pd.DataFrame | None = None) -> Setup:
    """The setup of these terms. `example` is consulted for its column names and kinds alone, and only where nothing public lists them."""
    preparation, public = fit_preparation(terms, example)
    return Setup(terms, preparation, public, objectives.make(terms.model), make_schedule(terms))
