"""Owners in the same process, for studies and runs on one machine, with answers one by one or a sum alone."""

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from parley.errors import SettingError
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.lost_answers import Heard, marked
from parley.protocol.queries import Answer, Query

if TYPE_CHECKING:  # a relay imports this room and must not load everything that an owner needs
    from parley.owner.owner import Owner


class Exchange(Protocol):
    """Brings each owner its question and the answers back; the learning loop cannot tell how."""

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]: ...


class InProcess:
    """Asks each owner in turn. A refusal of any owner ends the round."""

    def __init__(self, owners: "Sequence[Owner]") -> None:
        self._owners = {owner.name: owner for owner in owners}

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        return [self._owners[name].answer(query) for name, query in questions.items()]

    def ask_heard(self, questions: Mapping[str, Query], heard: Heard) -> list[Answer]:
        return marked(self.ask(questions), heard)


@runtime_checkable
class AsynchronousExchange(Exchange, Protocol):
    """An exchange that waits for nobody: answers come one by one (`VirtualClock`, or between machines)."""

    def send(self, name: str, query: Query) -> None:
        """Ask an owner and return at once; it is asked nothing else before its answer came."""
        ...

    def receive(self) -> Answer | None:
        """Return the next answer, from any owner; None: no more will come."""
        ...


class VirtualClock:
    """Owners asked through another exchange that answer after a known time, one over their speed; with speed 0, never.

    Formal guarantee: the order of answers follows from the speeds and from how often each owner was asked, never from a
    table. Speeds are given, time is counted in exact fractions, and of simultaneous answers the owner named first in
    `speeds` is first.
    """

    def __init__(self, exchange: Exchange, speeds: Mapping[str, Fraction]) -> None:
        self._exchange, self._speeds = exchange, speeds
        self._places = {name: place for place, name in enumerate(speeds)}
        self._due: list[tuple[Fraction, int, str, Query]] = []
        self.now = Fraction(0)  # in units of one over a speed

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        """Ask everybody that answers at all, at once: for a score."""
        return self._exchange.ask({name: query for name, query in questions.items() if self._speeds[name] > 0})

    def send(self, name: str, query: Query) -> None:
        if self._speeds[name] > 0:
            heapq.heappush(self._due, (self.now + 1 / self._speeds[name], self._places[name], name, query))

    def receive(self) -> Answer | None:
        if not self._due:
            return None
        self.now, _, name, query = heapq.heappop(self._due)
        return self._exchange.ask({name: query})[0]


def read_speeds(
    names: tuple[str, ...], usual: Mapping[str, Fraction], given: Mapping[str, float] | None
) -> dict[str, Fraction]:
    """Return every owner's speed in the order of the terms: as given (answers per unit of time, from 0), else the
    `usual`.

    >>> read_speeds(("a", "b"), {"a": Fraction(1), "b": Fraction(1)}, {"b": 0.05})
    {'a': Fraction(1, 1), 'b': Fraction(1, 20)}
    """
    require_speeds(names, given or {})
    return {name: Fraction(str((given or {})[name])) if name in (given or {}) else usual[name] for name in names}


def require_speeds(names: Collection[str], given: Mapping[str, float]) -> None:
    """Refuse speeds of unknown owners, and invalid ones."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise SettingError(f"speeds: the terms have no owner {unknown[0]!r}; expected names from {list(names)}")
    for name, speed in given.items():
        if not (speed == 0 or 1e-9 <= speed <= 1e9):
            raise SettingError(
                f"speeds: {name} = {speed!r}: expected a number of answers per unit of time, 0 for none or from 1e-9 "
                "to 1e9"
            )


def sum_answer(query: str, noise: SharedNoise, names: Sequence[str], records: int, words: Words) -> Answer:
    """Return the owners' mean over `records` rows in all, from their noisy sum in grid units."""
    return Answer(query, "", records, noise.over(records).decode(words), tuple(names))


class SimulatedSum:
    """Owners of a study in one process: their sums are added, and the hosts' noise, of its law, is drawn openly."""

    def __init__(self, owners: "Sequence[Owner]", seed: np.random.SeedSequence | int | None) -> None:
        self._owners, self._rng = {owner.name: owner for owner in owners}, np.random.default_rng(seed)

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        return self.ask_heard(questions, np.ones(len(questions), dtype=bool))

    def ask_heard(self, questions: Mapping[str, Query], heard: Heard) -> list[Answer]:
        given = [self._owners[name].contribute(query)[0] for name, query in questions.items()]
        total = np.zeros_like(given[0].words)
        for place, contribution in enumerate(given):
            total += np.where(heard[..., place, None], contribution.words, np.uint64(0))
        noise = given[0].noise
        total += noise.drawn(total.shape, self._rng)
        records = np.array([contribution.noise.records for contribution in given])
        answer = sum_answer(given[0].query, noise, list(questions), int(records.sum()), total)
        if heard.all():
            return [answer]
        return [replace(answer, value=answer.value * (records.sum() / (heard @ records))[..., None])]
