"""Intervals for a forecast from how it scatters over samples drawn again."""

import numpy as np

from parley.validate import Floats


def bootstrap_interval(forecast: float, as_if_true: float, others: Floats, wider: float = 1.0) -> tuple[float, float]:
    """The hull of the two 90 % bootstrap intervals in ratios, of percentiles and turned around: neither alone covers at
    all sample sizes.

    As `others` scatter around the source, the source scatters around the truth. `wider` stretches on the scale of
    logarithms. Where not all are positive there is no such scale, and differences take the place of ratios.

    >>> low, high = bootstrap_interval(2.0, 1.0, np.linspace(0.5, 2.0, 1001))
    >>> round(low, 2), round(high, 2)
    (1.04, 3.85)
    >>> low, high = bootstrap_interval(2.0, 1.0, np.linspace(-0.5, 2.0, 1001), 1.5)
    >>> round(low, 2), round(high, 2)
    (-0.06, 4.06)
    """
    ends = np.quantile(others, [0.05, 0.95])
    if not min(as_if_true, float(ends[0])) > 0:
        below, above = (float(end) for end in (ends - as_if_true) * wider)
        return forecast + min(0.0, below, -above), forecast + max(0.0, above, -below)
    low, high = (float(q) for q in np.quantile(others / as_if_true, [0.05, 0.95]) ** wider)
    return forecast * min(1.0, low, 1 / high), forecast * max(1.0, high, 1 / low)
