"""A recipe's law as circuits draw it: small numbers from public tables. Three hosts draw all of it together. Two hosts
draw the number on top together, and each draws the low part alone.

A secret place and a secret word draw a number from a table (Walker's alias method): one comparison draws a number of up
to 2^7 values, where comparing with each threshold would take one for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np

from parley.privacy.mechanisms.exact_samplers import DrawWords, Integers, Words, random_words
from parley.privacy.mechanisms.shared_noise import (
    PAIRED_LAPLACE_SCALE,
    UNIFORM_TERMS,
    WORD_BITS,
    Law,
    Recipe,
    discrete_gaussian,
    draw_secretly,
    exp_decimal,
    make_recipe,
    with_sixty_digits,
)

PLACE_BITS = 7  # binary digits of a place in a table
PLACES = 1 << PLACE_BITS


@dataclass(frozen=True)
class AliasTable:
    """A number below 2^7: with a uniform place and a uniform word r it is the place if r + thresholds[place] >= 2^64,
    else aliases[place].

    Formal guarantee: its probabilities are whole multiples of 2^-71, and that of each number but 0 is within 2^-72 of
    what its maker asked for. So the total variation between the two laws is below 2^-65.
    """

    thresholds: tuple[int, ...]
    aliases: tuple[int, ...]

    @classmethod
    def from_chances(cls, chances: Sequence[Decimal]) -> "AliasTable":
        """Make the table of numbers 0, 1, ... with these probabilities; 0 takes up what rounding leaves. The
        probabilities need 60 digits (`shared_noise.with_sixty_digits`)."""
        full = 1 << WORD_BITS
        due = [int((chance * PLACES * full).to_integral_value()) for chance in chances]
        due += [0] * (PLACES - len(due))
        due[0] = PLACES * full - sum(due[1:])
        thresholds, aliases = [0] * PLACES, list(range(PLACES))
        small = [place for place in range(PLACES) if due[place] < full]
        large = [place for place in range(PLACES) if due[place] >= full]
        while small:
            place, giver = small.pop(), large[-1]
            thresholds[place], aliases[place] = due[place], giver
            due[giver] -= full - due[place]
            if due[giver] < full:
                small.append(large.pop())
        return cls(tuple(thresholds), tuple(aliases))  # a place that is still full is its own alias

    def numbers(self, places: Integers, words: Words) -> Integers:
        """Return the numbers that follow from places and words."""
        thresholds = np.array(self.thresholds, dtype=np.uint64)[places]
        accepted = words > ~thresholds  # r + t >= 2^64
        return np.where(accepted, places, np.array(self.aliases)[places])


@dataclass(frozen=True)
class DigitTable:
    """`bits` binary digits of a number, from the digit of weight 2^`exponent` up, drawn from a table; added or
    subtracted."""

    table: AliasTable
    bits: int
    exponent: int
    subtracted: bool


@dataclass(frozen=True)
class TabledRecipe:
    """X = N (1 - 2 sign) magnitude + low part. The sign is a fair bit, the magnitude a number of the table `top`, and N
    = `Recipe.top`. The low part is the sum of `uniforms` uniform numbers below N, `digits` and `offset`.

    Formal guarantee: X has the law of `recipe`, up to a total variation of `Recipe.distance`. If each of two hosts adds
    a low part of its own, the sum less one of the low parts has that law: whoever knows one host's low part still faces
    one whole noise.

    Proof. Gaussian: `recipe` is N Y + U_1 + ... + U_k + offset; Y is the signed magnitude. Laplace of scale b = 2 N: a
    geometric number is N times one of scale 2 plus a number of its low digits, which are independent of it and, cut
    into groups, of each other, since e^(-g/b) is a product over groups of digits. The signed magnitude is the
    difference of two of the former, the low part that of two of the latter. (A magnitude of 0 needs no sign.) Each
    table adds less than 2^-65 and there are fewer of them than of the thresholds for which `Recipe.distance` counts
    2^-65 each; what the table on top cuts off is within the recipe's tail.
    """

    recipe: Recipe
    top: AliasTable
    digits: tuple[DigitTable, ...]

    @property
    def uniforms(self) -> int:
        """How many uniform numbers below N the low part has."""
        return UNIFORM_TERMS if self.recipe.law == Law.GAUSSIAN else 0

    def draw_low(self, size: int, words: DrawWords = random_words) -> Integers:
        """Draw one host's own low parts."""
        return draw_secretly(self.recipe.low, size, words)


@lru_cache(maxsize=64)
@with_sixty_digits
def tabled_recipe(law: Law, exponent: int) -> TabledRecipe:
    """Return the recipe of this law and size, as circuits draw it.

    >>> made = tabled_recipe(Law.LAPLACE, 10)
    >>> made.recipe.top, len(made.recipe.low.singles), made.recipe.low_variance < 0.021 * made.recipe.variance
    (512, 18, True)
    >>> [(each.bits, each.exponent, each.subtracted) for each in made.digits]
    [(7, 0, False), (2, 7, False), (7, 0, True), (2, 7, True)]
    """
    recipe = make_recipe(law, exponent)
    top = AliasTable.from_chances(_gaussian_chances() if law == Law.GAUSSIAN else _laplace_chances())
    return TabledRecipe(recipe, top, () if law == Law.GAUSSIAN else _geometric_digits(exponent))


def _gaussian_chances() -> list[Decimal]:
    weights, total, thresholds = discrete_gaussian()
    return [weights[0] / total] + [2 * weight / total for weight in weights[1 : len(thresholds) + 1]]


def _laplace_chances() -> list[Decimal]:
    ratio = exp_decimal(-Decimal(1) / PAIRED_LAPLACE_SCALE)
    lowest = (1 - ratio) / (1 + ratio)
    return [lowest] + [2 * lowest * ratio**place for place in range(1, PLACES)]


def _geometric_digits(exponent: int) -> tuple[DigitTable, ...]:
    """Return tables of the digits below N of two geometric numbers, P(g) proportional to e^(-g/2^exponent)."""
    made = []
    length = exponent - 1  # digits below N = 2^(exponent - 1)
    for start in range(0, length, PLACE_BITS):
        bits = min(PLACE_BITS, length - start)
        weights = [exp_decimal(-Decimal(v) * Decimal(2) ** (start - exponent)) for v in range(1 << bits)]
        made.append((AliasTable.from_chances([weight / sum(weights) for weight in weights]), bits, start))
    return tuple(DigitTable(*each, subtracted) for subtracted in (False, True) for each in made)
