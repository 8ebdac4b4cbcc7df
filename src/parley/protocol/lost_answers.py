"""Answers that get lost: which owners a round hears, and what the mean over them is made of.

The law is that of a deployed run (`network.exchange.federation`) whose terms say `straggler = "skip"`. A round ends at
the first deadline by which `quorum` owners have answered; the mean divides by the records of those who did. Each
owner's answer arrives within any one deadline with its `availability`, independently of everything else, so it takes a
geometric number of deadlines.

Formal guarantee: none is added and none is lost. Coins never depend on a table, and anybody may know them, so they
amplify nothing: every owner asked is debited in full, whether its answer arrives or not. Only studies toss them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parley.protocol.queries import Answer, Query
from parley.terms import Terms
from parley.validate import Floats

Heard = NDArray[np.bool_]

DRAWN_ROUNDS = 200_000  # rounds that expectations are means over, fewer for many owners
MAX_DRAWN_COINS = 4_000_000
COINS = 0x10557  # the stream of a seed that coins are tossed from, apart from those of noise


@dataclass(frozen=True, eq=False)
class HeardMoments:
    """Expectations over rounds.

    `noise_factors`: how much more an owner's noise adds to the variance of the mean than if all were heard, E w_l^2 /
    (n_l/n)^2 [N], w_l its weight in the mean. `sum_noise_factor`: the same where one noise is added to the sum of those
    heard, n^2 E 1/n_H^2, n_H the records heard.

    `chance`: how far the mean lies from that of all owners because their rows differ by chance, in units of the
    variance of one row's answer: (afresh in each round, alike in all rounds). Owner l's exact answer is g_l, of
    variance 1/n_l. The mean of those heard less that of all is sum_l (w_l - p_l) g_l, p_l = n_l/n. Its variance is E
    sum_l (w_l - p_l)^2/n_l = E 1/n_H - 1/n. Two rounds share g, so their covariance is sum_l (E w_l - p_l)^2/n_l, which
    is 0 for owners of one size and availability.
    """

    answers: float  # the expected number of owners that a round hears
    noise_factors: Floats
    sum_noise_factor: float
    chance: tuple[float, float]


@dataclass(frozen=True)
class LossyRounds:
    """Rounds that hear some owners: each owner's availability and training records, and the quorum."""

    names: tuple[str, ...]
    availability: tuple[float, ...]
    records: tuple[int, ...]
    quorum: int

    @classmethod
    def from_terms(cls, terms: Terms) -> "LossyRounds | None":
        """Return the rounds of these terms; None if every answer arrives."""
        if not terms.lossy:
            return None
        names = tuple(part.name for part in terms.owners)
        availability = tuple(1.0 if part.availability is None else part.availability for part in terms.owners)
        records = tuple(terms.train_rows(name) for name in names)
        return cls(names, availability, records, terms.learning.quorum or len(names))

    def draw(self, rounds: tuple[int, ...], rng: np.random.Generator) -> Heard:
        """Draw who is heard [*rounds, N]: whose answer needs no more deadlines than the quorum-th fastest."""
        deadlines = rng.geometric(self.availability, (*rounds, len(self.names)))
        last = np.partition(deadlines, self.quorum - 1, axis=-1)[..., self.quorum - 1, None]
        return np.asarray(deadlines <= last)

    @property
    def moments(self) -> HeardMoments:
        """Expectations over rounds: means over rounds drawn by a fixed seed."""
        return _moments(self)


@lru_cache(maxsize=16)
def _moments(rounds: LossyRounds) -> HeardMoments:
    count = min(DRAWN_ROUNDS, max(256, MAX_DRAWN_COINS // len(rounds.names)))
    heard, records = rounds.draw((count,), np.random.default_rng(COINS)), np.array(rounds.records, dtype=float)
    share, size = records / records.sum(), heard @ records
    weights = heard * records / size[:, None]
    differs = float((1 / size).mean() - 1 / records.sum())
    alike = min(float(np.sum((weights.mean(axis=0) - share) ** 2 / records)), differs)
    return HeardMoments(
        float(heard.sum(axis=1).mean()),
        np.asarray((weights**2).mean(axis=0) / share**2),
        float(((records.sum() / size) ** 2).mean()),
        (differs - alike, alike),
    )


class SomeHeard(Protocol):
    """An exchange of a study that can lose answers: every owner answers, and is debited, all the same."""

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        """Return all answers."""
        ...

    def ask_heard(self, questions: Mapping[str, Query], heard: Heard) -> list[Answer]:
        """Return the answers; `heard` [*replicates, asked owners] says in which runs each arrives."""
        ...


class LossyExchange:
    """Owners of a study whose training answers get lost by public coins, which depend on terms and seed alone."""

    def __init__(self, exchange: SomeHeard, rounds: LossyRounds, horizon: int, seed: np.random.SeedSequence) -> None:
        self._exchange, self._rounds, self._horizon = exchange, rounds, horizon
        self._rng = np.random.default_rng(seed)
        self.lost = dict.fromkeys(rounds.names, 0)  # answers of the first run

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        query = next(iter(questions.values()))
        if query.round > self._horizon:  # a score
            return self._exchange.ask(questions)
        heard = self._rounds.draw(next(iter(query.arrays.values())).shape[:-1], self._rng)
        first = heard.reshape(-1, len(self.lost))[0]
        self.lost = {name: n + (not came) for (name, n), came in zip(self.lost.items(), first, strict=True)}
        return self._exchange.ask_heard(questions, heard)


def marked(answers: Sequence[Answer], heard: Heard) -> list[Answer]:
    """Return single answers with the runs in which each arrives."""
    return [replace(answer, heard=heard[..., place]) for place, answer in enumerate(answers)]
