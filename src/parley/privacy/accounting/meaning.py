"""What eps means for a person (Z chapter 2, T section 2.4, Lee and Clifton 2011): the worst person, and an adversary
who knows everything except that person's record. Statements are about what the release adds to what was known before.

Formal guarantee, bits that releases tell about one record, given all others (T chapter 4): let X be a person's records,
of any law, and A all that is released while every other record is fixed and known. P_x is the law of A if X = x. Then
I(X; A) <= max_x KL(P_x || Q) for any law Q, in nats.

- Pure eps. Let m and M be the least and the largest density over x, so M <= e^eps m, and Q proportional to sqrt(m M). L
  = ln P_x/Q then lies in an interval of length eps, and E e^-L = 1 under P_x. The mean of such an L is largest if it
  takes only the two ends: max_p of p eps + ln(1 - p + p e^-eps). This is C(eps) = eps/(1 - e^-eps) - 1 + ln((1 -
  e^-eps)/eps), at most eps^2/8 and at most eps. For v values it is also at most ln(v e^eps/(v - 1 + e^eps)): the
  min-capacity (T eq. 2.2 for one person) bounds the mutual information, too.
- rho-zCDP. The divergence of order 1 between any two P_x is at most rho; take Q = any P_x.
- Gaussian noise of deviation s on p numbers. Given the others and what was asked, the exact answers lie in a ball of
  radius R. The differential entropy of an answer is at most that of a Gaussian of the same second moment, whose trace
  is at most p s^2 + R^2. So an answer tells at most p/2 ln(1 + R^2/(p s^2)). Rounds add up by the chain rule, even if
  questions depend on earlier answers, because the bound holds whatever is known of X by then. R is half the sensitivity
  where a record's share is clipped in a ball. For any set whose diameter S is the sensitivity, R is at most S sqrt(p/(2
  (p + 1))) (Jung). If a record is drawn in secret with probability q, an answer tells at most q times as much: someone
  who knew the draw would learn nothing from an answer without the record.

Min-entropy leakage, by how much the chance of guessing X grows, is at most eps for pure eps; no rho bounds it.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import SettingError
from parley.numerals import number, percent
from parley.privacy.accounting.series import series_rho
from parley.privacy.events import Adjacency
from parley.privacy.mechanisms.gaussian import gaussian_delta, probability
from parley.validate import Floats, non_negative, positive, upper, whole

# why `approximate_posterior` is wider
WIDER_NOTE = "with δ single releases may tell more than ε allows, so this is the range of 2ε"


def posterior_bounds(epsilon: float, prior: float) -> tuple[float, float]:
    """Return how far an adversary's belief in a fact of this prior probability can fall or rise.

    >>> [round(b, 2) for b in posterior_bounds(1.0, 0.5)]
    [0.27, 0.73]
    """
    epsilon, prior = non_negative(epsilon, "epsilon"), _prior(prior)
    odds = prior / (1 - prior)
    low, high = odds * math.exp(-epsilon), odds * math.exp(min(epsilon, 700))
    return low / (1 + low), high / (1 + high)


def approximate_posterior(epsilon: float, delta: float, prior: float) -> tuple[float, float, float]:
    """Return (low, high, failure): with delta > 0 the bounds of 2 eps hold except with probability `failure`. For t >
    eps the set where one law exceeds e^t times the other has probability at most delta/(1 - e^(eps - t)), in either
    order; no such probability exists for t = eps. The choice made here is t = 2 eps."""
    low, high = posterior_bounds(2 * positive(epsilon, "epsilon"), prior)
    return low, high, min(1.0, 2 * probability(delta) / -math.expm1(-epsilon))


def error_tradeoff(epsilon: float, delta: float, false_positive: ArrayLike) -> Floats:
    """Return the least false-negative rate of any test for a person's presence, at these false-positive rates x: max(0,
    1 - delta - e^eps x, e^-eps (1 - delta - x)). In particular e^eps p_FP + p_FN >= 1 - delta, and the sum of both
    errors is at least 2 (1 - delta)/(1 + e^eps)."""
    x = np.asarray(false_positive, dtype=np.float64)
    epsilon = non_negative(epsilon, "epsilon")
    if not (np.all(x >= 0) and np.all(x <= 1)):
        raise SettingError("false_positive: expected rates from 0 to 1")
    kept = 1 - non_negative(delta, "delta")
    return np.asarray(np.maximum(0.0, np.maximum(kept - np.exp(min(epsilon, 700)) * x, np.exp(-epsilon) * (kept - x))))


def least_total_error(epsilon: float, delta: float = 0.0) -> float:
    """Return the least sum of false-positive and false-negative rate: 2 (1 - delta)/(1 + e^eps).

    >>> round(least_total_error(1.0), 4)
    0.5379
    """
    return 2 * (1 - non_negative(delta, "delta")) / (1 + math.exp(min(non_negative(epsilon, "epsilon"), 700)))


def min_entropy_leakage(epsilon: float, individuals: int, values: int) -> float:
    """Return the bits by which a release can lower a whole table's min-entropy: u log2(v e^eps/(v - 1 + e^eps)) (T eq.
    2.2).

    >>> round(min_entropy_leakage(1.0, individuals=1, values=2), 4)
    0.5481
    """
    u, v = whole(individuals, "individuals"), whole(values, "values", least=2)
    epsilon = non_negative(epsilon, "epsilon")
    if epsilon < 1:  # where the logarithms cancel
        return u * (epsilon - math.log1p(math.expm1(epsilon) / v)) / math.log(2)
    return u * (math.log2(v) - math.log2(1 + (v - 1) * math.exp(-epsilon)))


def belief_bound(epsilon: float, people: int, difference: float = 1.0, sensitivity: float = 1.0) -> float:
    """Return Lee and Clifton's bound on belief in a guess of which one of m `people` is absent: 1/(1 + (m - 1) exp(-eps
    Dv/Df)), with Dv the largest difference between two candidate answers and Df the sensitivity.

    >>> round(belief_bound(1.0, people=2), 4)
    0.7311
    """
    m = whole(people, "people", least=2)
    ratio = positive(difference, "difference") / positive(sensitivity, "sensitivity")
    return 1 / (1 + (m - 1) * math.exp(-non_negative(epsilon, "epsilon") * ratio))


def epsilon_for_belief(belief: float, people: int, difference: float = 1.0, sensitivity: float = 1.0) -> float:
    """Return the largest eps that keeps `belief_bound` at or below `belief`.

    >>> round(epsilon_for_belief(belief_bound(0.7, people=10), people=10), 9)
    0.7
    """
    m = whole(people, "people", least=2)
    belief = _prior(belief)
    if not belief > 1 / m:
        raise SettingError(f"belief = {belief:g}: expected more than 1/people = {1 / m:g}, the chance of a blind guess")
    ratio = positive(sensitivity, "sensitivity") / positive(difference, "difference")
    return ratio * math.log((m - 1) * belief / (1 - belief))


def event_bound(epsilon: float, delta: float, prior: float) -> float:
    """Return the most that an event can be likely because of a person's record, if it is of probability `prior` with
    somebody else's record in its place: min(e^eps prior + delta, 1 - e^-eps (1 - prior - delta)), at most 1.

    Formal guarantee: the same holds for the mean of any cost from 0 to 1, whatever is done with the release: such a
    cost is the probability of a randomised event. Both bounds are the definition's, for the event and its complement.

    >>> round(event_bound(1.0, 0.0, 0.001), 6)
    0.002718
    """
    return _prior(prior) + _event_increase(epsilon, delta, prior)


def _event_increase(epsilon: float, delta: float, prior: float) -> float:
    """Return by how much `event_bound` exceeds `prior`, without the difference of near numbers."""
    epsilon, delta = non_negative(epsilon, "epsilon"), min(non_negative(delta, "delta"), 1.0)
    by_event = prior * math.expm1(min(epsilon, 700)) + delta
    by_complement = -math.expm1(-epsilon) * (1 - prior) + math.exp(-epsilon) * delta
    return min(by_event, by_complement, 1 - prior)


def extra_harm(epsilon: float, delta: float, harm: float, prior: float) -> float:
    """Return how much a person's expected loss can grow because its own record, not somebody else's, is in the table.
    A release may cost it up to `harm`, and the expected loss is `prior` times that otherwise (Hsu and others 2014; they
    bound it by (e^eps - 1) prior harm)."""
    return positive(harm, "harm") * _event_increase(epsilon, delta, _prior(prior)) * ROUNDING_FACTOR


def epsilon_for_payment(payment: float, harm: float, prior: float, delta: float = 0.0) -> float | None:
    """Return the largest eps at which `payment` covers `extra_harm`: None if it does not even cover delta, infinite if
    it covers every loss.

    >>> round(epsilon_for_payment(5.0, harm=10_000, prior=0.001), 4)
    0.4055
    """
    prior, delta = _prior(prior), min(non_negative(delta, "delta"), 1.0)
    covered = non_negative(payment, "payment") / positive(harm, "harm") / ROUNDING_FACTOR
    if covered >= 1 - prior:
        return math.inf
    if covered < delta:
        return None
    by_event = math.log1p((covered - delta) / prior)
    left = 1 - prior - delta
    return max(by_event, math.log(left / (1 - prior - covered)) if left > 0 else 0.0)


def group_delta(epsilon: float, delta: float, records: int) -> float:
    """Return the delta at which m records together are promised m eps, for any noise: delta (1 + e^eps + ... + e^((m -
    1) eps)), at most 1.

    Formal guarantee: tables that differ in m records are m steps of one record apart, and each step turns P(S) <= q
    into P(S) <= e^eps q + delta.

    >>> round(group_delta(1.0, 1e-6, 2) * 1e6, 3)
    3.718
    """
    epsilon, records = positive(epsilon, "epsilon"), whole(records, "records")
    if records * epsilon > 700:  # where e^(m eps) has no float, nothing is promised
        return 1.0
    return min(probability(delta) * math.expm1(records * epsilon) / math.expm1(epsilon) * (1 + 1e-12), 1.0)


def gaussian_group_delta(epsilon: float, shift: float, records: int) -> float:
    """Return `group_delta` of normal noise that one record shifts by `shift` standard deviations: exact, and far less.

    Formal guarantee: m records shift it by at most m times as much (the triangle inequality).

    >>> round(gaussian_group_delta(1.0, 1.0, 2), 4)
    0.3319
    """
    records = whole(records, "records")
    return min(gaussian_delta(records * positive(epsilon, "epsilon"), records * shift) * (1 + 1e-9), 1.0)


def _prior(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise SettingError(f"prior = {value!r}: expected a probability between 0 and 1")
    return float(value)


NATS_PER_BIT = math.log(2)  # nats
SERIES_MAX_X = 0.05  # below which a series takes the place of a formula whose terms cancel
ROUNDING_FACTOR = 1 + 1e-11  # of what is called a bound
SMALLEST_FLOAT = float(np.finfo(np.float64).tiny)  # of one that is above 0, and would be rounded to it


@dataclass(frozen=True)
class Leakage:
    """Upper bounds in bits on what is learned about one person's records, all others known; None: no bound."""

    mutual_information: float | None
    min_entropy: float | None
    by: str  # what the first follows from

    @property
    def guess_factor(self) -> float | None:
        """By what factor a guess can become likelier; None without a bound, or beyond 2^1000."""
        return None if self.min_entropy is None or self.min_entropy > 1000 else 2.0**self.min_entropy


