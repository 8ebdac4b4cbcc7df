"""Forecasts of answers used as they come: the same code is run on the pilot, on a virtual clock."""

import pytest

import parley
from parley.errors import SettingError
from parley.forecasting import forecast
from parley.forecasting.planner import plan
from parley.games.stakes import noise_law
from samples import make_terms, regression_table

ASYNC = {"learning__algorithm": "gradient-descent", "learning__decay": 0.0, "learning__staleness": 100, "learning__step": 0.5}


def slow_terms(**overrides):
    """A fast owner and one that gives a fifth of the answers."""
    terms = make_terms(2000, 2000, epsilon=2.0, **ASYNC | {"learning__horizon": 15, "privacy__clip": 40.0} | overrides)
    return terms.changed(owners={"b": {"answers": 3}})


def test_the_forecast_is_a_run_on_the_pilot_and_meets_many_runs():
    """Owners whose tables are the pilot: within 4 standard errors of the two means, where twice the excess would be noticed."""
    table, terms = regression_table(2000, 1), slow_terms()
    expected = forecast(terms, pilot=table, resamples=2)
    assert expected.method == "pilot-run"
    assert len(expected.path) == 18
    assert any("all owners give their last at the same time" in warning for warning in expected.warnings)
    runs = parley.train(terms, [parley.Owner(name, table) for name in "ab"], replicates=500, seed=1).path[-1]
    error = runs.std(ddof=1) * (1 / 500 + 1 / 96) ** 0.5
    assert abs(runs.mean() - expected.path[-1]) < 4 * error
    assert abs(runs.mean() - 2 * expected.path[-1]) > 4 * error


def test_an_owner_with_fewer_answers_is_not_taken_for_a_quieter_one():
    """Gaussian noise: a fifth of the answers with a fifth of the variance each weigh as much as all of them."""
    table = regression_table(2000, 1)
    found = forecast(slow_terms(privacy__mechanism="gaussian", privacy__delta=1e-6), pilot=table, resamples=2)
    first, second = found.owners
    assert first.marginal_value == pytest.approx(second.marginal_value, rel=1e-6)
    assert first.shapley_value == pytest.approx(second.shapley_value, rel=1e-6)


def test_plans_and_negotiations_say_that_they_are_for_rounds_that_wait():
    with pytest.raises(SettingError, match="plan without the key"):
        plan(slow_terms(), pilot=regression_table(200, 1))
    with pytest.raises(SettingError, match="negotiate without the key"):
        noise_law(slow_terms(), (0.1, 10.0))
