"""What joining must bring an owner to be worth its privacy cost: the same number for a forecast, an inside view and the
demo."""

import numpy as np

from parley.decisions.games.privacy_cost import PrivacyCosts, stated_cost
from parley.terms import Terms


def joining_price(terms: Terms, name: str) -> float | None:
    """What joining must save a row, in test cost, to be worth this owner's privacy cost: that of its epsilon, over its
    value of one unit of test cost. None where its terms do not say both.

    Where one noise protects everybody, all spend the smallest epsilon, and that is what it costs.
    """
    part = terms.owner(name)
    cost = stated_cost(terms, part)
    if part.value is None or cost is None or not part.value > 0:
        return None
    epsilon = np.array([float(terms.promised_epsilon(name))])
    return float(PrivacyCosts.of([cost])(epsilon)[0]) / part.value


def price_note(terms: Terms, name: str) -> str | None:
    """Why an owner's privacy cost counts for nothing, or its value does; None: it is counted, or there is nothing to
    count."""
    part = terms.owner(name)
    if part.privacy_cost is None and part.value is None:
        return None
    if part.value is None or part.privacy_cost is None:
        missing, other = ("value", "privacy_cost") if part.value is None else ("privacy_cost", "value")
        return (
            f"owners.{name}.{missing}: missing; its {other} counts for nothing here, since joining has a price only "
            "where it has both"
        )
    if not part.value > 0:
        return f"owners.{name}.value = 0: its privacy_cost counts for nothing here, since a price is cost / value"
    return None
