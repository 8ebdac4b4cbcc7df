"""The plain mean, weighted by the owners' public sizes (W eq. 4)."""

from collections.abc import Sequence

import numpy as np

from parley.queries import Answer
from parley.validate import Floats


def mean_variance(records: Floats, variances: Floats) -> float:
    """v = sum_l (n_l/n)^2 var_l: the variance of one coordinate of the weighted mean.

    >>> mean_variance(np.array([1.0, 3.0]), np.array([16.0, 0.0]))
    1.0
    """
    return float((records / records.sum()) ** 2 @ variances)


def weighted_mean(answers: Sequence[Answer]) -> Floats:
    """sum_l (n_l/n) answer_l.

    >>> a, b = Answer("q", "a", 1, np.array([4.0])), Answer("q", "b", 3, np.array([0.0]))
    >>> weighted_mean([a, b])
    array([1.])
    """
    total = sum(answer.records for answer in answers)
    combined = np.zeros_like(answers[0].value)
    for answer in answers:
        combined += (answer.records / total) * answer.value
    return combined
