"""Which iterates make the model: the last, the average of the last half of the rounds, or of all.

What the learner makes of noisy answers is post-processing: it costs no privacy.
"""

from typing import Literal

import numpy as np

from parley.validate import Floats

Average = Literal["last", "tail", "all"]


def averaged(average: Floats, theta: Floats, number: int, horizon: int, which: Average) -> Floats:
    """The average after round `number` moved to `theta`: the mean of the iterates so far that count, or `theta` where
    none did yet.

    >>> mean = np.zeros(1)
    >>> for number in range(1, 5):
    ...     mean = averaged(mean, np.array([float(number)]), number, 4, "tail")
    >>> mean
    array([3.5])
    """
    counted = number - (horizon // 2 if which == "tail" else 0)
    return theta if which == "last" or counted <= 1 else np.asarray(average + (theta - average) / counted)
