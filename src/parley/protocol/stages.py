"""What one owner is asked under one agreement, how its answers are released, and what any number of them costs. Who is
asked in which round is public and known beforehand, so noise is calibrated for each owner's number of answers."""

import hashlib
import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Protocol

from parley.errors import Malformed, OutOfOrder
from parley.privacy.accounting import Series, SharedLaw
from parley.privacy.events import Event
from parley.protocol.queries import Query, Question
from parley.terms import Learning, Terms


@dataclass(frozen=True)
class Schedule:
    """Who is asked in which round: `turns`[k - 1] in round k (None: always everybody). Where nobody waits, `own` holds
    each owner's number of answers, and an owner's rounds are its own, 1 to that number."""

    names: tuple[str, ...]
    horizon: int
    turns: tuple[tuple[str, ...], ...] | None = None
    own: tuple[int, ...] | None = None

    @property
    def everybody(self) -> bool:
        """Whether every round asks all owners."""
        return self.turns is None and self.own is None

    @property
    def waits(self) -> bool:
        """Whether rounds wait for everybody they ask."""
        return self.own is None

    def at(self, number: int) -> tuple[str, ...]:
        """Return who is asked in this round; after the last, for a score, everybody."""
        if self.own is not None and number <= self.horizon:
            return tuple(name for name, answers in zip(self.names, self.own, strict=True) if number <= answers)
        return self.names if self.turns is None or number > self.horizon else self.turns[number - 1]

    def rounds_of(self, name: str) -> Sequence[int]:
        """Return the rounds in which an owner is asked."""
        if self.own is not None:
            return range(1, self.own[self.names.index(name)] + 1)
        return range(1, self.horizon + 1) if self.turns is None else self._rounds[name]

    @cached_property
    def _rounds(self) -> dict[str, tuple[int, ...]]:
        rounds_by_name: dict[str, list[int]] = {name: [] for name in self.names}
        for place, turn in enumerate(self.turns or ()):
            for name in turn:
                rounds_by_name[name].append(place + 1)
        return {name: tuple(rounds) for name, rounds in rounds_by_name.items()}


def agreed_answers(terms: Terms, name: str) -> int:
    """Return how many answers an owner gives by these terms, the score included."""
    return len(make_schedule(terms).rounds_of(name)) + (terms.privacy.score_epsilon is not None)


def uses(learning: Learning, rounds: Sequence[int]) -> int:
    """Return in how many of these rounds' answers one record can be: all, or one per epoch of a partition into batches.

    >>> uses(Learning(algorithm="private-sgd", batches=10, epochs=3), range(1, 12))
    2
    """
    if learning.batches is None or learning.poisson or not rounds:
        return len(rounds)
    if isinstance(rounds, range) and rounds.step == 1:
        return learning.epoch(rounds[-1]) - learning.epoch(rounds[0]) + 1
    return len({learning.epoch(number) for number in rounds})


def all_releases(learning: Learning, question: Question, rounds: Sequence[int]) -> int:
    """Return for how many releases the noise of these rounds' answers is calibrated."""
    if question.most_releases == 1:
        return uses(learning, rounds)
    (even, odd), odd_rounds = question.releases_by_parity, _odd_rounds(rounds)
    return odd_rounds * odd + (len(rounds) - odd_rounds) * even


def _odd_rounds(rounds: Sequence[int]) -> int:
    """Return how many of these rounds have an odd number.

    >>> _odd_rounds(range(1, 8)), _odd_rounds(range(2, 8, 2)), _odd_rounds((1, 4, 7))
    (4, 0, 2)
    """
    if isinstance(rounds, range) and rounds.step % 2:
        return (len(rounds) + rounds.start % 2) // 2
    if isinstance(rounds, range):
        return len(rounds) * (rounds.start % 2)
    return sum(number % 2 for number in rounds)


