"""How a gain grows with the owners' sizes: gain(n) = limit - slope/n, the rate at which a model of fixed size stops
gaining by more data.

Measured at some sizes it says what to expect at another. Formal guarantee: exact where gains follow that law; the
standard error counts the spread between divisions at each size as if they and the sizes were independent, and not that
the law may be wrong. Where all are drawn from the same public users, as in forecasts here, it does not count which
users happen to be public either: it is a lower end of the true one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.errors import SettingError
from parley.validate import Floats, finite, positive


@dataclass(frozen=True)
class LearningCurve:
    """gain(n) = limit - slope/n, for owners of n users each."""

    limit: float
    slope: float

    def __call__(self, users: float) -> float:
        return self.limit - self.slope / positive(users, "users")


@dataclass(frozen=True)
class Expected:
    """A gain that was not measured, its standard error over divisions (None of a single one; too small if they share
    users), the curve."""

    gain: float
    error: float | None
    curve: LearningCurve


def expect(users: Sequence[float], gains: Sequence[Sequence[float]], at: float) -> Expected:
    """From gains over divisions at two sizes or more, what to expect of owners of `at` users each.

    Sizes are weighted by themselves: a gain over n users' held-out ratings has a variance of about 1/n.

    >>> expect([100, 200, 400], [[-1.0], [0.0], [0.5]], at=2000).gain
    0.9
    """
    sizes = finite(users, "users")
    if (
        len(sizes) != len(gains)
        or len(np.unique(sizes)) < 2
        or not (sizes > 0).all()
        or not all(len(one) for one in gains)
    ):
        raise SettingError("users, gains: expected gains at two or more different sizes")
    combine = _combination(sizes, positive(at, "at"))
    means = np.array([np.mean(one) for one in gains])
    error = None
    if min(len(one) for one in gains) > 1:
        error = float(np.sqrt(combine**2 @ np.array([np.var(one, ddof=1) / len(one) for one in gains])))
    limit = float(_combination(sizes, np.inf) @ means)
    gain = float(combine @ means)
    return Expected(round(gain, 12), error, LearningCurve(limit, (limit - gain) * at))


def _combination(sizes: Floats, at: float) -> Floats:
    """The weights with which mean gains at the sizes make the weighted least squares estimate at another."""
    terms = np.stack([np.ones_like(sizes), -1 / sizes], axis=1)
    return np.asarray(np.array([1.0, -1 / at]) @ np.linalg.solve(terms.T @ (sizes[:, None] * terms), terms.T * sizes))
