"""Answers that come one by one, whoever is ready first: how a learner that waits for nobody hears them, on a virtual
clock.

Between machines `asynchronous_federation.AsynchronousFederation` does the same by the clock on the wall.
"""

import heapq
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Protocol, runtime_checkable

from parley.errors import SettingError
from parley.network.exchange.in_process import Exchange
from parley.protocol.queries import Answer, Query


@runtime_checkable
class AsynchronousExchange(Exchange, Protocol):
    """An exchange that need not wait for everybody."""

    def send(self, name: str, query: Query) -> None:
        """Ask an owner, and return at once. Before its answer came it is asked nothing else."""
        ...

    def receive(self) -> Answer | None:
        """The next answer that comes, from whomever; None: no more will."""
        ...


class VirtualClock:
    """Owners that are asked through another exchange and answer after a known time, one over their speed; with speed 0,
    never.

    Formal guarantee: in which order answers come follows from the speeds and from how often each owner was asked, never
    from a table: speeds are given, time is counted in exact fractions, and of answers that come at once the owner named
    first in `speeds` is first.
    """

    def __init__(self, exchange: Exchange, speeds: Mapping[str, Fraction]) -> None:
        self._exchange, self._speeds = exchange, speeds
        self._places = {name: place for place, name in enumerate(speeds)}
        self._due: list[tuple[Fraction, int, str, Query]] = []
        self.now = Fraction(0)  # in units of one over a speed

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        """Everybody that answers at all, at once: for a score."""
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
    """The speed of every owner, in the order of the terms: as given (answers in a unit of time, from 0), else the
    `usual` one.

    >>> read_speeds(("a", "b"), {"a": Fraction(1), "b": Fraction(1)}, {"b": 0.05})
    {'a': Fraction(1, 1), 'b': Fraction(1, 20)}
    """
    require_speeds(names, given or {})
    return {name: Fraction(str((given or {})[name])) if name in (given or {}) else usual[name] for name in names}


def require_speeds(names: Collection[str], given: Mapping[str, float]) -> None:
    """Refuse speeds of nobody, and what is no speed."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise SettingError(f"speeds: no owner is called {unknown[0]!r}; expected some of {list(names)}")
    for name, speed in given.items():
        if not (speed == 0 or 1e-9 <= speed <= 1e9):
            raise SettingError(
                f"speeds: {name} = {speed!r}: expected answers in a unit of time, 0 (never) or from 1e-9 to 1e9"
            )
