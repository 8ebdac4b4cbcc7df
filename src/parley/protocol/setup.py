"""Terms and public knowledge, resolved once: what everybody computes alike before the first question is asked.

The walk of one number begins here: terms -> setup -> an owner's stage (bound, mechanism, cost of k answers) -> its answer.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
import pandas as pd

from parley.data.pinned import pinned_text
from parley.data.public_numbers import PublicNumbers, preparation_names, preparation_numbers
from parley.errors import Malformed, OutOfOrder, TermsError
from parley.privacy.accounting import Series, SharedLaw, Span, Spans, bits_delta, most_epsilon, shared_law
from parley.privacy.accounting.series import SERIES
from parley.protocol.queries import Context, Query, Question
from parley.protocol.schedule import Schedule, make_schedule, uses
from parley.protocol.task import Task, task_of
from parley.terms import Terms

OWN = {"name", "data", "value", "privacy_cost"}  # of an owner's part of the terms: no question depends on them


@dataclass(frozen=True, eq=False)
class Stage:
    """One kind of question, asked of one owner in some rounds, and how its answers are released. Costs of stages add up.

    Formal guarantee: k answers, the last of them to round r, cost at most what `series` says of `uses`(r, k) releases. Where the answers of
    an epoch are about disjoint rows, all of an epoch cost a person no more than one release (`queries.minibatch`, `accounting.in_pieces`);
    k answers fall into at most k epochs, and into no more than there were turns in until round r.
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
        training = self.training
        if self.stage(number) is training:
            return training.series.spent_after(training.uses(number, answers))
        return training.series.spent_after(training.uses(number, answers - 1)) + self.stages[1].series.spent_after(1)


