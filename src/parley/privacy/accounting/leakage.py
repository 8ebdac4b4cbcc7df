"""How many bits releases can tell about one record, given all others (T chapter 4, mutual information and min-entropy).

Formal guarantee. Let X be a person's records, of any law, and A all that is released while every other record is fixed
and known. P_x is the law of A if X = x. Then I(X; A) <= max_x KL(P_x || Q) for any law Q, in nats.

- Pure eps. With m and M the least and the largest density over x, M <= e^eps m; let Q be in proportion to sqrt(m M).
  L = ln P_x/Q then lies in an interval of length eps, and E e^-L = 1 under P_x. The mean of such an L is largest if it
  takes the two ends only: max_p of p eps + ln(1 - p + p e^-eps), which is C(eps) = eps/(1 - e^-eps) - 1 +
  ln((1 - e^-eps)/eps), at most eps^2/8 and at most eps. Of v values, besides at most ln(v e^eps/(v - 1 + e^eps)): the
  min-capacity (T eq. 2.2 for one person) bounds the mutual information, too.
- rho-zCDP: the divergence of order 1 between any two P_x is at most rho, so with Q = any P_x at most rho.
- Gaussian noise of deviation s on p numbers: the exact answers lie within a ball of radius R, given the others and what
  was asked. The differential entropy of an answer is at most that of a Gaussian of the same second moment, and trace at
  most p s^2 + R^2, so an answer tells at most p/2 ln(1 + R^2/(p s^2)). Rounds add up by the chain rule, questions
  chosen by earlier answers included, for the bound holds whatever is known of X by then. R is half the sensitivity
  where a record's share is clipped in a ball; for any set of this diameter S it is at most S sqrt(p/(2 (p + 1)))
  (Jung). If a record is drawn in secret with probability q, an answer tells at most q times as much: whoever knew the
  draw would learn nothing without it.

Min-entropy leakage, by how much the chance of guessing X grows, is at most eps for pure eps; no rho bounds it.
"""

import math
from dataclasses import dataclass

import numpy as np

from parley.privacy.accounting.meaning import min_entropy_leakage
from parley.validate import Floats, non_negative, positive, whole

BIT = math.log(2)  # nats
NEAR = 0.05  # below which a series takes the place of a formula whose terms cancel
ROUNDING = 1 + 1e-11  # of what is called a bound
LEAST = float(np.finfo(np.float64).tiny)  # of one that is above 0, and would be rounded to it


@dataclass(frozen=True)
class Leakage:
    """Upper bounds in bits about one person's records, all others known; None: nothing bounds it."""

    mutual_information: float | None
    min_entropy: float | None
    by: str  # what the first follows from

    @property
    def guess_factor(self) -> float | None:
        """By how much a guess can become likelier; None: nothing bounds it, or only a number beyond all floats."""
        return None if self.min_entropy is None or self.min_entropy > 1000 else 2.0**self.min_entropy


def pure_nats(epsilon: Floats) -> Floats:
    """C(eps): what releases of pure eps can tell about one record at most, in nats, however many values it may have.

    Written with x = eps/2 as x coth x - 1 + ln(sinh(x)/x); near 0 as a series, cut where it is above.

    >>> pure_nats(np.array([1.0, 10.0])).round(4).tolist()
    [0.1233, 6.6978]
    """
    x = np.asarray(epsilon, dtype=np.float64) / 2
    near, far = np.minimum(x, NEAR), np.maximum(x, NEAR)
    with np.errstate(over="ignore"):  # beyond all floats it is infinite, which bounds it
        formula = far / np.tanh(far) - 1 + far + np.log1p(-np.exp(-2 * far)) - np.log(2 * far)
    found = np.where(x < NEAR, near**2 / 2 - near**4 / 36 + near**6 / 405, formula) * ROUNDING
    return np.where(x > 0, np.maximum(found, LEAST), 0.0)


def pure_nats_slope(epsilon: Floats) -> Floats:
    """eps times the derivative of C: what a budget that is larger by a share tells more, for each unit of that
    share."""
    x = np.asarray(epsilon, dtype=np.float64) / 2
    far = np.maximum(x, NEAR)
    formula = 2 * far / np.tanh(far) - 1 - 4 * far**2 * np.exp(-2 * far) / np.expm1(-2 * far) ** 2
    return np.where(x < NEAR, x**2 - x**4 / 9 + 2 * x**6 / 135, formula)


def pure_leakage(epsilon: float, values: int | None = None) -> Leakage:
    """What releases of pure eps tell; `values`: how many the record may have, None: any number.

    >>> found = pure_leakage(1.0, values=2)
    >>> round(found.mutual_information, 4), round(found.min_entropy, 4)
    (0.1779, 0.5481)
    """
    most = epsilon / BIT if values is None else min_entropy_leakage(epsilon, 1, whole(values, "values", least=2))
    most *= ROUNDING
    return Leakage(min(float(pure_nats(np.asarray(epsilon))) / BIT, most), most, "pure epsilon")


def zcdp_leakage(rho: float) -> Leakage:
    """What rho-zCDP releases tell."""
    return Leakage(non_negative(rho, "rho") / BIT * ROUNDING, None, "zCDP")


def gaussian_bits(
    sensitivity: float, deviation: float, coordinates: int, answers: float = 1.0, ball: bool = False
) -> float:
    """Bits that so many answers with Gaussian noise tell, of which a person moves each by at most `sensitivity` in L2;
    `ball`: a record's share lies in a ball of half that radius. An answer about drawn records counts by its rate.

    >>> round(gaussian_bits(2.0, 10.0, 1) / (0.5 * 0.01 / BIT), 3)
    0.995
    """
    p = whole(coordinates, "coordinates")
    ratio = positive(sensitivity, "sensitivity") / positive(deviation, "deviation")
    squared = ratio**2 * (0.25 if ball else p / (2 * (p + 1)))
    return answers * p / 2 * math.log1p(squared / p) / BIT * ROUNDING
