"""What an epsilon promises to a person: the figures, and the same in sentences."""

from fractions import Fraction
from typing import Any

from parley.errors import SettingError
from parley.numerals import number, percent
from parley.privacy.accounting.leakage import pure_leakage, zcdp_leakage
from parley.privacy.accounting.meaning import (
    WIDER,
    approximate_posterior,
    belief_bound,
    epsilon_for_belief,
    error_tradeoff,
    least_total_error,
    min_entropy_leakage,
    posterior_bounds,
)
from parley.privacy.accounting.series import series_rho
from parley.privacy.adjacency import Adjacency
from parley.validate import positive, upper, whole


def explanation(epsilon: float, delta: float = 0.0, prior: float = 0.5, people: int = 100) -> dict[str, Any]:
    """The object that `parley budget explain --json` prints.

    `prior` is what an adversary believes beforehand about a
    fact; `people` are those among whom somebody is to be found.
    """
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
        "adjacency": Adjacency.REPLACE_ONE,
    }


def _mutual_information(epsilon: float, delta: float) -> float | None:
    """Bits about one record, everybody else known: by pure epsilon; with a delta, if the noise is Gaussian and no
    records are drawn in secret: seldom drawn ones may be told all of at the same epsilon and delta."""
    if delta == 0:
        return pure_leakage(epsilon).mutual_information
    try:
        rho = series_rho("gaussian", Fraction(epsilon), Fraction(delta), 1)
    except SettingError:  # noise of such a size is not calibrated
        return None
    return None if rho is None else zcdp_leakage(upper(rho)).mutual_information


def sentences(content: dict[str, Any], people: int) -> list[str]:
    """What the figures of `explanation` say, for people; bounds are rounded to the side on which they hold."""
    posterior = content["posterior"]
    said = []
    if posterior["failure"] < 1:
        low, high, failure = (
            percent(posterior["low"], "below"),
            percent(posterior["high"], "above"),
            posterior["failure"],
        )
        except_for = f", except with probability at most {number(failure, side='above')} ({WIDER})" if failure else ""
        said.append(
            f"Somebody who believes something about a person with probability {percent(content['prior'])} cannot, "
            f"after seeing the release, believe it with more than {high} or less than {low}{except_for}."
        )
    said.append(
        "Whoever tests whether a person's record was used, and raises a false alarm in 5% of cases, finds it in at "
        "most "
        f"{percent(content['detection_at_5_percent_false_alarms'], 'above')} of cases; false alarms and misses add up "
        f"to at least "
        f"{percent(content['least_total_error'], 'below')}."
    )
    if content["belief_bound"] is not None:
        bits, belief = (
            number(content["min_entropy_leakage_bits"], side="above"),
            percent(content["belief_bound"], "above"),
        )
        said += [
            f"To guess a yes-or-no fact about one person becomes easier by at most {bits} bits (min-entropy).",
            f"Whoever must tell which of {people} people is missing cannot be surer than {belief} of a guess.",
        ]
    if content["mutual_information_bits"] is not None:
        bits = number(content["mutual_information_bits"], side="above")
        noise = "" if content["delta"] == 0 else "If the noise is Gaussian, and no records are drawn in secret: of"
        said.append(
            f"{noise or 'Of'} all that one person's record may hold, at most {bits} bits become known on average "
            "(mutual information)."
        )
    return [
        *said,
        "This holds for the worst person and an adversary who knows everybody else's record. Two tables are "
        f"neighbours if one person's records are replaced ({Adjacency.REPLACE_ONE}).",
    ]
