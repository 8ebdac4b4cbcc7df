"""What a model costs that is made of so many rows."""

import numpy as np
import pytest

from parley.decisions.knowledge.baselines import INTERVAL_ERRORS, MAX_EXTRAPOLATION, LearningCurve
from parley.decisions.outlook.coalition import CoalitionCost
from parley.learning.outcome.boosting import LEAST_ROWS

SIZES = (200.0, 400.0)


def curve_of(power, error=1e-4, floor=1.0, fall=20.0):
    def cost(n):
        return floor + fall * n**-power

    rises = [cost(n) - cost(800.0) for n in SIZES]
    return LearningCurve.through(800.0, cost(800.0), error, SIZES, rises, (error, error)), cost


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_power_law_is_continued(power):
    curve, cost = curve_of(power)
    sizes = np.array([100.0, 800.0, 3000.0, 800.0 * MAX_EXTRAPOLATION])
    mean, error = curve.at(sizes)
    np.testing.assert_allclose(mean, cost(sizes), rtol=1e-2)
    assert np.all(np.abs(mean - cost(sizes)) < 3 * error + 1e-12)
    assert error[2] > error[1] == 1e-4


def test_nothing_is_said_of_far_more_rows_or_of_too_few():
    curve, _ = curve_of(0.5)
    far = curve.at(np.array([800.0 * MAX_EXTRAPOLATION, 1e9]))[0]
    assert far[0] == far[1]
    assert np.isinf(curve.at(np.array([LEAST_ROWS - 1.0]))[0][0])


def test_rows_never_hurt():
    """Smaller sizes that came out cheaper, by chance, make the curve flat."""
    curve = LearningCurve.through(800.0, 2.0, 0.1, SIZES, (-0.1, -0.05), (0.1, 0.1))
    assert np.all(curve.at(np.array([50.0, 800.0, 5000.0]))[0] == 2.0)


def test_trees_are_chosen_where_they_are_a_standard_error_ahead():
    curve = LearningCurve.through(800.0, 1.0, 0.1, SIZES, (0.0, 0.0), (1e-9, 1e-9))
    records = np.full(2, 800.0)
    linear = np.array([1.05, 1.2])
    assert curve.ahead(records, linear).tolist() == [False, True]
    np.testing.assert_allclose(curve.best(records, linear), [1.05, 1.0])
    np.testing.assert_allclose(curve.best(records, linear, -1), [1.05, 1 - INTERVAL_ERRORS * 0.1], rtol=1e-6)
    np.testing.assert_allclose(curve.best(records, linear, 1), [1.05, 1 + INTERVAL_ERRORS * 0.1], rtol=1e-6)


def test_games_count_from_the_better_model_alone_in_any_units():
    curve = LearningCurve.through(800.0, 1.0, 0.1, SIZES, (0.0, 0.0), (1e-9, 1e-9))
    cost, records = CoalitionCost(1000.0, 0.0, 1.0, 5.0, curve), np.array([100.0, 800.0, 10_000.0])
    np.testing.assert_allclose(cost.alone(records), [1.0, 1.0, 0.1])
    np.testing.assert_allclose(cost.in_units(4.0).alone(records), 4 * cost.alone(records))
    np.testing.assert_allclose(curve.above(0.5).at(records)[0], 0.5)


def test_no_extrapolated_loss_is_below_zero():
    """Trees that separate the classes ever better reach zero, not less, in every unit and from every level."""
    curve = LearningCurve.through(160.0, 0.02, 0.01, (40.0, 80.0), (0.3, 0.15), (0.01, 0.01))
    records = np.array([160.0, 1280.0])
    np.testing.assert_allclose(curve.at(records)[0], [0.02, 0.0])
    assert np.all(curve.towards(records, -3.0) == 0.0)
    np.testing.assert_allclose(curve.above(0.05).at(records)[0], [-0.03, -0.05])
    np.testing.assert_allclose(curve.above(0.05).in_units(2.0).best(records[1:], np.ones(1), -1), -0.1)
