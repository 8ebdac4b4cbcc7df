"""What a reader makes of noisy counts: how far the noise goes, and the best guess by what is believed beforehand.

All of it is post-processing of what was released, and costs nothing more (T section 4.4, its remap; Ghosh, Roughgarden
and Sundararajan 2009: two-sided geometric noise and such a guess are the best there is for a single count, whatever the
prior).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from parley.errors import SettingError
from parley.validate import Floats, Integers

Prior = Callable[[Integers], Floats]  # weights of counts
Rule = Literal["likeliest", "median", "mean"]  # the guess that is right most often, nearest, or nearest in squares

FAR = 40.0  # scales within which a law is written down: beyond lies less than 10^-16 of it
WIDEST = 2**22  # numbers for which one is


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """The law of whole-number noise: `chances` of -reach to reach."""

    chances: Floats

    @property
    def reach(self) -> int:
        return len(self.chances) // 2

    def half_width(self, probability: float = 0.95) -> int:
        """How far the noise goes in so many of all cases."""
        within = self.chances[self.reach] + 2 * np.cumsum(self.chances[self.reach + 1 :])
        return 1 + int(np.searchsorted(within, probability)) if self.chances[self.reach] < probability else 0


def geometric_law(scales: Sequence[float]) -> NoiseLaw | None:
    """The law of the sum of independent two-sided geometric numbers of these scales; None where it is too wide to be
    written down.

    >>> geometric_law([1.0]).chances.sum().round(12)
    np.float64(1.0)
    """
    reach = int(FAR * max(scales) + 10 * np.sqrt(2 * np.sum(np.square(scales)))) + 20
    if reach > WIDEST:
        return None
    size = 2 * reach + 1
    q = np.exp(-1 / np.asarray(scales, dtype=np.float64))
    angle = 2 * np.pi * np.arange(size // 2 + 1) / size
    each, how_many = np.unique(q, return_counts=True)
    spectrum = np.ones(len(angle))
    for ratio, count in zip(each.tolist(), how_many.tolist(), strict=True):
        spectrum *= ((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(angle) + ratio**2)) ** count
    return NoiseLaw(np.maximum(np.fft.fftshift(np.fft.irfft(spectrum, size)), 0.0))


def normal_law(deviation: float) -> NoiseLaw | None:
    """Normal noise rounded to whole numbers; None where it is too wide to be written down."""
    reach = int(10 * deviation) + 2
    if reach > WIDEST:
        return None
    ends = (np.arange(-reach, reach + 2) - 0.5) / deviation
    return NoiseLaw(np.diff(ndtr(ends)))


def uniform_prior(counts: Integers) -> Floats:
    """Every count alike."""
    return np.ones(len(counts))


def require_rate(rate: float | None) -> None:
    """Refuse what is no share; None: nothing is believed beforehand."""
    if rate is not None and not 0 < rate < 1:
        raise SettingError(f"rate = {rate!r}: expected a share between 0 and 1")


def binomial_prior(records: int, rate: float) -> Prior:
    """Every record is counted with this probability, independently."""
    require_rate(rate)
    return lambda counts: np.asarray(binom.pmf(counts, records, rate))


def remapped(answer: float, records: int, law: NoiseLaw, prior: Prior = uniform_prior, rule: Rule = "median") -> float:
    """The best guess of a count from 0 to `records` that was reported as `answer`, which may lie beyond.

    >>> law = geometric_law([2.0])
    >>> remapped(-3.0, 100, law, rule="likeliest"), remapped(50.0, 100, law)
    (0.0, 50.0)
    """
    seen = round(answer)
    low, high = max(0, seen - law.reach), min(records, seen + law.reach)
    if low > high:
        return float(min(max(seen, 0), records))
    counts = np.arange(low, high + 1)
    weights = law.chances[seen - counts + law.reach] * prior(counts)
    total = weights.sum()
    if not total > 0:  # so far from what was believed that no number is left of it
        return float(min(max(seen, 0), records))
    if rule == "mean":
        return float(counts @ weights / total)
    if rule == "likeliest":
        return float(counts[int(np.argmax(weights))])
    return float(counts[int(np.searchsorted(np.cumsum(weights), total / 2))])
