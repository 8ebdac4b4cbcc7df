"""Answers that get lost: which owners a round hears, and what the mean over them is made of.

The law is that of a deployed run (`network.exchange.federation`) whose terms say `straggler = "skip"`. A round ends at
the first deadline by which `quorum` owners have answered; the mean divides by the records of those who did. Each
owner's answer arrives within any one deadline with its `availability`, independently of everything else, so it takes a
geometric number of deadlines.

Formal guarantee: none is added and none is lost. Coins never depend on a table, and anybody may know them, so they
amplify nothing: every owner asked is debited in full, whether its answer arrives or not. Only studies toss them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.terms import Terms
from parley.validate import Floats

Heard = NDArray[np.bool_]

DRAWN_ROUNDS = 20_000  # rounds that expectations are means over, fewer for very many owners
MAX_DRAWN_COINS = 4_000_000
COINS = 0x10557  # the stream of a seed that coins are tossed from, apart from those of noise


@dataclass(frozen=True, eq=False)
class LossyRounds:
    """Rounds that hear some owners: each owner's availability and training records [N], and the quorum."""

    names: tuple[str, ...]
    availability: Floats
    records: Floats
    quorum: int

    @classmethod
    def from_terms(cls, terms: Terms) -> "LossyRounds | None":
        """Return the rounds of these terms; None if every answer arrives."""
        if not terms.lossy:
            return None
        names = tuple(part.name for part in terms.owners)
        availability = np.array([1.0 if part.availability is None else part.availability for part in terms.owners])
        records = np.array([float(terms.train_rows(name)) for name in names])
        return cls(names, availability, records, terms.learning.quorum or len(names))

    def draw(self, rounds: tuple[int, ...], rng: np.random.Generator) -> Heard:
        """Draw who is heard [*rounds, N]: whose answer needs no more deadlines than the quorum-th fastest."""
        deadlines = rng.geometric(self.availability, (*rounds, len(self.names)))
        last = np.partition(deadlines, self.quorum - 1, axis=-1)[..., self.quorum - 1, None]
        return np.asarray(deadlines <= last)

    @cached_property
    def _drawn(self) -> Heard:
        count = min(DRAWN_ROUNDS, max(256, MAX_DRAWN_COINS // len(self.names)))
        return self.draw((count,), np.random.default_rng(COINS))

    @cached_property
    def _weights(self) -> Floats:
        """Each owner's weight in the mean of each drawn round [rounds, N]."""
        heard = self._drawn * self.records
        return np.asarray(heard / heard.sum(axis=1, keepdims=True))

    @cached_property
    def answers(self) -> float:
        """The expected number of owners that a round hears."""
        return float(self._drawn.sum(axis=1).mean())

    @cached_property
    def noise_factors(self) -> Floats:
        """How much more an owner's noise adds to the mean's variance than if all were heard: E w_l^2/(n_l/n)^2 [N]."""
        return np.asarray((self._weights**2).mean(axis=0) / (self.records / self.records.sum()) ** 2)

    @cached_property
    def chance(self) -> tuple[float, float]:
        """How far the mean lies from that of all owners because their rows differ by chance, in units of the variance
        of one row's answer: (afresh in each round, alike in all rounds).

        Owner l's exact answer is g_l, of variance 1/n_l. The mean of those heard less that of all is sum_l (w_l - p_l)
        g_l, p_l = n_l/n. Its variance is E sum_l (w_l - p_l)^2/n_l = E 1/n_H - 1/n, n_H the records heard. Two rounds
        share g, so their covariance is sum_l (E w_l - p_l)^2/n_l, which is 0 if all owners are equally available.
        """
        total, share = self.records.sum(), self.records / self.records.sum()
        all_rounds = float((1 / (self._drawn @ self.records)).mean() - 1 / total)
        alike = float(np.sum((self._weights.mean(axis=0) - share) ** 2 / self.records))
        return max(all_rounds - alike, 0.0), min(alike, all_rounds)
