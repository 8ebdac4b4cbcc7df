"""Counts of names that nobody listed: noisy ones leave with their name, if above a threshold that one person cannot
reach.

Formal guarantee: let D and D' be neighbouring tables: the same size n, k rows of one person replaced. In each of C
columns a name is a *candidate* if more than f rows hold it. The release is a function of (1) the counts on fixed places
and of the names that are candidates in both tables, with independent noise of the base mechanism, and (2) the names
that are candidates in one table only, with noisy counts of at least the threshold t. It is (eps, delta_1 + (1 + e^eps)
p)-DP, and the threshold makes (1 + e^eps) p at most delta_2.

- (1) differs by at most the sensitivity that the noise was calibrated for, so it is (eps, delta_1)-DP. Where a name's
  count stands in the drawn vector plays no role: the vector has one length for all tables (n/(f + 1) places a column
  always suffice) and its noise is independent and alike in every place.
- (2): replacing k rows takes at most k names a column below f, and each of these had at most f + k rows. So one of them
  leaves with probability at most p = C k P(noise >= t - f - k); likewise for D'.
- Let M~ be the mechanism that withholds them. P(M(D) in A) <= P(M~(D) in A) + p <= e^eps P(M~(D') in A) + delta_1 + p
  <= e^eps (P(M(D') in A) + p) + delta_1 + p. Other releases under the same agreement are part of (1), adaptively chosen
  or not, as long as names are released once.
- t is larger than the exact law of the samplers needs by a billionth: more than their grids and roundings move a count
  or a tail.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from parley.privacy.events import Event, Norm
from parley.privacy.mechanisms.mechanism import Bounded, Mechanism, require_bounded
from parley.privacy.mechanisms.noise import Noise
from parley.validate import Floats

NUMBERS_PER_CODE = 8  # that a name takes
BYTES_PER_NUMBER = 6  # in each of them: whole numbers below 2^48 are exact floats, and so are their 2^-48th parts
LONGEST_NAME = NUMBERS_PER_CODE * BYTES_PER_NUMBER
WORD_UNIT = 2.0**-48


def encode_name(name: str) -> Floats | None:
    """Return the numbers of a name; None if it is empty, longer than 48 bytes of UTF-8, or has a zero in it."""
    try:
        text = name.encode()
    except UnicodeEncodeError:  # half a character
        return None
    if not text or len(text) > LONGEST_NAME or b"\0" in text:
        return None
    padded = text.ljust(LONGEST_NAME, b"\0")
    return np.array(
        [
            int.from_bytes(padded[k : k + BYTES_PER_NUMBER], "big") * WORD_UNIT
            for k in range(0, LONGEST_NAME, BYTES_PER_NUMBER)
        ]
    )


def decode_name(numbers: Sequence[float] | Floats) -> str | None:
    """Return the name that these numbers encode; None if none: an honest owner sends that for an empty place only.

    >>> decode_name(encode_name("Krankenhaus Süd")), decode_name([0.0] * 8)
    ('Krankenhaus Süd', None)
    """
    words = [number / WORD_UNIT for number in numbers]
    if len(words) != NUMBERS_PER_CODE or not all(0 <= word < 2**48 and word == int(word) for word in words):
        return None
    text = b"".join(int(word).to_bytes(BYTES_PER_NUMBER, "big") for word in words).rstrip(b"\0")
    try:
        return text.decode() if text and b"\0" not in text else None
    except UnicodeDecodeError:
        return None


MAX_CANDIDATES = 512  # in a column
MAX_NAMES = 64  # of a column that an answer has room for: those with the largest noisy counts
NUMBERS_PER_NAME = 1 + NUMBERS_PER_CODE  # numbers that a released name takes: its share of the rows, and its letters
ROUNDING_MARGIN = 1e-9
MIN_PROBABILITY = 1e-290  # a probability so small that no threshold is computed for it: then no name leaves


@dataclass(frozen=True, eq=False)
class NamedCounts(Bounded):
    """Shares of the rows on fixed places [..., columns x width], and name counts of columns whose names are asked."""

    named: tuple[Mapping[str, int] | None, ...] = ()


@dataclass(frozen=True)
class Stability:
    """A base mechanism that adds noise to candidates' shares, too, and releases those that reach `threshold`."""

    base: Mechanism
    records: int
    columns: int
    width: int  # numbers of an answer for each column
    places: int  # for candidates of each column
    floor: int  # rows that a candidate's name exceeds
    threshold: float  # as a share of the rows

    @classmethod
    def calibrate(
        cls,
        base: Mechanism,
        epsilon: Fraction,
        delta: Fraction,
        records: int,
        per_person: int,
        columns: int,
        width: int,
    ) -> "Stability":
        """Return the least threshold at which names that one person adds or removes cost `delta` at `epsilon`."""
        floor = min(records, max(records // MAX_CANDIDATES, per_person))
        places = records // (floor + 1)
        # 1 + e^eps <= 2 e^eps
        allowed = float(delta) * math.exp(-min(float(epsilon), 1e3)) / 2 / (columns * per_person)
        if not places or not allowed > MIN_PROBABILITY or not epsilon < 600:
            return cls(base, records, columns, width, 0, records, math.inf)
        drawn = columns * (width + places)
        reach = max(0.0, base.tail(2 * allowed * drawn, drawn))  # P(|Y| > reach) <= 2 allowed, and the law is symmetric
        return cls(
            base,
            records,
            columns,
            width,
            places,
            floor,
            ((floor + per_person) / records + reach) * (1 + ROUNDING_MARGIN),
        )

    @property
    def drawn(self) -> int:
        """How many numbers carry noise."""
        return self.columns * (self.width + self.places)

    @property
    def norm(self) -> Norm:
        return self.base.norm

    @property
    def sensitivity(self) -> float:
        return self.base.sensitivity

    @property
    def noise_scale(self) -> float:
        return self.base.noise_scale

    @property
    def variance(self) -> float:
        return self.base.variance

    @property
    def event(self) -> Event:
        return self.base.event

    def rounding(self, coordinates: int) -> float:
        return self.base.rounding(max(coordinates, self.drawn))

    def tail(self, probability: float, coordinates: int) -> float:
        return self.base.tail(probability, max(coordinates, self.drawn))

    def norm_tail(self, probability: float, coordinates: int) -> float:
        return self.base.norm_tail(probability, max(coordinates, self.drawn))

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Return noisy shares on fixed places; in columns whose names are asked, names that passed replace them."""
        checked = require_bounded(bounded, self.norm, self.sensitivity)
        named = checked.named if isinstance(checked, NamedCounts) else ()
        candidates = [self._candidates(counts) for counts in named]
        value = np.zeros((*checked.value.shape[:-1], self.drawn))
        fixed = checked.value.shape[-1]
        value[..., :fixed] = checked.value
        starts = [fixed + column * self.places for column in range(self.columns)]
        for start, name_counts in zip(starts, candidates, strict=False):
            value[..., start : start + len(name_counts)] = [count / self.records for count in name_counts.values()]
        noisy = self.base.release(Bounded(value, checked.sensitivity, checked.norm), noise)
        answer = np.ascontiguousarray(noisy[..., :fixed])
        for column, name_counts in enumerate(candidates):
            if named[column] is None:
                continue
            for replicate in np.ndindex(answer.shape[:-1]):
                shares = noisy[replicate][starts[column] : starts[column] + len(name_counts)]
                answer[replicate][column * self.width + 2 : (column + 1) * self.width] = self._names_above_threshold(
                    list(name_counts), shares
                )
        return answer

    def _candidates(self, counts: Mapping[str, int] | None) -> dict[str, int]:
        return {name: count for name, count in sorted((counts or {}).items()) if count > self.floor}

    def _names_above_threshold(self, names: list[str], shares: Floats) -> Floats:
        """Return the names that reach the threshold, in alphabetical order, padded with zeros to a fixed length."""
        found = np.zeros(self.width - 2)
        above = np.flatnonzero(shares >= self.threshold)
        largest = above[np.argsort(-shares[above], kind="stable")][:MAX_NAMES]
        for place, which in enumerate(sorted(largest.tolist())):
            code = encode_name(names[which])
            if code is not None:
                found[place * NUMBERS_PER_NAME : (place + 1) * NUMBERS_PER_NAME] = [shares[which], *code]
        return found