def pure_nats(epsilon: Floats) -> Floats:
    """Return C(eps), the most nats that pure-eps releases tell about one record, however many values it may have. With
    x = eps/2 it is x coth x - 1 + ln(sinh(x)/x); near 0 a series, cut where it is above.

    >>> pure_nats(np.array([1.0, 10.0])).round(4).tolist()
    [0.1233, 6.6978]
    """
    x = np.asarray(epsilon, dtype=np.float64) / 2
    near, far = np.minimum(x, SERIES_MAX_X), np.maximum(x, SERIES_MAX_X)
    with np.errstate(over="ignore"):  # beyond all floats it is infinite, which bounds it
        formula = far / np.tanh(far) - 1 + far + np.log1p(-np.exp(-2 * far)) - np.log(2 * far)
    nats = np.where(x < SERIES_MAX_X, near**2 / 2 - near**4 / 36 + near**6 / 405, formula) * ROUNDING_FACTOR
    return np.where(x > 0, np.maximum(nats, SMALLEST_FLOAT), 0.0)


def pure_nats_slope(epsilon: Floats) -> Floats:
    """Return eps times the derivative of C: the extra nats per relative increase of the budget."""
    x = np.asarray(epsilon, dtype=np.float64) / 2
    far = np.maximum(x, SERIES_MAX_X)
    formula = 2 * far / np.tanh(far) - 1 - 4 * far**2 * np.exp(-2 * far) / np.expm1(-2 * far) ** 2
    return np.where(x < SERIES_MAX_X, x**2 - x**4 / 9 + 2 * x**6 / 135, formula)


