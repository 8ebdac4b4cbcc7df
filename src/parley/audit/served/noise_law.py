"""Whether the noise that an owner draws has the claimed law and is fresh."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc
from scipy.stats import binom, chi2, kstest, norm

from parley.audit.planted import Guesses
from parley.errors import TermsError
from parley.privacy.mechanisms import Gaussian, GridGeometric, Laplace, Mechanism
from parley.privacy.mechanisms.exact_samplers import GRID_BITS
from parley.validate import Floats

ROUNDING_SHARE = (
    2.0**-40
)  # of the noise's scale and the exact answers: by how much two computations of one answer differ
FALSE_ALARM = 1e-3  # that honest noise is called another, in all ways together
# either end of the scale's interval, the distance of the laws, and noise that comes again (`find_repeats`)
TEST_COUNT = 4
MAX_DEVIATIONS = 9  # of a binomial number, beyond which its law has no weight that a double holds


@dataclass(frozen=True)
class NoiseVerdict:
    """The noise's claimed scale, the interval that the answers leave for it, and the distance of the whole law."""

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
        """Whether the whole law is as near to the claimed one as chance explains."""
        return self.p_value >= share()

    @property
    def too_small(self) -> bool:
        """Whether there is less noise than claimed: then it hides less."""
        return self.highest < self.scale

    def to_json(self) -> dict[str, Any]:
        """Return the object under `noise` in `parley audit --json`."""
        return {**vars(self), "false_alarm": FALSE_ALARM, "holds": self.holds}


def share() -> float:
    """Return the share of `FALSE_ALARM` that one test has."""
    return FALSE_ALARM / TEST_COUNT


