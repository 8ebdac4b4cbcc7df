"""Is the noise that an owner draws of the claimed law? Two answers to the same question, where nothing else is drawn,
differ by two draws of the noise and by nothing of the table."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc
from scipy.stats import binom, chi2, kstest, norm

from parley.errors import TermsError
from parley.privacy.mechanisms import Gaussian, GridGeometric, Laplace, Mechanism
from parley.validate import Floats

FALSE_ALARM = 1e-3  # that honest noise is called another, in all ways together
WAYS = 4  # either end of the scale's interval, the distance of the laws, and noise that comes again (`repeats`)
DEVIATIONS = 9  # of a binomial number, beyond which its law has no weight that a double holds


@dataclass(frozen=True)
class NoiseVerdict:
    """The noise's scale as claimed, between which ends it lies by what was seen, and how far the whole law is off."""

    numbers: int  # differences that were looked at
    scale: float
    lowest: float
    highest: float
    # of the claimed scale: noise of the same law with less than this share is called too small, but for a quarter of
    # `FALSE_ALARM`, since what is measured is at most the upper quantile of the true scale
    noticed: float
    p_value: float  # of the distance between the laws (Kolmogorov and Smirnov)

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the claimed law. Honest noise fails with probability at most `FALSE_ALARM`."""
        return self.lowest <= self.scale <= self.highest and self.shaped

    @property
    def shaped(self) -> bool:
        """Whether the whole law is as near to the claimed one as chance has it."""
        return self.p_value >= share()

    @property
    def too_small(self) -> bool:
        """Whether there is less of it than claimed: then it hides less."""
        return self.highest < self.scale

    def to_json(self) -> dict[str, Any]:
        """The object that stands under `noise` in `parley audit --json`."""
        return {**vars(self), "false_alarm": FALSE_ALARM, "holds": self.holds}


def share() -> float:
    """Of `FALSE_ALARM`, for one of the ways."""
    return FALSE_ALARM / WAYS


def judge_noise(differences: Floats, mechanism: Mechanism) -> NoiseVerdict:
    """What differences of two independent draws each [n, size] say of the mechanism's noise.

    Formal guarantee: for independent noise of the claimed law on every coordinate `holds` is false with probability at
    most `FALSE_ALARM`: a quarter for either end of the scale's exact interval, a quarter for the distance of the laws
    (their grids are finer than any number of answers shows). Of n differences X
    - of Laplace noise of scale b: |X|/b is Gamma(1) or Gamma(2), each by halves, since X has the density
      (1 + |x|/b) e^(-|x|/b)/(4 b); so the sum of n is Gamma(n + K), K binomial (n, 1/2);
    - of Gaussian noise of deviation s: the sum of X^2/(2 s^2) is chi-square of n degrees.
    """
    seen, scale = np.asarray(differences).reshape(-1), claimed_scale(mechanism, differences.shape[-1])
    if isinstance(mechanism, Gaussian):
        low, high = np.sqrt(chi2.ppf([share(), 1 - share()], seen.size))
        measured = math.sqrt(float((seen**2).sum()) / 2)
        distance = kstest(seen, norm(scale=math.sqrt(2) * scale).cdf)
    else:
        low, high = (_sum_end(seen.size, probability) for probability in (share(), 1 - share()))
        measured = float(np.abs(seen).sum())
        distance = kstest(seen / scale, difference_cdf)
    lowest, highest = float(measured / high), float(measured / low)
    return NoiseVerdict(seen.size, scale, lowest, highest, float(low / high), float(distance.pvalue))


def claimed_scale(mechanism: Mechanism, size: int) -> float:
    """The parameter of the law that noise on so many coordinates is drawn by; refused if its law is not known here."""
    if isinstance(mechanism, GridGeometric):
        unit, steps = mechanism.grid(size)
        return unit * steps
    if isinstance(mechanism, Laplace | Gaussian):
        return mechanism.noise_scale
    raise TermsError("mechanism: expected laplace, geometric or gaussian noise; the laws of no others are compared")


def difference_cdf(x: Floats) -> Floats:
    """P(X <= x) of the difference X of two Laplace numbers of scale 1.

    >>> difference_cdf(np.array([-np.inf, 0.0, np.inf])).tolist()
    [0.0, 0.5, 1.0]
    """
    size = np.minimum(np.abs(np.asarray(x)), 1e3)
    beyond = (1 + size / 2) * np.exp(-size) / 2
    return np.where(np.asarray(x) < 0, beyond, 1 - beyond)


def sum_cdf(total: float, n: int) -> float:
    """P(sum of n sizes of such differences <= total)."""
    half = DEVIATIONS * math.sqrt(n) / 2
    k = np.arange(max(0, math.floor(n / 2 - half)), min(n, math.ceil(n / 2 + half)) + 1)
    return float((binom.pmf(k, n, 0.5) * gammainc(n + k, total)).sum())


def _sum_end(n: int, probability: float) -> float:
    """The sum that is not exceeded with this probability: its mean is 1.5 n, its variance less than 2 n."""
    far = 1.5 * n + 20 * math.sqrt(2 * n) + 40
    return float(brentq(lambda total: sum_cdf(total, n) - probability, 0.0, far, xtol=1e-9 * far))
