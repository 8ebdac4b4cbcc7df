"""One noise for the sum of all owners' answers, on a grid of whole numbers (Chase et al. 2017): drawn once by three
hosts or by two together, or once by each of two hosts. Each owner encodes its bounded answer, as a sum over its
records, in whole grid units modulo 2^64. A learner sees only the sum of these plus one number of the recipe's law. Two
hosts that draw alone add two numbers; two that draw together add one and a second low part (`tabled_recipe`). A dropout
changes the number of records, not the noise. Recipes have 2^exponent units; `SharedNoise` chooses the unit to fit."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from enum import StrEnum
from functools import cached_property, lru_cache, wraps
from typing import ParamSpec, TypeVar

import numpy as np
from scipy.special import gammainccinv

from parley.errors import GuaranteeError, SettingError
from parley.privacy.events import Event, GaussianEvent, LaplaceEvent, Norm
from parley.privacy.mechanisms.exact_samplers import DrawWords, Integers, Words, random_words
from parley.privacy.mechanisms.mechanism import Bounded, require_bounded
from parley.privacy.mechanisms.noise import Noise
from parley.validate import Floats

WORD_BITS = 64  # binary digits of a threshold
LADDER_SIGMA, LADDER_LENGTH = 10, 92  # the discrete Gaussian on top: its deviation, and how far it reaches
UNIFORM_TERMS = 14  # uniform numbers below it; an even number
PAIRED_LAPLACE_SCALE = 2  # of the small number that two hosts draw together
ROUNDING_DEVIATION = 1.6  # of the normal law that the whole one is a randomised rounding of, in grid units
REACH_BITS = 6  # a geometric number goes up to 2^6 times its scale
MIN_EXPONENT, MAX_EXPONENT = 3, 48  # exponents: below, the grid shows; beyond, sums and noise do not fit 64 bits
MAX_DISTANCE = 2.0**-58  # that no recipe exceeds

_DECIMAL_CONTEXT = Context(prec=60)

P = ParamSpec("P")
T = TypeVar("T")


def with_sixty_digits(make: Callable[P, T]) -> Callable[P, T]:
    """Compute decimals with 60 digits, whatever precision the caller's thread has chosen."""

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        with localcontext(_DECIMAL_CONTEXT):
            return make(*args, **kwargs)

    return made


