"""A recipe's law in two parts: a small number with a sign, which two hosts draw together and neither knows, and a low
part, which each of them draws alone."""

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np

from parley.privacy.mechanisms.exact_samplers import DrawWords, Integers, Words, random_words
from parley.privacy.mechanisms.shared_noise import (
    PAIRED_LAPLACE_SCALE,
    WORD_BITS,
    Law,
    Recipe,
    discrete_gaussian,
    draw_secretly,
    exp_decimal,
    make_recipe,
    with_sixty_digits,
)

INDEX_BITS = 7  # binary digits of a place in the table
PLACES = 1 << INDEX_BITS


@dataclass(frozen=True)
class PairedRecipe:
    """X = N (1 - 2 sign) magnitude + low_0 + low_1. A place i below 2^7, a word r and a sign are uniform. The
    magnitude is i if r + thresholds[i] >= 2^64, else aliases[i] (the alias method). N is `Recipe.top`; each host draws
    its own `low`.

    Formal guarantee: X less one of the low parts has the law of `recipe`, up to a total variation of
    `Recipe.distance`. So whoever knows one host's low part still faces one whole noise of that law.

    Proof. The magnitude's probabilities are whole multiples of 2^-71, each within 2^-71 of its law's, except that of 0,
    which also has what is cut off. Gaussian: `recipe` is N Y + U_1 + ... + U_k + offset; Y is the signed magnitude, the
    rest the low part. Laplace of scale b = 2 N: a geometric number is N times one of scale 2 plus a number of its low
    digits, which are independent of it. The signed magnitude is the difference of two of the former, the low part that
    of two of the latter. (A magnitude of 0 needs no sign.)
    """

    recipe: Recipe
    thresholds: tuple[int, ...]
    aliases: tuple[int, ...]

    def magnitudes(self, place: Integers, word: Words) -> Integers:
        """Return the magnitudes that follow from places and words."""
        thresholds = np.array(self.thresholds, dtype=np.uint64)[place]
        accepted = word > ~thresholds  # r + t >= 2^64
        return np.where(accepted, place, np.array(self.aliases)[place])

    def draw_low(self, size: int, words: DrawWords = random_words) -> Integers:
        """Draw one host's own low parts."""
        return draw_secretly(self.recipe.low, size, words)


@lru_cache(maxsize=64)
@with_sixty_digits
def paired_recipe(law: Law, exponent: int) -> PairedRecipe:
    """Return the recipe of this law and size for two hosts that draw together.

    >>> made = paired_recipe(Law.LAPLACE, 10)
    >>> made.recipe.top, len(made.recipe.low.singles), made.recipe.low_variance < 0.021 * made.recipe.variance
    (512, 18, True)
    """
    thresholds, aliases = alias_table(_gaussian_chances() if law == Law.GAUSSIAN else _laplace_chances())
    return PairedRecipe(make_recipe(law, exponent), thresholds, aliases)


def alias_table(chances: list[Decimal]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (thresholds, aliases) of 2^7 places whose magnitudes have these chances, rounded to multiples of 2^-71;
    magnitude 0 takes up the rest. The chances need 60 digits (`with_sixty_digits`)."""
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
    return tuple(thresholds), tuple(aliases)  # a place that is still full is its own alias


def _gaussian_chances() -> list[Decimal]:
    weights, total, thresholds = discrete_gaussian()
    return [weights[0] / total] + [2 * weight / total for weight in weights[1 : len(thresholds) + 1]]


def _laplace_chances() -> list[Decimal]:
    ratio = exp_decimal(-Decimal(1) / PAIRED_LAPLACE_SCALE)
    lowest = (1 - ratio) / (1 + ratio)
    return [lowest] + [2 * lowest * ratio**place for place in range(1, PLACES)]
