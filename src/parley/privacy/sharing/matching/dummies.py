"""Dummy rows that hide how many people tables have in common.

For each set of at least two tables, each of them gets D rows under random keys. The keys of K of them are the same in
all tables of the set, and nobody knows K: it has a discrete Laplace law around D/2, cut off at 0 and D. So what hosts
see is each count plus a K of its own.

Formal guarantee: a count that moves by 1 costs (epsilon, delta), computed here from the law's exact probabilities. If a
person's rows are replaced by a newcomer's, at most `counts_moved` counts move, each by 1.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np

from parley.errors import SettingError
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.shared_noise import WORD_BITS, exp_decimal, with_sixty_digits
from parley.privacy.sharing.bounds import public
from parley.privacy.sharing.circuits import WORD_LANES, Builder, Circuit, Output, carry, evaluate
from parley.privacy.sharing.conversion import planes_of, unpack_bits
from parley.privacy.sharing.matching.keyed_rows import KEY_WORDS
from parley.privacy.sharing.party import Party
from parley.privacy.sharing.ring import Replicated

MAX_DUMMIES = 1 << 14  # of one set of tables
MAX_TABLES = 4
TableSet = frozenset[int]


@dataclass(frozen=True)
class CountLaw:
    """K: of 1, ..., D the thresholds that a uniform word of 64 bits lies below. `thresholds` fall; threshold k is 2^64
    times the probability of K >= k."""

    epsilon: float
    thresholds: tuple[int, ...]

    @property
    def dummies(self) -> int:
        """D."""
        return len(self.thresholds)

    @property
    def chances(self) -> list[int]:
        """2^64 times the probability of 0, 1, ..., D."""
        ends = [1 << WORD_BITS, *self.thresholds, 0]
        return [above - below for above, below in pairwise(ends)]

    @property
    @with_sixty_digits
    def delta(self) -> float:
        """The delta that `epsilon` leaves a count that moves by 1, either way; rounded up."""
        factor, chances = exp_decimal(Decimal(self.epsilon)), [0, *self.chances, 0]
        left = [
            sum(max(Decimal(0), here - factor * there) for here, there in zip(one, other, strict=True))
            for one, other in ((chances[1:], chances[:-1]), (chances[:-1], chances[1:]))
        ]
        return float(max(left) / 2**WORD_BITS) * (1 + 1e-12)


@lru_cache(maxsize=64)
def count_law(epsilon: float, delta: float) -> CountLaw:
    """Return the law with the fewest dummies that costs at most (epsilon, delta)."""
    if not (epsilon > 0 and 0 < delta < 1):
        raise SettingError(f"matches: expected epsilon > 0 and delta between 0 and 1, got ({epsilon}, {delta})")
    low, high = 1, 1
    while _law(epsilon, high).delta > delta:
        low, high = high + 1, 2 * high
        if 2 * high > MAX_DUMMIES:
            raise SettingError(
                f"matches: (epsilon, delta) = ({epsilon:g}, {delta:g}) takes more than {MAX_DUMMIES} dummy rows; "
                "increase epsilon or delta"
            )
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _law(epsilon, middle).delta > delta else (low, middle)
    return _law(epsilon, high)


@lru_cache(maxsize=64)
@with_sixty_digits
def _law(epsilon: float, reach: int) -> CountLaw:
    """Return discrete Laplace numbers of scale 1/epsilon around `reach`, from 0 to 2 reach."""
    weights = [exp_decimal(-Decimal(epsilon) * abs(k - reach)) for k in range(2 * reach + 1)]
    total, above = sum(weights), Decimal(0)
    thresholds = []
    for weight in reversed(weights[1:]):
        above += weight
        thresholds.append(max(1, int((above / total * 2**WORD_BITS).to_integral_value())))
    return CountLaw(epsilon, tuple(reversed(thresholds)))


def table_sets(tables: int) -> list[TableSet]:
    """Return the sets of at least two tables."""
    if not 2 <= tables <= MAX_TABLES:
        raise SettingError(f"tables: expected 2 to {MAX_TABLES} tables to match, got {tables}")
    return [frozenset(each) for size in range(2, tables + 1) for each in combinations(range(tables), size)]


@lru_cache(maxsize=8)
def counts_moved(tables: int) -> int:
    """Return how many counts move at most if a person's rows in some tables become those of one newcomer.

    The person was in the tables `held`, the newcomer in others than the `changed` ones. All cases are tried.

    >>> [counts_moved(tables) for tables in (2, 3, 4)]
    [1, 3, 4]
    """
    counted = set(table_sets(tables))
    every = [frozenset(each) for size in range(tables + 1) for each in combinations(range(tables), size)]
    most = 0
    for held in every:
        for changed in every:
            for before in every:
                if changed <= held and not changed & before:
                    moved = dict.fromkeys((held, held - changed, before, before | changed), 0)
                    for places, step in ((held, -1), (held - changed, 1), (before, -1), (before | changed, 1)):
                        moved[places] += step
                    most = max(most, sum(abs(step) for places, step in moved.items() if places in counted))
    return most


def law_of_counts(epsilon: float, delta: float, tables: int) -> CountLaw:
    """Return the law of each count such that all counts together cost at most (epsilon, delta)."""
    moved = counts_moved(tables)
    return count_law(math.nextafter(epsilon / moved, 0), math.nextafter(delta / moved, 0))


@dataclass(frozen=True, eq=False)
class Dummies:
    """Shared keys [rows, 2] of each table's dummy rows, and for each set of tables which of its dummies are the same in
    all: the first D lanes of a plane."""

    keys: tuple[Replicated, ...]
    same: dict[TableSet, Replicated]


def draw_dummies(party: Party, law: CountLaw, tables: int) -> Dummies:
    """Draw the dummy rows of all tables; all hosts call it alike.

    Formal guarantee: the keys are uniform, and a host knows nothing of which are the same.
    """
    keys: list[list[Replicated]] = [[] for _ in range(tables)]
    same = {}
    for places in table_sets(tables):
        same[places] = _draw_same(party, law)
        first = party.random(law.dummies, KEY_WORDS)
        for number, place in enumerate(sorted(places)):
            keys[place].append(first if number == 0 else first ^ _differences(party, same[places], law.dummies))
    return Dummies(tuple(Replicated.concatenate(parts) for parts in keys), same)


def _draw_same(party: Party, law: CountLaw) -> Replicated:
    """Return a plane [words] whose lane k - 1 is 1 if K >= k."""
    words = -(-law.dummies // WORD_LANES)
    drawn = party.random(WORD_BITS, 1).map(lambda side: np.repeat(-(side & np.uint64(1)), words, axis=1))
    missing = np.array([2**WORD_BITS - threshold for threshold in law.thresholds], dtype=np.uint64)
    return evaluate(party, _below(), Replicated.concatenate([drawn, public(party, planes_of(missing))]))[0]


def _differences(party: Party, same: Replicated, dummies: int) -> Replicated:
    """Return words [dummies, 2] that are 0 where `same` has a 1, and random elsewhere."""

    def masks(side: Words) -> Words:
        ones = unpack_bits(side, dummies).astype(np.uint64)
        return np.repeat(-ones[:, None], KEY_WORDS, axis=1)

    drawn = party.random(dummies, KEY_WORDS)
    return drawn ^ party.conjunction(same.map(masks), drawn)


@lru_cache(maxsize=1)
def _below() -> Circuit:
    """Inputs: the digits of a word, then of 2^64 less a threshold; output: whether the word is below the threshold."""
    builder = Builder(2 * WORD_BITS)
    drawn, missing = range(WORD_BITS)[::-1], range(WORD_BITS, 2 * WORD_BITS)[::-1]
    return builder.build([Output((carry(builder, drawn, missing),), flip=True)])
