"""Gains at other sizes: exact on the law, weighted least squares off it, and error bars that cover."""

import numpy as np
import pytest

from parley.errors import SettingError
from parley_lab.papers.pejo2018.learning_curve import LearningCurve, expect

LAW = LearningCurve(limit=2.5, slope=900.0)


@pytest.mark.parametrize("sizes", [(100, 200), (100, 250, 900)])
def test_gains_on_the_law_are_forecast_exactly(sizes):
    found = expect(sizes, [[LAW(n)] * 2 for n in sizes], at=5000)
    assert found.gain == pytest.approx(LAW(5000), abs=1e-9)
    assert (found.curve.limit, found.curve.slope) == pytest.approx((2.5, 900.0))
    assert found.error == pytest.approx(0, abs=1e-12)


def test_off_the_law_it_is_weighted_least_squares():
    sizes, gains = np.array([100.0, 250.0, 900.0]), np.array([-3.0, 0.5, 0.7])
    line = np.polyfit(1 / sizes, gains, 1, w=np.sqrt(sizes))
    assert expect(sizes, [[g] for g in gains], at=3000).gain == pytest.approx(np.polyval(line, 1 / 3000))
    assert expect(sizes, [[g] for g in gains], at=3000).error is None


def spread_of_forecasts(divisions, counted, rng):
    """The deviation of forecasts' distances in units of what they call their standard error."""
    sizes, apart = (200, 400), []
    for _ in range(400):
        found = expect(sizes, [LAW(n) + rng.standard_normal(divisions) for n in sizes], at=4000)
        apart.append((found.gain - LAW(4000)) / (found.error * counted))
    return np.std(apart)


def test_the_standard_error_is_that_of_forecasts():
    """With 12 divisions the ratio has deviation of about 1.1 (two variances of 11 degrees of freedom); half the error
    would give 2.2."""
    assert 0.9 < spread_of_forecasts(12, 1.0, np.random.default_rng(0)) < 1.3
    assert not 0.9 < spread_of_forecasts(12, 0.5, np.random.default_rng(0)) < 1.3


def test_one_size_is_no_curve():
    for users, gains in (
        ([100], [[1.0]]),
        ([100, 100], [[1.0], [1.0]]),
        ([100, 200], [[1.0], []]),
        ([0, 200], [[1.0], [1.0]]),
    ):
        with pytest.raises(SettingError):
            expect(users, gains, at=1000)