@dataclass(frozen=True, eq=False)
class Setup(Context):
    """Everything that the terms and public knowledge fix. Each owner's part is resolved when it is first asked for."""

    schedule: Schedule

    @property
    def hash(self) -> str:
        return self.terms.hash

    @property
    def task(self) -> Task:
        """What owners do together by these terms."""
        return task_of(self.terms)

    @cached_property
    def numbers(self) -> PublicNumbers:
        """What every party has to resolve alike before anything is asked; no private record is in it."""
        first = self.terms.owners[0].name
        found = preparation_numbers(self.preparation)
        for place, plan in enumerate(self._plans(first)):
            sizes = {name: [size] for name, size in self.task.questions[plan.kind].resolve(self, first).public_numbers.items()}
            if self.terms.shared:
                sizes["grid"] = [float(self.law(place).recipe.exponent), self.law(place).units]
            found |= {f"{'score ' if place else ''}{name}": np.array(size) for name, size in sizes.items()}
        return PublicNumbers(found, preparation_names(self.preparation))

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
            epsilon, delta = self.terms.promised_epsilon(name), Fraction(str(self.terms.privacy.delta))
            self._parts[name] = Part(name, epsilon, delta, self._resolved(name))
        return self._parts[name]

    def _resolved(self, name: str) -> tuple[Stage, ...]:
        """An owner's stages. Those alike have the same, resolved once: only draws of batches know an owner's name.

        Alike are owners of whom the terms say the same, whatever it is, but for names, files and what they think things are worth.
        """
        owner = self.terms.owner(name)
        agreed = tuple(getattr(owner, key) for key in type(owner).model_fields if key not in OWN)
        like = agreed, self.schedule.rounds_of(name), name if self.terms.learning.facts.samples else ""
        if like not in self._alike:
            self._alike[like] = tuple(self._stages(name))
        return self._alike[like]

    @cached_property
    def _alike(self) -> dict[object, tuple[Stage, ...]]:
        return {}

    def under(self, terms: Terms) -> "Setup":
        """The same columns and the same public knowledge under other terms."""
        require_ready(terms)
        return Setup(terms, self.preparation, self.public, task_of(terms).objective(terms.model), make_schedule(terms))

    def variance_at(self, name: str, epsilon: float) -> float:
        """Of an owner's own noise in training, if all of that could cost this epsilon and the others stayed as they are."""
        question = self.part(name).training.question
        if question.own_noise is not None:  # it depends on epsilon itself
            terms = self.terms.changed(privacy={"score_epsilon": None}, owners={name: {"epsilon": epsilon}})
            return self.under(terms).part(name).training.series.mechanism.variance
        plan = replace(next(self._plans(name)), epsilon=Fraction(str(epsilon)))
        return self._own_series(plan, uses(self.terms.learning, plan.rounds), question).mechanism.variance

    def law(self, stage: int = 0, epsilon: Fraction | None = None) -> SharedLaw:
        """The law of the one noise of a stage (0: training, 1: the score), if owners promised this epsilon in all; left out: as they do.

        The total variation of its random bits is paid from delta, before anything else is. An epsilon for which delta does not suffice is
        refused in terms; where somebody only asks what would be, the largest that it suffices for is taken.
        """
        if (stage, epsilon) in self._laws:
            return self._laws[stage, epsilon]
        plans, delta = list(self._plans(self.terms.owners[0].name)), Fraction(str(self.terms.privacy.delta))
        numbers = self._numbers
        most, common = most_epsilon(delta, numbers), self.terms.common_epsilon
        if not common <= most:
            raise TermsError(
                f"privacy.delta: expected at least {2 * float(bits_delta(common, numbers)):.1e} for noise that hosts draw: so much do "
                "finitely many random bits cost; fewer rounds or a smaller epsilon cost less"
            )
        promised = common if epsilon is None else min(epsilon, most)
        if (stage, promised) not in self._laws:
            left = delta - bits_delta(promised, numbers)
            budget = (self.terms.score_epsilon, Fraction(0)) if stage else (promised - self.terms.score_epsilon, left)
            copies, plan = self.terms.privacy.shared_records, plans[stage]
            question = self._questions[stage][0]
            self._laws[stage, promised] = shared_law(
                plan.mechanism,
                *budget,
                self._most_uses(plan),
                self._sizes[stage],
                self._spans[stage],
                copies,
                question.rate,
                self._pieces(question),
            )
        self._laws[stage, epsilon] = self._laws[stage, promised]
        return self._laws[stage, promised]

    @cached_property
    def _laws(self) -> dict[tuple[int, Fraction | None], SharedLaw]:
        return {}

    @cached_property
    def _questions(self) -> list[list[Question]]:
        """Every owner's, by stage: one noise covers all."""
        names = [part.name for part in self.terms.owners]
        return [[self.task.questions[plan.kind].resolve(self, name) for name in names] for plan in self._plans(names[0])]

    @cached_property
    def _spans(self) -> list[Spans]:
        return [Spans.of(self._span(question) for question in questions) for questions in self._questions]

    @cached_property
    def _sizes(self) -> list[int]:
        return [questions[0].size for questions in self._questions]

    @cached_property
    def _numbers(self) -> int:
        """How many numbers about one person are opened at most."""
        plans = self._plans(self.terms.owners[0].name)
        return sum(self._openings(plan) * size for plan, size in zip(plans, self._sizes, strict=True))

    def _most_answers(self, plan: "_Plan") -> int:
        """How many answers the owner gives that is asked most often."""
        if plan.kind == "score":
            return 1
        return max(len(self.schedule.rounds_of(part.name)) for part in self.terms.owners)

    def _openings(self, plan: "_Plan") -> int:
        """In how many openings one person can be: with records at several owners, in the rounds of each of them."""
        return (
            1 if plan.kind == "score" else min(self.schedule.horizon, self.terms.privacy.shared_records * self._most_answers(plan))
        )

    def _most_uses(self, plan: "_Plan") -> int:
        """How many of its answers one record can be in, of the owner where that is most."""
        return 1 if plan.kind == "score" else self._most_training_uses

    @cached_property
    def _most_training_uses(self) -> int:
        return max(uses(self.terms.learning, self.schedule.rounds_of(part.name)) for part in self.terms.owners)

    def _pieces(self, question: Question) -> int:
        """Over how many answers of one epoch a person's rows may be spread."""
        return 1 if question.disjoint == 1 else min(self.terms.privacy.records_per_person, question.disjoint)

    def _span(self, question: Question) -> Span:
        """How far an owner's answers go."""
        largest = max(float(np.max(np.abs(question.extent.low))), float(np.max(np.abs(question.extent.high))))
        roundings = 2 if question.rate < 1 else self._pieces(question)
        return Span(question.records, question.sensitivity, question.extent.size, largest, roundings)

    def _plans(self, name: str) -> "Iterator[_Plan]":
        """What an owner is asked, with which noise, at which cost."""
        terms, privacy = self.terms, self.terms.privacy
        rounds, delta = self.schedule.rounds_of(name), Fraction(str(privacy.delta))
        yield _Plan(terms.learning.facts.asks, rounds, privacy.mechanism, terms.training_epsilon(name), delta)
        if privacy.score_epsilon is not None:
            yield _Plan("score", (terms.rounds,), "laplace", terms.score_epsilon, Fraction(0))

    def _stages(self, name: str) -> Iterator[Stage]:
        for place, plan in enumerate(self._plans(name)):
            question = self.task.questions[plan.kind].resolve(self, name)
            if self.terms.shared:
                law = self.law(place)
                noise = law.over(question.records, question.sensitivity)
                count, rate = self._most_uses(plan), question.rate
                series = SERIES[plan.mechanism](noise, plan.epsilon, law.delta, count, rate=rate)
            else:
                count = 1 if place else uses(self.terms.learning, plan.rounds)
                series = self._own_series(plan, count, question)
            yield _stage(question, plan.rounds, series)

    def _own_series(self, plan: "_Plan", count: int, question: Question) -> Series:
        """The noise that an owner draws itself."""
        copies, pieces = self.terms.privacy.shared_records, self._pieces(question)
        return question.series(plan.mechanism, plan.epsilon, plan.delta, count, copies, pieces)