def make_schedule(terms: Terms) -> Schedule:
    """Return the schedule of these terms. The draw is public, so it improves no guarantee: an owner pays for its
    rounds.

    With a `stride` s an owner is asked in rounds 1, 1 + s, 1 + 2 s, ... With `participation` every round asks that
    share of the owners, dealt from a pack reshuffled when it is used up, so turns differ by at most one. Where a step
    takes two rounds (`Learning.pace`), both ask the same owners, and strides count steps.

    >>> named = {"a": 1, "b": 3}.items()
    >>> owners = [{"name": name, "records": 10, "epsilon": 1.0, "stride": stride} for name, stride in named]
    >>> model = {"kind": "linear-svm", "target": "y"}
    >>> terms = Terms.from_dict({"model": model, "learning": {"horizon": 5}, "privacy": {"clip": 1.0},
    ...                          "owners": owners})
    >>> make_schedule(terms).rounds_of("b")
    (1, 4)
    """
    names, horizon = tuple(part.name for part in terms.owners), terms.learning.horizon
    pace = terms.learning.rounds_per_step
    if not terms.learning.waits:
        return Schedule(names, horizon, own=tuple(part.answers or horizon for part in terms.owners))
    if terms.learning.participation is not None:
        return Schedule(names, horizon, _repeated(_dealt(terms, names, horizon // pace), pace))
    strides = [part.stride or 1 for part in terms.owners]
    if all(stride == 1 for stride in strides):
        return Schedule(names, horizon)
    turns = [
        tuple(name for name, stride in zip(names, strides, strict=True) if k % stride == 0)
        for k in range(horizon // pace)
    ]
    return Schedule(names, horizon, _repeated(turns, pace))


def _repeated(turns: Sequence[tuple[str, ...]], pace: int) -> tuple[tuple[str, ...], ...]:
    return tuple(turn for turn in turns for _ in range(pace))


def _dealt(terms: Terms, names: tuple[str, ...], rounds: int) -> tuple[tuple[str, ...], ...]:
    seed, owners_per_round, packs = terms.learning.participation_seed or 0, terms.asked_a_round, itertools.count()
    pack: list[str] = []
    turns = []
    for _ in range(rounds):
        hand: set[str] = set()
        repeated_cards: list[str] = []  # who is in this hand already, from the pack before: first in the next
        while len(hand) < owners_per_round:
            pack = pack or _shuffled(names, seed, next(packs))
            card = pack.pop()
            if card in hand:
                repeated_cards.append(card)
            hand.add(card)
        pack += reversed(repeated_cards)
        turns.append(tuple(name for name in names if name in hand))
    return tuple(turns)


def _shuffled(names: tuple[str, ...], seed: int, pack: int) -> list[str]:
    """Shuffle by hashes, so that every party deals alike with any library versions."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}/{pack}/{name}".encode()).digest())


class Resolver(Protocol):
    """The part of a setup (`protocol.setup`) that an aggregation uses."""

    @property
    def terms(self) -> Terms: ...

    @property
    def schedule(self) -> Schedule: ...

    def plans(self, name: str) -> "Iterator[StagePlan]":
        """Yield an owner's stages with their noise and cost."""
        ...

    def question(self, plan: "StagePlan", name: str) -> Question:
        """Return the rules of a stage's questions for one owner."""
        ...

    def part(self, name: str) -> "Part":
        """Return what the terms fix for the owner of this name."""
        ...

    def law(self, stage: int = 0, epsilon: Fraction | None = None) -> SharedLaw:
        """Return the law of a stage's one noise, if hosts drew it."""
        ...

    def most_uses(self, plan: "StagePlan") -> int:
        """Return in how many of an owner's answers one record can be, at most over all owners."""
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
    """One kind of question asked of one owner in some rounds, and how its answers are released. Costs of stages add up.

    Formal guarantee: k answers, the last of them to round r, cost at most what `series` says of `uses`(r, k) releases.
    Where an epoch's answers are about disjoint rows, all of them cost a person no more than one release
    (`queries.gradient`, `accounting.in_pieces`). k answers fall into at most k epochs, and no more than had turns up to
    round r. Where answers are made of several releases (`Question.releases`), k of them are made of at most as many as
    the k rounds up to r with most.
    """

    question: Question
    rounds: Sequence[int]
    series: Series

    def uses(self, number: int, answers: int) -> int:
        """Return how many releases these answers count for, the last of them to round `number`."""
        if self.question.disjoint == 1:
            return answers if self.question.most_releases == 1 else self._most_costly(number, answers)
        return min(answers, self._epochs_until(number))

    def _most_costly(self, number: int, answers: int) -> int:
        """Return the releases of the `answers` costliest rounds up to `number`; rounds beyond cost as much as any."""
        rounds = self.rounds[: bisect_right(self.rounds, number)]
        odd_rounds = _odd_rounds(rounds)
        counts = zip(self.question.releases_by_parity, (len(rounds) - odd_rounds, odd_rounds), strict=True)
        (most, costliest), (less, others) = sorted(counts, reverse=True)
        dear = min(answers, costliest)
        cheap = min(answers - dear, others)
        return dear * most + cheap * less + (answers - dear - cheap) * most

    def event(self, number: int) -> Event:
        """Return what the ledger stores of the answer to round `number`."""
        return self.series.event.times(self.question.releases(number))

    def _epochs_until(self, number: int) -> int:
        """Return how many epochs had a turn up to this round."""
        batches = self.question.disjoint
        if isinstance(self.rounds, range):
            return (min(number, self.rounds[-1]) - 1) // batches + 1
        return self._epochs_after_turn[bisect_right(self.rounds, number) - 1] if number >= self.rounds[0] else 0

    @cached_property
    def _epochs_after_turn(self) -> list[int]:
        """How many epochs had a turn, after each turn."""
        epochs = [(number - 1) // self.question.disjoint for number in self.rounds]
        return list(accumulate((int(place == 0 or epochs[place - 1] != e) for place, e in enumerate(epochs))))


@dataclass(frozen=True, eq=False)
class Part:
    """What is fixed for one owner: training, and then the score if one is agreed on.

    Formal guarantee: the answers of all stages together are (epsilon, delta)-DP: each stage's by its series, and stages
    add up by simple composition (held-out rows are other rows, but maybe the same people's).
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
        """What one training answer alone costs the people it is about, at most."""
        return self.training.series.spent_after(self.training.uses(self.training.rounds[-1], 1))

    @property
    def rounds(self) -> int:
        """The last round that this owner can be asked in."""
        return self.stages[-1].rounds[-1]

    @property
    def gaps(self) -> bool:
        """Whether this owner is asked in some rounds only."""
        return sum(len(stage.rounds) for stage in self.stages) < self.rounds

    def stage(self, number: int) -> Stage:
        """Return the stage that a round belongs to, or refuse the round."""
        for stage in self.stages:
            if number in stage.rounds:
                return stage
        raise OutOfOrder(
            f"round {number}: the terms have no question for {self.name} in this round; the last round for {self.name} "
            f"is {self.rounds}"
        )

    def require_sound_arithmetic(self) -> None:
        """Refuse a machine on whose arithmetic this owner's answers would not be private."""
        for stage in self.stages:
            stage.question.require_sound_arithmetic()

    def check(self, query: Query, replicates: tuple[int, ...]) -> Stage:
        """Return the stage that answers this query; if none does, refuse it before any record is touched."""
        if type(query.round) is not int or not isinstance(query.id, str) or not 1 <= len(query.id) <= 200:
            raise Malformed("query: the round must be a whole number, and the id must have 1 to 200 characters")
        stage = self.stage(query.round)
        stage.question.check(query, replicates)
        return stage

    def cost(self, number: int, answers: int) -> Fraction:
        """Return the epsilon spent by this many answers, the last to round `number`; all but one score are training."""
        training = self.training
        if self.stage(number) is training:
            return training.series.spent_after(training.uses(number, answers))
        return training.series.spent_after(training.uses(number, answers - 1)) + self.stages[1].series.spent_after(1)


def make_stage(question: Question, rounds: Sequence[int], series: Series) -> Stage:
    """Return the stage; refuse noise that cannot be drawn and booked now, before anything is reserved for ever."""
    series.mechanism.event  # noqa: B018 - refuses noise of an impossible size
    series.mechanism.tail(0.5, question.size)  # and a scale that no sampler holds
    return Stage(question, rounds, series)