def judge_noise(differences: Floats, mechanism: Mechanism) -> NoiseVerdict:
    """Judge a mechanism's noise by differences of two independent draws each [n, size].

    Formal guarantee: for independent noise of the claimed law on every coordinate, `holds` is false with probability at
    most `FALSE_ALARM`: a quarter for either end of the scale's exact interval, a quarter for the distance of the laws
    (their grids are finer than any number of answers shows). For Laplace noise of scale b, a difference X has density
    (1 + |x|/b) e^(-|x|/b)/(4 b). So |X|/b is Gamma(1) or Gamma(2), each by halves, and the sum of n is Gamma(n + K), K
    binomial (n, 1/2). For Gaussian noise of deviation s, the sum of n X^2/(2 s^2) is chi-square of n degrees.
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
    """Return the scale that noise on `size` coordinates is drawn with; refused if its law is not known here."""
    if isinstance(mechanism, GridGeometric):
        unit, steps = mechanism.grid(size)
        return unit * steps
    if isinstance(mechanism, Laplace | Gaussian):
        return mechanism.noise_scale
    raise TermsError("mechanism: expected laplace, geometric or gaussian noise; this audit cannot test other noise")


def difference_cdf(x: Floats) -> Floats:
    """Return P(X <= x) of the difference X of two Laplace numbers of scale 1.

    >>> difference_cdf(np.array([-np.inf, 0.0, np.inf])).tolist()
    [0.0, 0.5, 1.0]
    """
    size = np.minimum(np.abs(np.asarray(x)), 1e3)
    tail = (1 + size / 2) * np.exp(-size) / 2
    return np.where(np.asarray(x) < 0, tail, 1 - tail)


def sum_cdf(total: float, n: int) -> float:
    """Return P(the sum of the sizes of n such differences <= total)."""
    half = MAX_DEVIATIONS * math.sqrt(n) / 2
    k = np.arange(max(0, math.floor(n / 2 - half)), min(n, math.ceil(n / 2 + half)) + 1)
    return float((binom.pmf(k, n, 0.5) * gammainc(n + k, total)).sum())


@dataclass(frozen=True)
class RepeatVerdict:
    """How often noise, answers minus what the table says, or its negative came again, and how rarely chance does that.
    Noise drawn before (in another round, coordinate, table or start) hides nobody."""

    answers: int  # whose noise, all of it, came before
    of_answers: int
    numbers: int  # of that noise that came before, one by one
    of_numbers: int
    p_value: float

    @property
    def holds(self) -> bool:
        """Whether chance explains it. Independent noise fails with probability at most its share of `FALSE_ALARM`."""
        return self.p_value >= share()

    def to_json(self) -> dict[str, Any]:
        """Return the object under `repeats` in `parley audit --json`."""
        return {**vars(self), "holds": self.holds}


def find_repeats(noise: Floats, mechanism: Mechanism, largest: float) -> RepeatVerdict:
    """Find which noises [n, size] of n answers, with exact values of size at most `largest`, came before.

    Formal guarantee: for independent noise of the claimed law on every coordinate, whatever exact values a daemon adds
    it to, the p-value is below any level with at most that probability.

    Proof. Let b be the noise's scale (Laplace, geometric) or deviation (Gaussian), g its grid and t the tolerance, at
    least g and the rounding of sums.

    1. The density is at most 1/(2 b), and a grid point has probability at most g/(2 b). So an interval of length 2 t
      holds a number, rounded or not, with probability at most (2 t + g + t)/(2 b) <= q = 2 t/b.
    2. Given all rows before, row i of `size` numbers is within t of one of them or its negative, at every coordinate,
      with probability at most 2 (i - 1) q^size; constants added to rows change nothing.
    3. The probability that c given rows do so is at most the product of these. Summed over all c of n rows it is at
      most m^c/c!, m the sum over all rows, which bounds the probability of c rows or more. `_count_repeats` counts no
      others. Rows are whole answers, and single numbers; the smaller p-value counts twice.
    """
    n, size = noise.shape
    scale = claimed_scale(mechanism, size)
    tolerance = _grid(mechanism, size) + ROUNDING_SHARE * (scale + largest)
    counts, probabilities = [], []
    for rows in (noise, noise.reshape(-1, 1)):
        counts.append(_count_repeats(rows, tolerance))
        near = min(2 * tolerance / scale, 1.0) ** rows.shape[1]
        probabilities.append(_chance(counts[-1], len(rows) * (len(rows) - 1) * near))
    return RepeatVerdict(counts[0], n, counts[1], n * size, min(2 * min(probabilities), 1.0))


def _sum_end(n: int, probability: float) -> float:
    """Return the sum not exceeded with this probability: its mean is 1.5 n, its variance less than 2 n."""
    far = 1.5 * n + 20 * math.sqrt(2 * n) + 40
    return float(brentq(lambda total: sum_cdf(total, n) - probability, 0.0, far, xtol=1e-9 * far))


def _count_repeats(rows: Floats, tolerance: float) -> int:
    """Count rows [n, size] near an earlier one or its negative: of two neighbours by first number, the later one."""
    signed = rows * np.where(rows[:, :1] < 0, -1.0, 1.0)
    order = np.argsort(np.rint(signed[:, 0] / tolerance), kind="stable")  # of equal ones the earlier comes first
    near = np.all(np.abs(np.diff(signed[order], axis=0)) <= tolerance, axis=1)
    return int(np.unique(np.maximum(order[1:], order[:-1])[near]).size)


def _chance(count: int, mean: float) -> float:
    """Bound the probability of `count` repeats or more: mean^count/count!, at most 1.

    >>> _chance(0, 0.0), _chance(2, 0.1) <= 0.00501, _chance(3, 5.0)
    (1.0, True, 1.0)
    """
    if not count:
        return 1.0
    return math.exp(min(count * math.log(max(mean, 1e-300)) - math.lgamma(count + 1), 0.0))


def _grid(mechanism: Mechanism, size: int) -> float:
    """Return the grid of released noise; 0 for Laplace noise, which is finer than any rounding here."""
    if isinstance(mechanism, GridGeometric):
        return mechanism.grid(size)[0]
    return math.ldexp(mechanism.sigma, 1 - GRID_BITS) if isinstance(mechanism, Gaussian) else 0.0


@dataclass(frozen=True)
class ServedVerdict:
    """What an owner's daemon claims, and what was found over its own interface."""

    owner: str
    claimed_epsilon: float  # of its training answers, all together
    delta: float
    guesses: Guesses
    confidence: float
    tables: int  # each served by a start of its own
    rounds: int  # answered, in all tables together
    changed: int
    charged: int
    noise: NoiseVerdict | None  # None: no two answers differ by their noise alone
    repeats: RepeatVerdict | None  # None: rows are drawn in secret, so that the noise is not known
    seconds: float

    @property
    def lower_bound(self) -> float:
        """The epsilon that the guessed coins prove at `confidence`."""
        return self.guesses.bound(self.delta, self.confidence)

    @property
    def leaks(self) -> bool:
        """Whether the coins prove more than is claimed."""
        return self.lower_bound > self.claimed_epsilon

    @property
    def faults(self) -> tuple[str, ...]:
        """What contradicts the claim, in words."""
        fault_present = {
            "the answers reveal more than is claimed": self.leaks,
            "a repeated question gets another answer": self.changed > 0,
            "answers are not debited once each, as agreed": self.charged > 0,
            "there is less noise than claimed": self.noise is not None and self.noise.too_small,
        }
        if not any(fault_present.values()):
            fault_present["the noise is not of the claimed law"] = self.noise is not None and not self.noise.holds
        fault_present["noise from an earlier answer comes again"] = self.repeats is not None and not self.repeats.holds
        return tuple(sentence for sentence, is_so in fault_present.items() if is_so)

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim. It proves nothing beyond that."""
        return not self.faults

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley audit --served --json` prints for the owner."""
        return {
            **self.guesses.to_json(self.owner, self.claimed_epsilon, self.delta, self.confidence),
            "runs": self.tables,
            "rounds": self.rounds,
            "retries_changed": self.changed,
            "debits_wrong": self.charged,
            "noise": None if self.noise is None else self.noise.to_json(),
            "repeats": None if self.repeats is None else self.repeats.to_json(),
            "faults": list(self.faults),
            "holds": self.holds,
            "seconds": self.seconds,
        }