@dataclass(frozen=True)
class _Plan:
    """One stage before its question and its noise are resolved."""

    kind: str
    rounds: Sequence[int]
    mechanism: str
    epsilon: Fraction
    delta: Fraction


def _stage(question: Question, rounds: Sequence[int], series: Series) -> Stage:
    """The stage, if its noise can be drawn and booked: what cannot is refused now, before anything is reserved for ever."""
    series.mechanism.event  # noqa: B018 - refuses noise of an impossible size
    series.mechanism.tail(0.5, question.size)  # and a scale that no sampler holds
    return Stage(question, rounds, series)


def resolve(terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None) -> Setup:
    """The setup of these terms. `example` is consulted for its column names and kinds alone, and only where nothing public lists them;
    `redraw` is for forecasts (`data.fitting`)."""
    require_ready(terms)
    task = task_of(terms)
    preparation, public = task.preparation(terms, example, redraw)
    return Setup(terms, preparation, public, task.objective(terms.model), make_schedule(terms))


def pin(terms: Terms, path: Path) -> Terms:
    """The terms with the public numbers that are found here written to a file, by whose SHA-256 all parties use them (`data.pinned`)."""
    text = pinned_text(resolve(terms.changed(model={"preparation": None, "preparation_sha256": None})).preparation)
    path.write_text(text, encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()
    return terms.changed(model={"preparation": str(path.resolve()), "preparation_sha256": digest})


def require_ready(terms: Terms) -> None:
    """Refuse terms by which nothing can be released, and those of which a part is to be asked, and paid, before anything is learned: their
    epsilon is not what learning may cost."""
    task_of(terms).require_released(terms)
    if terms.privacy.scale_epsilon is not None:
        raise TermsError(
            "privacy.scale_epsilon: these terms ask for scales before they learn; parley scales TERMS --write READY writes those "
            "to learn by"
        )
    if terms.privacy.difference_epsilon is not None:
        raise TermsError(
            "privacy.difference_epsilon: these terms ask how much owners differ before they learn; parley differences TERMS --write READY "
            "writes those to learn by"
        )