def pure_leakage(epsilon: float, values: int | None = None) -> Leakage:
    """Return what pure-eps releases tell about a record with `values` possible values (None: any number).

    >>> found = pure_leakage(1.0, values=2)
    >>> round(found.mutual_information, 4), round(found.min_entropy, 4)
    (0.1779, 0.5481)
    """
    min_entropy_bits = (
        epsilon / NATS_PER_BIT if values is None else min_entropy_leakage(epsilon, 1, whole(values, "values", least=2))
    )
    min_entropy_bits *= ROUNDING_FACTOR
    return Leakage(
        min(float(pure_nats(np.asarray(epsilon))) / NATS_PER_BIT, min_entropy_bits), min_entropy_bits, "pure epsilon"
    )


def zcdp_leakage(rho: float) -> Leakage:
    """Return what rho-zCDP releases tell."""
    return Leakage(non_negative(rho, "rho") / NATS_PER_BIT * ROUNDING_FACTOR, None, "zCDP")


def gaussian_bits(
    sensitivity: float, deviation: float, coordinates: int, answers: float = 1.0, ball: bool = False
) -> float:
    """Return the bits that answers with Gaussian noise tell if a person moves each by at most `sensitivity` in L2.
    `ball`: a record's share lies in a ball of radius sensitivity/2. An answer about secretly drawn records counts by
    its rate.

    >>> round(gaussian_bits(2.0, 10.0, 1) / (0.5 * 0.01 / NATS_PER_BIT), 3)
    0.995
    """
    p = whole(coordinates, "coordinates")
    ratio = positive(sensitivity, "sensitivity") / positive(deviation, "deviation")
    squared = ratio**2 * (0.25 if ball else p / (2 * (p + 1)))
    return answers * p / 2 * math.log1p(squared / p) / NATS_PER_BIT * ROUNDING_FACTOR


