"""Counts beside what they were counted in: the rate and the weight of a record of which a count is learned.

The weight w is the exposure, clipped to its declared bounds, times the typical rate; the rate is count/w, the count
clipped to its bounds. Without a column of exposures every exposure is 1; where nobody says what rate is typical it is
1, too.

Formal guarantee: both are functions of the record, the terms and the public sample, and within the ends below, in
floating point too: each operation keeps the order of numbers.
"""

import numpy as np

from parley.data.sources import Rows
from parley.data.table import numbers
from parley.terms import Model
from parley.validate import LARGEST, SMALLEST, Floats, printable


def weights(model: Model, typical: float, rows: Rows, name: str) -> Floats:
    """The weight of each record [n], from `SMALLEST` to `LARGEST`."""
    if model.exposure is None:
        return np.full(len(rows), _weights(typical, np.array(1.0)))
    exposure = numbers(rows, model.exposure, name, hint="an exposure is a number")
    return _weights(typical, np.clip(exposure, *model.bounds[model.exposure]))


def weight_ends(model: Model, typical: float) -> tuple[float, float]:
    """The least and the largest weight that a record can have."""
    ends = (1.0, 1.0) if model.exposure is None else model.bounds[model.exposure]
    low, high = _weights(typical, np.array(ends))
    return float(low), float(high)


def rate_ends(model: Model, typical: float, counts: tuple[float, float]) -> tuple[float, float]:
    """The least and the largest rate, where arithmetic can bear them."""
    low, high = weight_ends(model, typical)
    return min(counts[0] / high, LARGEST), min(counts[1] / low, LARGEST)


def words(model: Model) -> str:
    """What is counted, as a sentence.

    >>> words(Model(kind="poisson-regression", target="claims", bounds={"claims": (0, 20)}))
    "Target 'claims': a count, cut to 0 to 20."
    """
    low, high = model.bounds[model.target]
    said = f"Target '{printable(model.target)}': a count, cut to {low:g} to {high:g}"
    if model.exposure is None:
        return f"{said}."
    low, high = model.bounds[model.exposure]
    return f"{said}; per unit of '{printable(model.exposure)}', cut to {low:g} to {high:g}."


def _weights(typical: float, exposure: Floats) -> Floats:
    return np.clip(exposure * (typical if typical > 0 else 1.0), SMALLEST, LARGEST)
