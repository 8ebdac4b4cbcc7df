"""Randomised response: each record answers truly or at random, so no listener need be trusted (A section 3.3)."""

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np

from parley.errors import GuaranteeError, SettingError
from parley.privacy.events import Norm, PureEvent
from parley.privacy.mechanisms.exact_samplers import DrawWords, SeededWords, random_words
from parley.privacy.mechanisms.geometric import whole_counts
from parley.privacy.mechanisms.mechanism import Bounded, require_bounded
from parley.privacy.mechanisms.noise import Integers, Noise
from parley.validate import Floats

WORD_COUNT = 2**64  # different random words
MAX_EPSILON = Fraction(1000)  # an epsilon by which all answers but one of 2^64 are meant
BATCH_RECORDS = 2**20  # records whose words are drawn together
_DECIMAL_CONTEXT = Context(prec=60, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class RandomisedResponse:
    """Each of n records answers with one of m names: its own with probability w = truthful/2^64, else a uniform one of
    the m. The release is the shares that follow from all answers, without their bias.

    Formal guarantee: an answer is r with probability w + (1 - w)/m if r is the truth and (1 - w)/m if not, exactly:
    words are drawn uniformly and rejected where m does not divide their number. So for one record the largest ratio of
    probabilities is 1 + m w/(1 - w) (`odds`), and it is reached. Answers of different records are independent, so a
    person of k records costs k ln(odds), pure. This holds of every single answer, whoever collects them; shares are a
    function of them.

    >>> RandomisedResponse(2**63, cells=2, records=10, per_person=1, sensitivity=0.2).odds  # a coin, and a second one
    Fraction(3, 1)
    """

    norm: ClassVar[Norm] = "l1"

    truthful: int
    cells: int  # m
    records: int  # n
    per_person: int  # k
    sensitivity: float  # of shares

    @classmethod
    def calibrate(
        cls, epsilon: Fraction, cells: int, records: int, per_person: int, sensitivity: float
    ) -> "RandomisedResponse":
        """Return the most truthful answers that cost a person at most `epsilon` a release, less 2^-50 of it."""
        epsilon_per_record = min(epsilon / per_person * (1 - Fraction(1, 2**50)), MAX_EPSILON)
        exponent = _DECIMAL_CONTEXT.divide(
            Decimal(epsilon_per_record.numerator), Decimal(epsilon_per_record.denominator)
        )
        odds_minus_one = (
            Fraction(exponent.exp(_DECIMAL_CONTEXT)) * (1 - Fraction(1, 10**50)) - 1
        )  # e^eps - 1, and not more
        truthful = min(math.floor(odds_minus_one / (odds_minus_one + cells) * WORD_COUNT), WORD_COUNT - 1)
        if truthful < 1:
            raise SettingError("epsilon: too small for randomised response; use a larger epsilon")
        return cls(truthful, cells, records, per_person, sensitivity)

    @property
    def odds(self) -> Fraction:
        """How many times likelier an answer is where it is the truth."""
        return 1 + Fraction(self.cells * self.truthful, WORD_COUNT - self.truthful)

    @property
    def share(self) -> float:
        """w, the share of answers that are meant."""
        return self.truthful / WORD_COUNT

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Return the shares that all records' answers lead to; beside a single share, the rest are the other answer."""
        value = require_bounded(bounded, self.norm, self.sensitivity).value
        counts = whole_counts(value, self.records)
        if counts.shape[-1] == 1:
            counts = np.concatenate([counts, self.records - counts], axis=-1)
        if counts.shape[-1] != self.cells or counts.min() < 0 or not np.all(counts.sum(axis=-1) == self.records):
            raise GuaranteeError(
                "value: expected fractions of records that count every record once; nothing was released"
            )
        draw: DrawWords = random_words if noise.safe else SeededWords(noise.seed())
        flat = [self._answers(each, draw) for each in counts.reshape(-1, self.cells)]
        shares = np.array(flat).reshape(counts.shape) / self.records
        return np.ascontiguousarray((shares - (1 - self.share) / self.cells)[..., : value.shape[-1]] / self.share)

    def _answers(self, counts: Integers, draw: DrawWords) -> Integers:
        """Return how many records answer with each name, given how many have it."""
        truth, found = np.repeat(np.arange(self.cells), counts), np.zeros(self.cells, dtype=np.int64)
        for start in range(0, self.records, BATCH_RECORDS):
            found += np.bincount(self.answer(truth[start : start + BATCH_RECORDS], draw), minlength=self.cells)
        return found

    def answer(self, truth: Integers, draw: DrawWords = random_words) -> Integers:
        """Return the answers of records with these names [n], places from 0 on; a person's own device may draw them as
        well. Every call draws again, and costs a record as much as the first: draw once, and keep the answer."""
        if (
            truth.ndim != 1
            or truth.dtype.kind not in "iu"
            or (len(truth) and not 0 <= truth.min() <= truth.max() < self.cells)
        ):
            raise SettingError(f"truth: expected an integer from 0 to {self.cells - 1} for every record")
        other = draw(len(truth)) >= np.uint64(self.truthful)
        answers = truth.copy()
        answers[other] = draw_uniform(self.cells, int(np.count_nonzero(other)), draw)
        return answers

    def rounding(self, coordinates: int) -> float:
        """Return 0: counts are whole numbers."""
        return 0.0

    @property
    def noise_scale(self) -> float:
        """The largest deviation of a released share."""
        return math.sqrt(self.variance)

    @property
    def variance(self) -> float:
        """The most that a released share varies: n answers of the larger variance that one can have, over (n w)^2."""
        meant = Fraction(self.truthful, WORD_COUNT)
        other = (1 - meant) / self.cells
        each = max(p * (1 - p) for p in (other, meant + other))
        return float(each / (self.records * meant**2))

    def tail(self, probability: float, coordinates: int) -> float:
        """Return the error that any of `coordinates` shares exceeds with at most this probability (Hoeffding)."""
        return math.sqrt(math.log(2 * coordinates / probability) / (2 * self.records)) / self.share

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """Return the error of all of them together, in L1, exceeded with at most this probability."""
        return coordinates * self.tail(probability, coordinates)

    @property
    def event(self) -> PureEvent:
        """The fact that the ledger stores, rounded up."""
        return PureEvent(1 / (self.per_person * math.log1p(float(self.odds - 1)) * (1 + 2.0**-50)))


def draw_uniform(names: int, size: int, draw: DrawWords) -> Integers:
    """Return `size` independent uniform numbers below `names`; words beyond the last whole multiple are drawn again."""
    last, found = WORD_COUNT // names * names, np.zeros(0, dtype=np.int64)
    while len(found) < size:
        words = draw(size - len(found))
        kept = words if last == WORD_COUNT else words[words < np.uint64(last)]
        found = np.concatenate([found, (kept % np.uint64(names)).astype(np.int64)])
    return found
