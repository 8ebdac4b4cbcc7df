"""Forecasts of answers used as they come: the same code is run on the pilot, on a virtual clock."""

from dataclasses import replace

import numpy as np
import pytest
from samples import make_terms, regression_table

import parley
from parley.decisions.expectation.pilot_runs import pilot_models
from parley.decisions.games.stakes import noise_law
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.outlook.forecast import forecast
from parley.decisions.outlook.remedies import compare_noise
from parley.decisions.outlook.worth import require_worth
from parley.decisions.planning.planner import plan
from parley.errors import BelowBaselineError, SettingError
from parley.numerals import number
from parley.report.words import forecast as said

ASYNC = {
    "learning__algorithm": "gradient-descent",
    "learning__decay": 0.0,
    "learning__staleness": 100,
    "learning__step": 0.5,
}


def slow_terms(**overrides):
    """A fast owner and one that gives a fifth of the answers."""
    terms = make_terms(2000, 2000, epsilon=2.0, **ASYNC | {"learning__horizon": 15, "privacy__clip": 40.0} | overrides)
    return terms.changed(owners={"b": {"answers": 3}})


def test_the_forecast_is_a_run_on_the_pilot_and_meets_many_runs():
    """Owners whose tables are the pilot: within 4 standard errors of the two means, where twice the excess would be
    noticed."""
    table, terms = regression_table(2000, 1), slow_terms()
    expected = forecast(terms, pilot=table, resamples=2)
    assert expected.method == "pilot-run"
    assert len(expected.path) == 18
    assert any("all owners finish at the same time" in warning for warning in expected.warnings)
    runs = parley.train(terms, [parley.Owner(name, table) for name in "ab"], replicates=500, seed=1).path[-1]
    error = runs.std(ddof=1) * (1 / 500 + 1 / 96) ** 0.5
    assert abs(runs.mean() - expected.path[-1]) < 4 * error
    assert abs(runs.mean() - 2 * expected.path[-1]) > 4 * error


def test_an_owner_with_fewer_answers_is_not_taken_for_a_quieter_one():
    """Gaussian noise: a fifth of the answers with a fifth of the variance each weigh as much as all of them."""
    table = regression_table(2000, 1)
    found = forecast(slow_terms(privacy__mechanism="gaussian", privacy__delta=1e-6), pilot=table, resamples=2)
    first, second = found.values
    assert first.marginal_value == pytest.approx(second.marginal_value, rel=1e-6)
    assert first.shapley_value == pytest.approx(second.shapley_value, rel=1e-6)


def test_plans_and_negotiations_say_that_they_are_for_rounds_that_wait():
    with pytest.raises(SettingError, match=r"plan without learning\.staleness"):
        plan(slow_terms(), pilot=regression_table(200, 1))
    with pytest.raises(SettingError, match="remove the key to negotiate"):
        noise_law(slow_terms(), (0.1, 10.0))


def test_a_forecast_at_given_speeds_meets_many_runs_at_those_speeds():
    """The second owner never answers: within 4 standard errors of runs where it does not, and not of runs where it
    does."""
    table, terms = regression_table(2000, 1), slow_terms()
    found = forecast(terms, pilot=table, resamples=2, speeds={"b": 0})
    assert [owner.name for owner in found.owners] == ["a"]
    assert any("b never answers" in warning for warning in found.warnings)
    owners = [parley.Owner(name, table) for name in "ab"]
    silent, heard = (
        parley.train(terms, owners, replicates=500, seed=1, speeds=each).path[-1] for each in ({"b": 0}, None)
    )
    error = silent.std(ddof=1) * (1 / 500 + 1 / 96) ** 0.5
    assert abs(silent.mean() - found.path[-1]) < 4 * error
    assert abs(heard.mean() - found.path[-1]) > 4 * error
    with pytest.raises(SettingError, match="owners that answer"):
        forecast(terms, pilot=table, speeds={"a": 0, "b": 0})


def test_who_never_answers_is_left_out_and_the_model_is_what_it_would_be():
    """The mean of the last half waits for the silent owner's answers, as it does in training; other speeds give another
    model."""
    table, terms = regression_table(2000, 1), slow_terms(learning__average="tail")
    whole, fewer = open_pilot(terms, table), open_pilot(terms, table, {"b": 0})
    silent = pilot_models(replace(whole, speeds={"b": 0}), 1, 0, noiseless=True)
    np.testing.assert_array_equal(pilot_models(fewer, 1, 0, noiseless=True), silent)
    shorter = replace(fewer, algorithm=replace(fewer.algorithm, horizon=sum(fewer.algorithm.answers)))
    assert not np.allclose(pilot_models(shorter, 1, 0, noiseless=True), silent, rtol=1e-6)
    usual, slow = (
        pilot_models(each, 1, 0, noiseless=True) for each in (whole, open_pilot(terms, table, {"a": 20, "b": 1}))
    )
    assert not np.allclose(usual, slow, rtol=1e-6)


def test_nobody_is_sent_to_plans_of_rounds_that_wait():
    table, terms = regression_table(300, 1), slow_terms(learning__step=1e-4, learning__horizon=40)
    found = forecast(terms, pilot=table, resamples=2)
    assert "parley plan" not in " ".join(said.verdict_lines(found))
    below = replace(found)
    vars(below)["worth"] = replace(found.worth, together=1e9)
    assert "plan without learning.staleness" in " ".join(said.verdict_lines(below))
    with pytest.raises(BelowBaselineError, match=r"plan without learning\.staleness"):
        require_worth(below.worth)


def test_one_forecast_has_one_test_cost(tmp_path):
    """At the top, in the table of kinds of noise, and among owners if they do not differ; if they do, the page says
    so."""
    regression_table(200, 1).to_csv(tmp_path / "public.csv", index=False)
    terms = slow_terms(model__public=str(tmp_path / "public.csv"), model__radius=5.0)
    found = forecast(terms, resamples=2, differences=Heterogeneity.stated(0.0))
    assert compare_noise(found).kinds["each_owner"].together == pytest.approx(found.worth.together, rel=1e-12)
    drawn = found.outlook.together[0].reshape(5, -1).mean(axis=0)  # five worlds share their chance
    assert abs(found.owners[0].together - found.worth.together) < 3 * drawn.std() / len(drawn) ** 0.5
    assert "Because of heterogeneity" not in said.assumption(found)
    apart = forecast(terms, resamples=2, differences=Heterogeneity.stated(5.0))
    assert apart.owners[0].together > found.owners[0].together
    more = any(owner.together > apart.worth.together for owner in apart.owners)
    words = f"cost on some owners' rows is higher than its average of {number(apart.worth.together, 5)}"
    assert (words in said.assumption(apart)) == more
