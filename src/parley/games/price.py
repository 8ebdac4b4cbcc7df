"""What joining must bring an owner to be worth its privacy cost: the same number for a forecast, an inside view and the demo."""

import numpy as np

from parley.games.privacy_cost import PrivacyCosts
from parley.terms import Terms


def joining_price(terms: Terms, name: str) -> float | None:
    """What joining must save a row, in test cost, to be worth this owner's privacy cost: that of its epsilon, over its value of one unit of
    test cost. None where its terms do not say both.

    Where one noise protects everybody, all spend the smallest epsilon, and that is what it costs.
    """
    part = terms.owner(name)
    if part.value is None or part.privacy_cost is None or not part.value > 0:
        return None
    epsilon = np.array([float(terms.promised_epsilon(name))])
    return float(PrivacyCosts.of([part.privacy_cost])(epsilon)[0]) / part.value
