"""Who is asked in which round: public, and known before the first. So each owner's noise is calibrated for its own
number of answers."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from parley.terms import Learning, Terms


@dataclass(frozen=True)
class Schedule:
    """`turns`[k - 1]: the names asked in round k; None: everybody, always. `own`: how many answers each owner gives
    where nobody waits for the others: rounds are then each owner's own, 1 to that number."""

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
        """Whether rounds wait for everybody whom they ask."""
        return self.own is None

    def at(self, number: int) -> tuple[str, ...]:
        """Who is asked in this round; after the last, for a score, everybody."""
        if self.own is not None and number <= self.horizon:
            return tuple(name for name, answers in zip(self.names, self.own, strict=True) if number <= answers)
        return self.names if self.turns is None or number > self.horizon else self.turns[number - 1]

    def rounds_of(self, name: str) -> Sequence[int]:
        """The rounds in which an owner is asked."""
        if self.own is not None:
            return range(1, self.own[self.names.index(name)] + 1)
        return range(1, self.horizon + 1) if self.turns is None else self._rounds[name]

    @cached_property
    def _rounds(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {name: [] for name in self.names}
        for place, asked in enumerate(self.turns or ()):
            for name in asked:
                found[name].append(place + 1)
        return {name: tuple(rounds) for name, rounds in found.items()}


def agreed_answers(terms: Terms, name: str) -> int:
    """How many answers an owner gives by these terms, the score included."""
    return len(make_schedule(terms).rounds_of(name)) + (terms.privacy.score_epsilon is not None)


def uses(learning: Learning, rounds: Sequence[int]) -> int:
    """How many of these rounds' answers one record can be in at most: all, or where batches are a partition one an
    epoch.

    >>> uses(Learning(algorithm="private-sgd", batches=10, epochs=3), range(1, 12))
    2
    """
    if learning.batches is None or learning.poisson or not rounds:
        return len(rounds)
    if isinstance(rounds, range) and rounds.step == 1:
        return learning.epoch(rounds[-1]) - learning.epoch(rounds[0]) + 1
    return len({learning.epoch(number) for number in rounds})


def make_schedule(terms: Terms) -> Schedule:
    """The schedule of these terms: with a `stride` s an owner is asked in rounds 1, 1 + s, 1 + 2 s, ...; with
    `participation` every round asks that share of the owners, dealt from a shuffled pack that is shuffled anew when it
    is used up, so that all have their turn equally often, give or take one. Where a step takes two rounds
    (`Learning.pace`), both ask the same owners, and strides count steps.

    The draw is public. It hides nobody, so no guarantee gets better by it: an owner pays for the rounds in which it is
    asked.

    >>> named = {"a": 1, "b": 3}.items()
    >>> owners = [{"name": name, "records": 10, "epsilon": 1.0, "stride": stride} for name, stride in named]
    >>> model = {"kind": "linear-svm", "target": "y"}
    >>> terms = Terms.from_dict({"model": model, "learning": {"horizon": 5}, "privacy": {"clip": 1.0},
    ...                          "owners": owners})
    >>> make_schedule(terms).rounds_of("b")
    (1, 4)
    """
    names, horizon = tuple(part.name for part in terms.owners), terms.learning.horizon
    pace = terms.learning.pace
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
    """The turns, each of them repeated as many times as the pace says."""
    return tuple(turn for turn in turns for _ in range(pace))


def _dealt(terms: Terms, names: tuple[str, ...], rounds: int) -> tuple[tuple[str, ...], ...]:
    seed, many, packs = terms.learning.participation_seed or 0, terms.asked_a_round, itertools.count()
    pack: list[str] = []
    turns = []
    for _ in range(rounds):
        hand: set[str] = set()
        passed: list[str] = []  # who is in this hand already, from the pack before: first in the next
        while len(hand) < many:
            pack = pack or _shuffled(names, seed, next(packs))
            card = pack.pop()
            if card in hand:
                passed.append(card)
            hand.add(card)
        pack += reversed(passed)
        turns.append(tuple(name for name in names if name in hand))
    return tuple(turns)


def _shuffled(names: tuple[str, ...], seed: int, pack: int) -> list[str]:
    """By hashes, so that every party deals alike whatever libraries it has."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}/{pack}/{name}".encode()).digest())
