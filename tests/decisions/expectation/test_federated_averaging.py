"""Forecasts of federated averaging: the owners' steps are part of the algorithm's own code, so moments and pilot runs
take one path."""

import numpy as np
import pytest
from samples import BOUNDS, GAUSSIAN, class_table, make_terms, regression_table

import parley
from parley.decisions.expectation.error_moments import error_moments
from parley.decisions.games import negotiate
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.outlook.forecast import forecast
from parley.decisions.planning.search import Search
from parley.errors import TermsError
from parley.learning.algorithms.federated_averaging import FederatedAveraging
from parley.losses import LinearRegression


def averaging_terms(*sizes, **overrides):
    settings = {"learning__local_steps": 6, "learning__step": "auto", "learning__horizon": 6} | GAUSSIAN
    return make_terms(*sizes, learning__algorithm="federated-averaging", **settings | overrides)


def test_the_moments_are_those_of_the_algorithm_itself():
    """4,000 runs of the algorithm's own code on a quadratic with a penalty, in standard errors."""
    T, curvature, start, r = 8, np.array([0.5, 2.0]), np.array([1.0, -1.0]), 0.2
    algorithm = FederatedAveraging(LinearRegression(r), T, None, 0.3, local_steps=5)
    moments = error_moments(algorithm, curvature, start)
    rng = np.random.default_rng(0)
    state = algorithm.start(np.zeros(2), (4000,))
    state = type(state)(1, state.theta + start, state.memory)
    for k in range(1, T + 1):
        noise = rng.normal(scale=0.7, size=state.theta.shape)
        ends = (1 - 0.3 * (curvature + r)) ** 5 * state.theta  # five steps on a quadratic, written out
        state = algorithm.update(state, (state.theta - ends) / (0.3 * 5) + noise)
        variance = 0.7**2 * moments.gain[k - 1]
        model = algorithm.model(state)
        assert (np.abs(model.mean(axis=0) - moments.bias[k - 1]) < 4.5 * np.sqrt(variance / 4000) + 1e-12).all()
        assert (np.abs(model.var(axis=0) / variance - 1) < 0.15).all()


@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_the_exact_forecast_meets_the_mean_of_many_runs(penalty):
    """One owner whose own table is the pilot: within 3 standard errors of 4,000 runs; twice the noise would be
    noticed."""
    table = regression_table(3000, 1)
    terms = averaging_terms(3000, epsilon=2.0, privacy__clip=None, model__bounds=BOUNDS, model__regularisation=penalty)
    expected = forecast(terms, pilot=table, resamples=2)
    assert expected.method == "exact-moments"
    runs = parley.train(terms, [parley.Owner("a", table)], replicates=4000, seed=1).path
    for k in (0, 2, 5):
        error = runs[k].std(ddof=1) / np.sqrt(4000)
        assert abs(runs[k].mean() - expected.path[k]) < 3 * error
    assert abs(runs[-1].mean() - 2 * expected.path[-1]) > 3 * error
    np.testing.assert_allclose(expected.run_quartiles, np.quantile(runs[-1], [0.25, 0.5, 0.75]), rtol=0.1)


def test_two_owners_of_one_law_come_out_as_forecast_and_the_reader_is_told_of_drift():
    """Owners' steps end a little apart even under one law; at these sizes that is lost in the noise."""
    tables = [regression_table(3000, 1), regression_table(2000, 2)]
    terms = averaging_terms(3000, 2000, epsilon=1.0, privacy__clip=None, model__bounds=BOUNDS)
    expected = forecast(terms, pilot=regression_table(5000, 3), resamples=10)
    runs = parley.train(
        terms, [parley.Owner(n, t) for n, t in zip("ab", tables, strict=True)], replicates=2000, seed=1
    ).path[-1]
    error = runs.std(ddof=1) / np.sqrt(2000)
    assert abs(runs.mean() - expected.relative_fitness.mean) < 3 * error + 0.03 * runs.mean()
    assert any("drift apart" in warning for warning in expected.warnings)


@pytest.mark.parametrize("kind", ["logistic-regression", "linear-regression"])
def test_a_pilot_run_forecasts_local_steps_that_are_clipped(kind):
    """On the owner's own table: within 4 standard errors of the difference, where twice the noise would be noticed."""
    classes = kind == "logistic-regression"
    table = (class_table if classes else regression_table)(1000, seed=1)
    bounds = {f"x{j}": [-4, 4] for j in range(3)} if classes else BOUNDS
    settings = {"model__regularisation": 0.1, "privacy__clip": 0.5, "learning__horizon": 4, "learning__local_steps": 8}
    terms = averaging_terms(1000, epsilon=0.5, model__kind=kind, model__bounds=bounds, **settings)
    expected = forecast(terms, pilot=table, resamples=4)
    assert expected.method == "pilot-run"
    assert any("clip scales down" in warning for warning in expected.warnings)
    runs = parley.train(terms, [parley.Owner("a", table)], replicates=600, seed=3, whole_path=False).path[-1]
    error = runs.std(ddof=1) * np.sqrt(1 / 600 + 1 / 1000)  # both are means over runs, the forecast's over a thousand
    assert abs(runs.mean() - expected.relative_fitness.mean) < 4 * error
    assert abs(runs.mean() - 2 * expected.relative_fitness.mean) > 4 * error


def test_no_plan_looks_at_a_local_step_beyond_the_bound_on_which_its_sensitivity_rests():
    """Steps may be at most 2/L long, L the largest curvature that records within the bounds can have: a climb that is
    always told to go on ends below that, and not far below."""
    known = open_pilot(averaging_terms(1000, epsilon=1.0, model__bounds=BOUNDS), regression_table(300, 9))
    longest = 2 / known.objective.walked_curvature(known.setup.preparation, known.setup.limits)
    assert known.algorithm.step_length == pytest.approx(longest / 2, rel=1e-4)  # "auto", as in earlier terms
    search, at = Search(0), known
    while (longer := search.neighbour(at, "step", 1)) is not None:
        at = longer
    assert 0.7 * longest < at.terms.learning.step <= longest
    with pytest.raises(TermsError, match="expected at most"):
        known.under(known.terms.changed(learning={"step": 1.01 * longest}))


def test_plans_and_games_take_it_like_any_other(tmp_path):
    pilot = regression_table(1500, 9)
    terms = averaging_terms(600, 400, epsilon=1.0, model__bounds=BOUNDS)
    proposal = parley.plan(averaging_terms(1000, epsilon=1.0, model__bounds=BOUNDS), pilot=pilot)
    found = {choice.algorithm for choice in proposal.choices}
    assert found == {"federated-averaging", "averaged-subgradient", "sufficient-statistics"}
    for choice in proposal.choices:
        assert (choice.local_steps is None) is (choice.algorithm != "federated-averaging")
        assert np.isfinite(choice.relative_fitness)
    # terms that can be written down
    assert parley.Terms.from_dict(proposal.terms.model_dump()).hash == proposal.terms.hash
    priced = terms.changed(everyone={"value": 100.0, "privacy_cost": {"kind": "linear", "weight": 0.1}})
    assert negotiate(priced, pilot=pilot) is not None
