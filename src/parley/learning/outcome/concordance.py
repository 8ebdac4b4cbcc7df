"""Harrell's concordance index: how often a model is right about whom it befell first."""

import numpy as np
from numpy.typing import NDArray

from parley.validate import Floats


def concordance(time: Floats, happened: NDArray[np.bool_], risk: Floats) -> float | None:
    """The share of comparable pairs in which the one that it befell first has the higher risk; equal risks count half.
    None without such pairs.

    A pair is comparable if it befell one of them, and the other was watched for longer, or as long and it had not
    happened by then.

    >>> concordance(np.array([1.0, 2.0, 2.0]), np.array([True, True, False]), np.array([3.0, 1.0, 1.0]))
    0.8333333333333334
    """
    right, pairs = 0.0, 0
    for moment in np.unique(time[happened]):
        first = risk[happened & (time == moment)]
        later = np.sort(risk[(time > moment) | (~happened & (time == moment))])
        below, up_to = (np.searchsorted(later, first, side=side).sum() for side in ("left", "right"))
        right, pairs = right + (below + up_to) / 2, pairs + len(first) * len(later)
    return float(right / pairs) if pairs else None
