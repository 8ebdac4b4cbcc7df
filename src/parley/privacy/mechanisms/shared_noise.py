"""One noise for the sum of all owners' answers, not one for each owner's, on a grid of whole numbers (Chase et al.
2017): drawn once by three hosts together, or by each of two hosts, who add one each.

Each owner encodes its bounded answer, as a sum over its records, in whole grid units modulo 2^64. The sum of these plus
one number of the recipe's law (of two hosts, two) is what a learner gets to see, and nothing else. An owner that drops
out changes how many records there are, not the noise.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammainccinv

from parley.errors import GuaranteeError
from parley.privacy.events import Event, GaussianEvent, LaplaceEvent, Norm
from parley.privacy.mechanisms.bounded import Bounded, require
from parley.privacy.mechanisms.noise import Noise
from parley.privacy.mechanisms.random_words import Words
from parley.privacy.mechanisms.recipe import SIGMA, SMOOTHERS, Law, Recipe, draw_plainly
from parley.validate import Floats

ROOM = 2**62  # sums and noise stay below: nothing wraps around


@dataclass(frozen=True)
class SharedNoise:
    """The noise of everybody's sum, as one owner of `records` rows sees
    it: its answer is a mean of L1 or L2 sensitivity `sensitivity`.

    Formal guarantee: let `moved` grid units bound how far one person moves the encoded sum - over all owners that hold
    it; where an owner is the unit, its whole table - in `norm`, rounding included. Then the sum with a number of the
    recipe's law in each coordinate is as private as the law's claim: for Laplace moved/scale-DP, for the Gaussian a
    post-processing of normal noise of `scale` on values of L2 sensitivity `moved`, in both cases but for a total
    variation of `recipe.distance` in each coordinate. Who draws the number must not be who sees the sum (`sharing`).
    With `draws` = 2 the sum carries two such numbers, each drawn by a host of its own: to one of these, who knows its
    own, it carries the other one whole.
    """

    recipe: Recipe
    units: float  # grid units in one unit of the sum
    moved: float
    size: int
    records: int
    sensitivity: float
    norm: Norm
    draws: int = 1

    @property
    def noise_scale(self) -> float:
        """The law's own scale, that of one draw, as it appears in a mean over `records`."""
        return self.recipe.scale / self.factor

    @property
    def factor(self) -> float:
        """Grid units in one unit of a mean over `records`."""
        return self.records * self.units

    @property
    def sum_variance(self) -> float:
        """Of the noise in one coordinate of the sum."""
        return self.draws * self.recipe.variance / self.units**2

    @property
    def variance(self) -> float:
        """Of the noise in one coordinate of a mean over `records`."""
        return self.draws * self.recipe.variance / self.factor**2

    @cached_property
    def event(self) -> Event:
        """The fact that the ledger stores; accountants interpret it."""
        kind = LaplaceEvent if self.recipe.law == Law.LAPLACE else GaussianEvent
        return kind(self.recipe.scale / self.moved)

    def over(self, records: int) -> "SharedNoise":
        """The same noise in a mean over so many records."""
        return replace(self, records=records)

    def encode(self, bounded: Bounded) -> Words:
        """The answer as a sum over the records, in whole grid units modulo 2^64 [..., size]."""
        value = require(bounded, self.norm, self.sensitivity).value
        return np.rint(value * self.factor).astype(np.int64).view(np.uint64)

    def decode(self, words: Words) -> Floats:
        """The mean over `records` of a sum of encoded answers, with or without noise."""
        return np.asarray(words.view(np.int64) / self.factor)

    def drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Words:
        """The noise of a sum in grid units from one generator, for studies: nothing of this may be released."""
        return np.asarray(sum(draw_plainly(self.recipe, shape, rng) for _ in range(self.draws))).view(np.uint64)

    def release(self, bounded: Bounded, noise: Noise) -> Floats:
        """Refused: an owner alone has no noise here."""
        raise GuaranteeError(
            "noise: these terms draw one noise for the sum of all answers; a single answer is shared, not released"
        )

    def rounding(self, coordinates: int) -> float:
        """0: `moved`, which the noise covers, has the rounding in it already."""
        return 0.0

    def tail(self, probability: float, coordinates: int) -> float:
        """How far the noise goes in the worst of so many coordinates, but for this probability.

        Formal guarantee: a discrete Laplace number is in size at most an exponential one plus 1; the other law is
        sub-Gaussian, its discrete part with variance at most 100 N^2, each uniform one with (N/2)^2 (Hoeffding). Of
        several draws each gets its share of the probability; variances of sub-Gaussian numbers add up.
        """
        if self.recipe.law == Law.LAPLACE:
            return self.draws * (self.recipe.scale * math.log(self.draws * coordinates / probability) + 1) / self.factor
        return self._proxy * math.sqrt(2 * math.log(2 * coordinates / probability)) / self.factor

    def norm_tail(self, probability: float, coordinates: int) -> float:
        """How much the noise of so many coordinates measures in `norm`,
        but for this probability (L2: Hsu, Kakade and Zhang 2012)."""
        if self.recipe.law == Law.LAPLACE:
            numbers = self.draws * coordinates
            return (self.recipe.scale * float(gammainccinv(numbers, probability)) + numbers) / self.factor
        t = -math.log(probability)
        return self._proxy * math.sqrt(coordinates + 2 * math.sqrt(coordinates * t) + 2 * t) / self.factor

    @property
    def _proxy(self) -> float:
        return float(self.recipe.step) * math.sqrt(self.draws * (SIGMA**2 + SMOOTHERS / 4))