def explanation(
    epsilon: float,
    delta: float = 0.0,
    prior: float = 0.5,
    people: int = 100,
    harm: float | None = None,
    payment: float | None = None,
) -> dict[str, Any]:
    """Return what `parley budget explain --json` prints, for a `prior` belief in a fact and one among `people`.
    `harm`: what the fact, once believed, may cost a person; `payment`: what it is paid."""
    positive(epsilon, "epsilon")
    whole(people, "people", least=2)
    failure = 0.0
    if delta > 0:
        low, high, failure = approximate_posterior(epsilon, delta, prior)
    else:
        low, high = posterior_bounds(epsilon, prior)
    pure = delta == 0  # the last three are proved for pure epsilon only
    return {
        "epsilon": epsilon,
        "delta": delta,
        "prior": prior,
        "posterior": {"low": low, "high": high, "failure": failure},
        "least_total_error": least_total_error(epsilon, delta),
        "detection_at_5_percent_false_alarms": 1 - float(error_tradeoff(epsilon, delta, 0.05)),
        "min_entropy_leakage_bits": min_entropy_leakage(epsilon, 1, 2) if pure else None,
        "mutual_information_bits": _mutual_information(epsilon, delta),
        "belief_bound": belief_bound(epsilon, people) if pure else None,
        "epsilon_for_belief_one_half": epsilon_for_belief(0.5, people) if pure and people > 2 else None,
        "harm": None if harm is None else _harm(epsilon, delta, harm, prior, payment),
        "adjacency": Adjacency.REPLACE_ONE,
    }


