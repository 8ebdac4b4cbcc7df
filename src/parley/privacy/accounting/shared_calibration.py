"""Calibrates one noise for all, for the owner and the record that move the sum most."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from parley.errors import TermsError
from parley.privacy.accounting.series import SERIES
from parley.privacy.mechanisms import Norm
from parley.privacy.mechanisms.shared_noise import (
    MAX_DISTANCE,
    MAX_EXPONENT,
    MAX_SUM,
    MIN_EXPONENT,
    Recipe,
    SharedNoise,
    make_recipe,
    noise_variance,
    recipe_scale,
)

ROUNDING_DIVISOR = 256  # rounding to the grid takes at most this part of what the noise covers
ROUNDING_SLACK = Fraction(1, 2**50)  # more than the roundings of units and factor


@dataclass(frozen=True)
class Span:
    """One owner's answers: means over `records`, of this sensitivity, at most `extent` in the same norm and `largest`
    in a coordinate. `roundings` is how often a person's move pays for rounding an answer: the number of answers over
    which it may be spread (`pieces`); two where records are drawn in secret, since half the move is rounded like all of
    it."""

    records: int
    sensitivity: float
    extent: float
    largest: float
    roundings: int = 1

    @property
    def reach(self) -> Fraction:
        """How far one person moves the owner's sum before it is rounded to the grid. The product with the factor is
        rounded in both tables, by a relative 2^-53, in every answer that moves."""
        return (
            self.records
            * (Fraction(self.sensitivity) + self.roundings * Fraction(self.extent) / 2**52)
            * (1 + ROUNDING_SLACK)
        )


@dataclass(frozen=True)
class Spans:
    """The farthest that one person moves any owner's sum, and the largest size of a coordinate of everybody's sum."""

    reach: Fraction
    largest: float

    @classmethod
    def from_spans(cls, spans: Iterable[Span]) -> "Spans":
        found = list(spans)
        return cls(max(span.reach for span in found), sum(span.records * span.largest for span in found))


@dataclass(frozen=True)
class SharedLaw:
    """The law of one noise for all answers of a stage, and its unit: the same for every owner."""

    recipe: Recipe
    units: float
    moved: float
    size: int
    norm: Norm
    delta: Fraction  # at which it was calibrated
    draws: int = 1  # how many such numbers the sum carries; each alone is enough
    paired: bool = False  # whether two hosts draw the number together, and each adds a low part

    @property
    def sum_variance(self) -> float:
        """Variance of the noise in one coordinate of the sum."""
        return noise_variance(self.recipe, self.draws, self.paired) / self.units**2

    def over(self, records: int, sensitivity: float) -> SharedNoise:
        """Return the noise for an owner whose answers are means over `records`."""
        facts = self.recipe, self.units, self.moved, self.size, records, sensitivity, self.norm
        return SharedNoise(*facts, self.draws, self.paired)


def shared_law(
    mechanism: str,
    epsilon: Fraction,
    delta: Fraction,
    count: int,
    size: int,
    spans: Spans,
    copies: int = 1,
    rate: float = 1.0,
    pieces: int = 1,
    draws: int = 1,
    paired: bool = False,
) -> SharedLaw:
    """Return the least noise with which `count` openings of the owners' sum are (epsilon, delta)-DP for every person.

    Formal guarantee: for two neighbouring tables an owner's encoded answers differ by at most units reach + r in the
    mechanism's norm, where r = size (L1) or sqrt(size) (L2): each coordinate of either answer is rounded by at most
    half a unit. A person's records with `copies` owners move the sum by at most copies times that, whoever is in it:
    `moved`. The law's scale covers it. Where a release is made in parts of which a person moves up to `pieces` (by
    `reach` in all), r is counted that often. Where owners draw records at a `rate`, r is counted twice: a record that
    is drawn or not moves the sum by at most half of `moved`. Each of several `draws` is as large as a single one,
    because someone who made all others and takes them off is left with one. So is a host that takes off its low part of
    a `paired` noise. The total variation of finitely many random
    bits is not included: the caller takes it off delta first (`bits_delta`).

    >>> law = shared_law("laplace", Fraction(1), Fraction(0), 1, 2, Spans.from_spans([Span(100, 0.02, 1.0, 1.0)]))
    >>> 2.0 < law.recipe.scale / law.units < 2.02
    True
    """
    kind = SERIES[mechanism]
    rounding = Fraction(size) if kind.norm == "l1" else Fraction(math.sqrt(size)) * (1 + ROUNDING_SLACK)
    rounding *= pieces if rate == 1 else 2
    # units of sensitivity by one unit of scale
    covers = kind.covered(epsilon, delta, count, *([] if rate == 1 else [rate]))

    def scale(exponent: int) -> Fraction:
        return Fraction(recipe_scale(kind.law, exponent))

    sufficient_exponents = (
        n for n in range(MIN_EXPONENT, MAX_EXPONENT) if scale(n) * covers >= copies * rounding * (ROUNDING_DIVISOR + 1)
    )
    exponent = next(sufficient_exponents, MAX_EXPONENT)
    recipe = make_recipe(kind.law, exponent)
    units = float(max((scale(exponent) * covers / copies - rounding) / spans.reach * (1 - ROUNDING_SLACK), Fraction(0)))
    reach = draws * recipe.reach + paired * recipe.low_reach
    if not (0 < units < math.inf and spans.largest * units + reach < MAX_SUM):
        raise TermsError(
            "privacy.noise: the sum of the answers plus its noise does not fit in 64 bits; use fewer rounds, fewer "
            "parameters or a larger epsilon"
        )
    moved = float(copies * (Fraction(units) * spans.reach + rounding) * (1 + ROUNDING_SLACK))
    return SharedLaw(recipe, units, moved, size, kind.norm, delta, draws, paired)


def bits_delta(epsilon: Fraction, numbers: int) -> Fraction:
    """Return what finitely many random bits cost for this many numbers: (1 + e^epsilon) times their total variation,
    rounded up. If M is within t of M' in total variation and M' is (epsilon, d)-DP, then M is (epsilon, d + (1 +
    e^epsilon) t)-DP."""
    if epsilon > 600:
        return Fraction(1)
    return Fraction((1 + math.exp(float(epsilon))) * MAX_DISTANCE) * numbers * (1 + Fraction(1, 10**9))


def most_epsilon(delta: Fraction, numbers: int) -> Fraction:
    """Return the largest epsilon at which the bits of this many numbers cost at most half of delta; 0 if there is none.

    >>> bits_delta(most_epsilon(Fraction(1, 10**6), 1000), 1000) <= Fraction(1, 2 * 10**6)
    True
    """
    ratio = float(delta / 2) / (MAX_DISTANCE * numbers) * (1 - 1e-6)
    return Fraction(math.log(ratio - 1)) if ratio > 2 else Fraction(0)
