"""Forecasts without a centre: the recursion is linear, so moments are exact; where they are not, the algorithm is run
on the pilot."""

import numpy as np
import pytest
from federated import family_terms
from owners_moments import Moments, expected_path
from samples import class_table, regression_table

import parley
from parley.decisions.expectation.error_moments import SeparateAnswers, error_moments
from parley.decisions.outlook.forecast import forecast
from parley.learning.algorithms.gossip import Gossip
from parley.losses import LinearRegression
from parley.terms.topology import edges

FREE = {"privacy__clip": None, "model__radius": 20.0}
NAMES = "abcd"


def gossip_terms(topology, *sizes, **overrides):
    return family_terms(
        "federated-averaging", *sizes, **{"learning__algorithm": "gossip", "learning__topology": topology} | overrides
    )


@pytest.mark.parametrize("topology", ["ring", "star"])
def test_the_exact_forecast_meets_the_mean_of_many_runs(topology):
    """Four owners whose tables are the pilot, with other budgets: within 3.5 standard errors of 2,000 runs. Twice the
    noise would be noticed."""
    table, budgets = regression_table(2000, 1), {"b": {"epsilon": 0.6}, "d": {"epsilon": 3.0}}
    terms = gossip_terms(topology, *[2000] * 4, epsilon=1.5, learning__horizon=10, learning__step=0.5, **FREE).changed(
        owners=budgets
    )
    expected = forecast(terms, pilot=table, resamples=2)
    assert expected.method == "exact-moments"
    runs = parley.train(terms, [parley.Owner(n, table) for n in NAMES], replicates=2000, seed=1).path
    error = runs.std(axis=1, ddof=1) / 2000**0.5
    assert (np.abs(runs.mean(axis=1) - expected.path) < 3.5 * error + 1e-9).all()
    assert abs(runs[-1].mean() - 2 * expected.path[-1]) > 3.5 * error[-1]
    assert not any("drift apart" in warning for warning in expected.warnings)


def test_owners_that_differ_are_forecast_from_their_own_moments():
    sizes = (1000, 2000, 1500, 800)
    tables = [regression_table(n, i).assign(y=lambda d, i=i: d["y"] + 0.4 * i * d["x0"]) for i, n in enumerate(sizes)]
    terms = gossip_terms("ring", *sizes, epsilon=2.0, learning__horizon=8, learning__step=0.5, **FREE)
    owners = [parley.Owner(n, t) for n, t in zip(NAMES, tables, strict=True)]
    moments = {owner.name: Moments.of(owner.prepare(terms).tables.train) for owner in owners}
    expected = expected_path(owners[0].prepare(terms).setup, moments)
    runs = parley.train(terms, owners, replicates=2000, seed=3).path
    error = runs.std(axis=1, ddof=1) / 2000**0.5
    assert (np.abs(runs.mean(axis=1) - expected) < 3.5 * error + 1e-12).all()
    alike = expected_path(owners[0].prepare(terms).setup, dict.fromkeys(NAMES, moments["b"]))
    assert abs(alike[-1] - runs[-1].mean()) > 3.5 * error[-1]


def test_a_pilot_run_forecasts_what_moments_cannot():
    """Logistic regression, a clip that binds: within 4 standard errors of the difference, where twice the excess would
    be noticed."""
    table = class_table(1000, seed=1)
    settings = {
        "model__kind": "logistic-regression",
        "model__bounds": {f"x{j}": [-4, 4] for j in range(3)},
        "privacy__clip": 0.5,
    }
    terms = gossip_terms(
        "ring",
        *[1000] * 4,
        epsilon=0.3,
        learning__horizon=10,
        learning__step=2.0,
        model__regularisation=0.1,
        **settings,
    )
    expected = forecast(terms, pilot=table, resamples=3)
    assert expected.method == "pilot-run"
    runs = parley.train(terms, [parley.Owner(n, table) for n in NAMES], replicates=600, seed=3, whole_path=False).path[
        -1
    ]
    error = runs.std(ddof=1) * np.sqrt(2 / 600)
    assert abs(runs.mean() - expected.relative_fitness.mean) < 4 * error
    assert abs(runs.mean() - 2 * expected.relative_fitness.mean) > 4 * error


def test_the_point_moments_are_those_of_the_owner_whose_point_wanders_most():
    """Against 4,000 runs of the recursion itself; the mean of the points wanders less."""
    rule = Gossip(LinearRegression(), 9, None, 0.4, tuple(NAMES), (10, 30, 20, 40), edges("star", NAMES))
    loud = dict(zip(NAMES, (1.0, 0.5, 3.0, 0.2), strict=True))
    separate = SeparateAnswers([tuple(NAMES)] * 9, dict(zip(NAMES, rule.records, strict=True)), loud)
    found = error_moments(rule, np.array([0.7]), np.array([1.0]), separate=separate)
    rng, state = np.random.default_rng(5), rule.start(np.zeros(1), (4000,))
    for _ in range(9):
        points = rule.points(state)
        noisy = {name: 0.7 * points[name] + loud[name] * rng.standard_normal((4000, 1)) for name in NAMES}
        answers = [
            parley.protocol.queries.Answer("", name, separate.records[name], value) for name, value in noisy.items()
        ]
        state = rule.update(state, np.zeros(1), answers)
    widest = max(point.var() for point in rule.points(state).values())
    error = np.sqrt(2 / 4000)
    assert widest == pytest.approx(found.point_gain[-1, 0], rel=4 * error)
    assert state.theta.var() == pytest.approx(found.gain[-1, 0], rel=4 * error)
    assert found.point_gain[-1, 0] > (1 + 8 * error) * found.gain[-1, 0]


def test_a_complete_graph_is_forecast_like_gradient_descent():
    terms = gossip_terms("complete", *[500] * 4, epsilon=2.0, learning__horizon=12, **FREE)
    plain = terms.changed(learning={"algorithm": "gradient-descent", "decay": 0.0})
    table = regression_table(2000, 2)
    np.testing.assert_allclose(*(forecast(each, pilot=table, resamples=2).path for each in (terms, plain)), rtol=1e-9)