class Law(StrEnum):
    """The laws of hosts' noise, as their messages name them."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True)
class Recipe:
    """X = offset + sum of weight [r < threshold], one random word r each, + (sign) step #{t in ladder: r < t}, one word
    and a fair sign for all of it, + sum of the `fair` weights whose fair bits are 1. Thresholds are whole numbers up to
    2^64, words below that.

    Formal guarantee: X has the law that its maker claims, up to a total variation of `distance`, at most 2^-58.
    """

    law: Law
    exponent: int
    singles: tuple[tuple[int, int], ...]  # threshold, weight
    ladder: tuple[int, ...]
    step: int
    fair: tuple[int, ...]
    offset: int
    # of the law claimed: Laplace's scale; the deviation of the normal law of which a release is a post-processing
    scale: float
    variance: float
    distance: float

    @property
    def reach(self) -> int:
        """The largest size that X can have."""
        singles = max(sum(w for _, w in self.singles if w > 0), -sum(w for _, w in self.singles if w < 0))
        return singles + self.step * len(self.ladder) + max(sum(self.fair) + self.offset, -self.offset)

    @property
    def top(self) -> int:
        """N: a number of this law is N times a small number plus an independent low part (`tabled_recipe`)."""
        return self.step or 2**self.exponent // PAIRED_LAPLACE_SCALE

    @property
    def low(self) -> "Recipe":
        """The low part alone; `scale`, `variance` and `distance` stay those of the whole."""
        return replace(self, ladder=(), singles=tuple(each for each in self.singles if abs(each[1]) < self.top))

    @property
    def low_variance(self) -> float:
        """Variance of the low part, rounded up: its numbers are close to uniform below N."""
        return (UNIFORM_TERMS if self.law == Law.GAUSSIAN else 2) * self.top**2 / 12

    @property
    def low_reach(self) -> int:
        """The largest size of the low part."""
        return self.top * (UNIFORM_TERMS // 2 if self.law == Law.GAUSSIAN else 1)


def recipe_scale(law: Law, exponent: int) -> float:
    """Return the scale of the recipe of this size, without making it.

    >>> recipe_scale(Law.GAUSSIAN, 8) == make_recipe(Law.GAUSSIAN, 8).scale
    True
    """
    return 2.0**exponent if law == Law.LAPLACE else math.sqrt((LADDER_SIGMA * 2**exponent) ** 2 - ROUNDING_DEVIATION**2)


def make_recipe(law: Law, exponent: int) -> Recipe:
    """Return the recipe of this law in this size.

    >>> make_recipe(Law.LAPLACE, 10).scale, round(make_recipe(Law.GAUSSIAN, 8).scale)
    (1024.0, 2560)
    """
    if not MIN_EXPONENT <= exponent <= MAX_EXPONENT:
        raise SettingError(
            f"noise: a scale of 2^{exponent} grid units does not fit into 64 bits; use fewer rounds or coordinates"
        )
    return laplace_recipe(exponent) if law == Law.LAPLACE else gaussian_recipe(exponent)


@lru_cache(maxsize=64)
@with_sixty_digits
def laplace_recipe(exponent: int) -> Recipe:
    """Return discrete Laplace noise of scale b = 2^exponent, P(k) proportional to e^(-|k|/b): the difference of two
    geometric numbers, P(g) proportional to e^(-g/b). Digit i of one is 1 with probability 1/(1 + e^(2^i/b)),
    independently of the others, because e^(-g/b) is a product over the digits of g."""
    digits = exponent + REACH_BITS
    bits = [_threshold(1 / (1 + exp_decimal(Decimal(2) ** (i - exponent)))) for i in range(digits)]
    b = recipe_scale(Law.LAPLACE, exponent)
    return Recipe(
        law=Law.LAPLACE,
        exponent=exponent,
        singles=tuple((t, sign << i) if sign > 0 else (t, -(1 << i)) for sign in (1, -1) for i, t in enumerate(bits)),
        ladder=(),
        step=0,
        fair=(),
        offset=0,
        scale=b,
        variance=_laplace_variance(b),
        distance=2 * (digits * 2.0 ** -(WORD_BITS + 1) + math.exp(-(2.0**REACH_BITS))) * (1 + 1e-6),
    )


@lru_cache(maxsize=64)
@with_sixty_digits
def gaussian_recipe(exponent: int) -> Recipe:
    """Return N Y + U_1 + ... + U_k - k (N - 1)/2, N = 2^exponent: Y discrete Gaussian of deviation 10, the U uniform
    below N.

    Claimed law: whole numbers x added to a whole value q are, up to `distance`, a post-processing of q + a normal
    number of deviation `scale` = sqrt((10 N)^2 - 1.6^2). Proof, for N Y + U and its characteristic function phi(N t)
    D(t)^k:

    1. By Poisson's formula phi(N t) is a sum of Gaussian bumps around 2 pi j/N. Those at multiples of 2 pi are the
      characteristic function of the discrete Gaussian of deviation 10 N on the whole numbers. The others stand where D,
      the uniform law's, has zeros: D^k leaves almost nothing of them (`_smoothing_bound`).
    2. The discrete Gaussian of deviation s is, up to a relative error of 2 d/(1 - d), d = 2 e^(-2 pi^2 1.6^2), what
      randomised rounding makes of a normal number z of deviation sqrt(s^2 - 1.6^2): a whole x with probability
      proportional to e^(-(x - z)^2/(2 1.6^2)). Rounding q + z instead moves x by exactly q.
    3. The independent U are added afterwards.
    """
    n, k = 2**exponent, UNIFORM_TERMS
    weights, total, thresholds = discrete_gaussian()
    blur = 2 * math.exp(-2 * math.pi**2 * ROUNDING_DEVIATION**2) * 1.0001
    tail_mass = float(2 * sum(weights[LADDER_LENGTH + 1 :]) / total)
    return Recipe(
        law=Law.GAUSSIAN,
        exponent=exponent,
        singles=(),
        ladder=thresholds,
        step=n,
        fair=tuple(2**i for i in range(exponent) for _ in range(k)),
        offset=-k * (n - 1) // 2,
        scale=recipe_scale(Law.GAUSSIAN, exponent),
        variance=n * n * float(2 * sum(w * j * j for j, w in enumerate(weights)) / total) + k * (n * n - 1) / 12,
        distance=(LADDER_LENGTH * 2.0 ** -(WORD_BITS + 1) + tail_mass + 4 * blur + _smoothing_bound(exponent))
        * (1 + 1e-6),
    )


@lru_cache(maxsize=1)
@with_sixty_digits
def discrete_gaussian() -> tuple[list[Decimal], Decimal, tuple[int, ...]]:
    """Return (weights of 0, 1, 2, ..., the weight of all whole numbers together, thresholds of P(|Y| >= j))."""
    weights = [exp_decimal(-Decimal(j * j) / (2 * LADDER_SIGMA * LADDER_SIGMA)) for j in range(4 * LADDER_LENGTH)]
    total = weights[0] + 2 * sum(weights[1:])
    return weights, total, tuple(_threshold(2 * sum(weights[j:]) / total) for j in range(1, LADDER_LENGTH + 1))


def draw_plainly(recipe: Recipe, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
    """Draw numbers of this law from one generator, for studies: nothing of this may be released."""
    if recipe.law == Law.LAPLACE:
        stop = -np.expm1(-1 / recipe.scale)
        return np.asarray(rng.geometric(stop, size=shape) - rng.geometric(stop, size=shape))
    drawn = rng.integers(0, 2**WORD_BITS, size=shape, dtype=np.uint64, endpoint=False)
    steps = _count_thresholds_above(recipe.ladder, drawn) * np.where(
        rng.integers(0, 2, size=shape) == 1, -recipe.step, recipe.step
    )
    return np.asarray(steps + rng.integers(0, recipe.step, size=(UNIFORM_TERMS, *shape)).sum(axis=0) + recipe.offset)


def draw_low_plainly(recipe: Recipe, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
    """Draw low parts of this law from one generator, for studies: nothing of this may be released."""
    if recipe.law == Law.GAUSSIAN:
        return np.asarray(rng.integers(0, recipe.step, size=(UNIFORM_TERMS, *shape)).sum(axis=0) + recipe.offset)
    first, second = (rng.geometric(-np.expm1(-1 / recipe.scale), size=shape) - 1 for _ in range(2))
    return np.asarray(first % recipe.top - second % recipe.top)


def draw_secretly(recipe: Recipe, size: int, words: DrawWords = random_words) -> Integers:
    """Draw numbers of the recipe's law from the operating system's random words, for one host's own noise.

    Formal guarantee: independent, each exactly the recipe's X. There is a word for each threshold, one for the ladder
    and one for its sign; each uniform number below N is the upper bits of a word, as many as its fair bits are.
    """
    total = np.full(size, recipe.offset, dtype=np.int64)
    for threshold, weight in recipe.singles:
        total += weight * (words(size) < threshold)
    if recipe.ladder:
        steps = _count_thresholds_above(recipe.ladder, words(size))
        total += recipe.step * np.where(words(size) >> np.uint64(WORD_BITS - 1) == 1, -steps, steps)
    for _ in range(UNIFORM_TERMS if recipe.fair else 0):
        total += (words(size) >> np.uint64(WORD_BITS - recipe.exponent)).astype(np.int64)
    return total


def _count_thresholds_above(ladder: tuple[int, ...], words: Words) -> Integers:
    """Count the thresholds of a descending ladder that lie above each word."""
    ascending = np.array(ladder[::-1], dtype=np.uint64)
    return np.asarray(len(ladder) - np.searchsorted(ascending, words, side="right"))


def _smoothing_bound(exponent: int) -> float:
    """Bound the total variation between N Y + U and (the discrete Gaussian of deviation 10 N) + U: half the L1 norm of
    the difference is at most half of sqrt(window) times its L2 norm, plus what lies beyond the window. By Parseval and
    the triangle inequality the L2 norm is at most the sum over j of those of the bumps. The square of each is, with u =
    N (t - 2 pi j/N), (2 pi N)^-1 times the integral of e^(-100 u^2) |D|^(2k), |D| = |sin(u/2)|/(N |sin(t/2)|)."""
    n, k = 2**exponent, UNIFORM_TERMS
    u = np.linspace(-math.pi, math.pi, 4001)
    bump, rise = np.exp(-((LADDER_SIGMA * u) ** 2)), np.abs(np.sin(u / 2))
    norms = 0.0
    for j in range(1, min(n // 2, 40) + 1):
        t = (2 * math.pi * j + u) / n
        ratio = np.minimum(1.0, rise / np.maximum(n * np.abs(np.sin(t / 2)), 1e-300))
        norms += 2 * math.sqrt(float(np.trapezoid(bump * ratio ** (2 * k), u)) / (2 * math.pi * n))
    first = float(np.trapezoid(bump * (np.abs(u) / 2) ** (2 * k), u))
    far = _far_bumps() if n // 2 > 40 else 0.0
    norms += 2 * far * math.sqrt(first / (2 * math.pi * n))
    window = 2 * n * (LADDER_SIGMA * LADDER_SIGMA + k) + 1
    return 1.01 * (0.5 * math.sqrt(window) * norms + 4 * math.exp(-(LADDER_SIGMA**2) / 2))


@lru_cache(maxsize=1)
def _far_bumps() -> float:
    """Bound what all bumps beyond the fortieth have together: N |sin(t/2)| >= 2j - 1."""
    return sum((2 * j - 1.0) ** -UNIFORM_TERMS for j in range(41, 10_000))


def _laplace_variance(b: float) -> float:
    """Return 2 q/(1 - q)^2 with q = e^(-1/b)."""
    return 2 * math.exp(-1 / b) / math.expm1(-1 / b) ** 2


def exp_decimal(x: Decimal) -> Decimal:
    return x.exp(_DECIMAL_CONTEXT)


def _threshold(probability: Decimal) -> int:
    """Return the whole number nearest to probability 2^64."""
    return int((probability * 2**WORD_BITS).to_integral_value(context=_DECIMAL_CONTEXT))


MAX_SUM = 2**62  # sums and noise stay below: nothing wraps around


def noise_variance(recipe: Recipe, draws: int, paired: bool) -> float:
    """Return the variance of the noise in a sum, in squared grid units."""
    return draws * recipe.variance + paired * recipe.low_variance


@dataclass(frozen=True)
class SharedNoise:
    """The noise of the sum over all owners, for an owner whose answer is a mean over `records` of L1 or L2 sensitivity
    `sensitivity`.

    Formal guarantee: let `moved` grid units bound how far one person moves the encoded sum in `norm`, over all owners
    that hold it and rounding included; where an owner is the unit, how far its whole table does. Then the sum with a
    number of the recipe's law in each coordinate is as private as the law's claim, up to a total variation of
    `recipe.distance` in each coordinate: for Laplace moved/scale-DP, for the Gaussian a post-processing of normal noise
    of `scale` on values of L2 sensitivity `moved`. Whoever draws the number must not see the sum (`sharing`). With
    `draws` = 2 the sum carries two such numbers, each drawn by a host of its own; for a host, who knows its own, the
    sum carries the other one whole. A `paired` noise is one number that two hosts drew together, plus a second low
    part: each host knows one of the two (`tabled_recipe`), and for it the sum carries one number of the law.
    """

    recipe: Recipe
    units: float  # grid units in one unit of the sum
    moved: float
    size: int
    records: int
    sensitivity: float
    norm: Norm
    draws: int = 1
    paired: bool = False

    @property
    def noise_scale(self) -> float:
        """The scale of one draw's law, as it appears in a mean over `records`."""
        return self.recipe.scale / self.factor

    @property
    def factor(self) -> float:
        """Grid units in one unit of a mean over `records`."""
        return self.records * self.units

    @property
    def sum_variance(self) -> float:
        """Variance of the noise in one coordinate of the sum."""
        return noise_variance(self.recipe, self.draws, self.paired) / self.units**2

    @property
    def variance(self) -> float:
        """Variance of the noise in one coordinate of a mean over `records`."""
        return noise_variance(self.recipe, self.draws, self.paired) / self.factor**2

    @cached_property
    def event(self) -> Event:
        """The fact that the ledger stores; accountants interpret it."""
        kind = LaplaceEvent if self.recipe.law == Law.LAPLACE else GaussianEvent
        return kind(self.recipe.scale / self.moved)

    def over(self, records: int) -> "SharedNoise":
        """Return the same noise in a mean over this many records."""
        return replace(self, records=records)

    def encode(self, bounded: Bounded) -> Words:
        """Return the answer as a sum over the records, in whole grid units modulo 2^64 [..., size]."""
        value = require_bounded(bounded, self.norm, self.sensitivity).value
        return np.rint(value * self.factor).astype(np.int64).view(np.uint64)

    def decode(self, words: Words) -> Floats:
        """Return the mean over `records` of a sum of encoded answers, with or without noise."""
        return np.asarray(words.view(np.int64) / self.factor)

    def drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Words:
        """Draw the noise of a sum in grid units from one generator, for studies: nothing of this may be released."""
        drawn = np.asarray(sum(draw_plainly(self.recipe, shape, rng) for _ in range(self.draws)))
        return (drawn + draw_low_plainly(self.recipe, shape, rng) if self.paired else drawn).view(np.uint64)

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Refuse: an owner alone has no noise here."""
        raise GuaranteeError(
            "noise: under these terms only the sum of all answers gets noise; a single answer is never released"
        )

    def rounding(self, coordinates: int) -> float:
        """Return 0: `moved`, which the noise covers, includes the rounding."""
        return 0.0

    def tail(self, probability: float, coordinates: int) -> float:
        """Return the size that noise exceeds in any of `coordinates` places with at most this probability.

        Formal guarantee: a discrete Laplace number is in size at most an exponential one plus 1. The other law is
        sub-Gaussian, its discrete part with variance at most 100 N^2, each uniform one with (N/2)^2 (Hoeffding). Each
        of several draws gets its share of the probability; variances of sub-Gaussian numbers add up.
        """
        if self.recipe.law == Law.LAPLACE:
            whole = self.draws * (self.recipe.scale * math.log(self.draws * coordinates / probability) + 1)
            return (whole + self.paired * self.recipe.low_reach) / self.factor
        return self._proxy * math.sqrt(2 * math.log(2 * coordinates / probability)) / self.factor

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """Return the norm that noise exceeds with at most this probability (L2: Hsu, Kakade and Zhang 2012)."""
        if self.recipe.law == Law.LAPLACE:
            numbers = self.draws * coordinates
            whole = self.recipe.scale * float(gammainccinv(numbers, probability)) + numbers
            return (whole + self.paired * coordinates * self.recipe.low_reach) / self.factor
        t = -math.log(probability)
        return self._proxy * math.sqrt(coordinates + 2 * math.sqrt(coordinates * t) + 2 * t) / self.factor

    @property
    def _proxy(self) -> float:
        uniform = (self.draws + self.paired) * UNIFORM_TERMS / 4
        return float(self.recipe.step) * math.sqrt(self.draws * LADDER_SIGMA**2 + uniform)