def _harm(epsilon: float, delta: float, harm: float, prior: float, payment: float | None) -> dict[str, Any]:
    covered = None if payment is None else epsilon_for_payment(payment, harm, prior, delta)
    every = covered is not None and math.isinf(covered)
    return {
        "harm": harm,
        "expected_without": harm * prior,
        "extra": extra_harm(epsilon, delta, harm, prior),
        "payment": payment,
        "epsilon_covered": None if every else covered,
        "every_epsilon_covered": every,
    }


def _mutual_information(epsilon: float, delta: float) -> float | None:
    """Return bits about one record, all others known; with a delta, for Gaussian noise without secret draws. With
    secret draws the same epsilon and delta may reveal rarely drawn records in full."""
    if delta == 0:
        return pure_leakage(epsilon).mutual_information
    try:
        rho = series_rho("gaussian", Fraction(epsilon), Fraction(delta), 1)
    except SettingError:  # noise of such a size is not calibrated
        return None
    return None if rho is None else zcdp_leakage(upper(rho)).mutual_information


def sentences(content: dict[str, Any], people: int) -> list[str]:
    """Return sentences for the figures of `explanation`; bounds are rounded to the side on which they hold."""
    posterior = content["posterior"]
    lines = []
    if posterior["failure"] < 1:
        low, high, failure = (
            percent(posterior["low"], "below"),
            percent(posterior["high"], "above"),
            posterior["failure"],
        )
        except_for = (
            f", except with probability at most {number(failure, side='above')} ({WIDER_NOTE})" if failure else ""
        )
        lines.append(
            f"Someone who gave a claim about a person a probability of {percent(content['prior'])} before the release "
            f"can end up between {low} and {high}{except_for}."
        )
    lines.append(
        "A test for a person's record with false alarms in 5% of cases detects the record in at most "
        f"{percent(content['detection_at_5_percent_false_alarms'], 'above')} of cases. For every test, the rates of "
        f"false alarms and misses add up to at least {percent(content['least_total_error'], 'below')}."
    )
    if content["belief_bound"] is not None:
        bits, belief = (
            number(content["min_entropy_leakage_bits"], side="above"),
            percent(content["belief_bound"], "above"),
        )
        lines += [
            f"Guessing a yes-or-no fact about one person becomes easier by at most {bits} bits (min-entropy).",
            f"Someone who must tell which of {people} people was replaced is right with probability at most {belief}.",
        ]
    if content["mutual_information_bits"] is not None:
        bits = number(content["mutual_information_bits"], side="above")
        condition = "" if content["delta"] == 0 else ", if the noise is Gaussian and no records are drawn in secret"
        lines.append(
            f"The release reveals at most {bits} bits about one person's record on average (mutual "
            f"information){condition}."
        )
    if content["harm"] is not None:
        lines.append(_harm_sentence(content["harm"]))
    return [
        *lines,
        "Every bound holds for every person and for an adversary who knows all other records. Two tables are "
        f"neighbours if replacing one person's records turns one into the other ({Adjacency.REPLACE_ONE}).",
    ]


def _harm_sentence(harm: dict[str, Any]) -> str:
    text = (
        f"Someone who may lose {number(harm['harm'])} and would expect to lose {number(harm['expected_without'])} with "
        f"somebody else's record in the table expects to lose at most {number(harm['extra'], side='above')} more with "
        "its own."
    )
    if harm["payment"] is None:
        return text
    paid, covered = f"A payment of {number(harm['payment'])}", harm["epsilon_covered"]
    if harm["every_epsilon_covered"]:
        return f"{text} {paid} covers that at any ε."
    if covered is None:
        return f"{text} {paid} covers that at no ε: δ alone costs more."
    return f"{text} {paid} covers that up to ε = {number(covered, side='below')}."
