"""Forecasts of the federated family: local steps, corrections and duals are the algorithms' own code, so moments and
pilot runs take one path."""

import numpy as np
import pytest
from federated import CORRECTED, FAMILY, family_terms
from owners_moments import Moments, expected_path
from samples import class_table, regression_table

import parley
from parley.decisions.outlook.forecast import forecast

UNEQUAL = {"a": {"local_steps": 3}, "b": {"local_steps": 8}}
FREE = {"privacy__clip": None, "model__radius": 20.0}


@pytest.mark.parametrize("name", FAMILY)
def test_the_exact_forecast_meets_the_mean_of_many_runs(name):
    """Two owners whose tables are both the pilot, with other budgets and steps: within 3 standard errors of 3,000 runs
    (a round that asks for gradients leaves the start as it is). Twice the noise would be noticed."""
    table = regression_table(3000, 1)
    terms = family_terms(
        name,
        3000,
        3000,
        own=UNEQUAL | {"b": {"local_steps": 8, "epsilon": 0.6}},
        epsilon=1.5,
        learning__horizon=8,
        **FREE,
    )
    expected = forecast(terms, pilot=table, resamples=2)
    assert expected.method == "exact-moments"
    runs = parley.train(terms, [parley.Owner(n, table) for n in "ab"], replicates=3000, seed=1).path
    for k in (0, 1, 4, 7):
        error = runs[k].std(ddof=1) / np.sqrt(3000)
        assert abs(runs[k].mean() - expected.path[k]) < 3 * error + 1e-3 * runs[0].mean() * (k == 0)
    assert abs(runs[-1].mean() - 2 * expected.path[-1]) > 3 * error
    drifts = any("drift apart" in warning for warning in expected.warnings)
    assert drifts is (name not in CORRECTED)


@pytest.mark.parametrize("own", [None, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", FAMILY)
def test_owners_that_differ_are_forecast_from_their_own_moments(name, own):
    """Drift included, which one pilot for all cannot see: within 3 standard errors of 2,000 runs."""
    tables = [
        regression_table(n, i).assign(y=lambda d, i=i: d["y"] + 0.8 * i * d["x0"]) for i, n in enumerate((2000, 3000))
    ]
    terms = family_terms(name, 2000, 3000, own=own, epsilon=2.0, learning__horizon=8, **FREE)
    owners = [parley.Owner(n, t) for n, t in zip("ab", tables, strict=True)]
    moments = {owner.name: Moments.of(owner.prepare(terms).tables.train) for owner in owners}
    expected = expected_path(owners[0].prepare(terms).setup, moments)
    runs = parley.train(terms, owners, replicates=2000, seed=3).path
    error = runs.std(axis=1, ddof=1) / 2000**0.5
    assert (np.abs(runs.mean(axis=1) - expected) < 3.5 * error + 1e-12).all()
    alike = expected_path(owners[0].prepare(terms).setup, dict.fromkeys("ab", moments["b"]))
    assert abs(alike[-1] - runs[-1].mean()) > 3.5 * error[-1]


@pytest.mark.parametrize("name", ["fedprox", "scaffold", "fedlin", "fedsplit"])
def test_a_pilot_run_forecasts_what_moments_cannot(name):
    """Logistic regression, a clip that binds: within 4 standard errors of the difference, where twice the excess would
    be noticed."""
    table = class_table(1000, seed=1)
    settings = {
        "model__kind": "logistic-regression",
        "model__bounds": {f"x{j}": [-4, 4] for j in range(3)},
        "privacy__clip": 0.5,
    }
    terms = family_terms(
        name, 1000, 1000, own=UNEQUAL, epsilon=0.6, learning__horizon=4, model__regularisation=0.1, **settings
    )
    expected = forecast(terms, pilot=table, resamples=3)
    assert expected.method == "pilot-run"
    runs = parley.train(terms, [parley.Owner(n, table) for n in "ab"], replicates=600, seed=3, whole_path=False).path[
        -1
    ]
    error = runs.std(ddof=1) * np.sqrt(2 / 600)
    assert abs(runs.mean() - expected.relative_fitness.mean) < 4 * error
    assert abs(runs.mean() - 2 * expected.relative_fitness.mean) > 4 * error


def test_plans_keep_what_the_terms_say_of_the_family():
    terms = family_terms("fedprox", 600, 400, own={"a": {"local_steps": 2}}, epsilon=1.0, learning__horizon=4)
    proposal = parley.plan(terms, pilot=regression_table(1500, 9))
    assert {choice.algorithm for choice in proposal.choices} == {
        "fedprox",
        "averaged-subgradient",
        "sufficient-statistics",
    }
    for choice in proposal.choices:
        assert (choice.proximal == 0.7) is (choice.algorithm == "fedprox")
    assert parley.Terms.from_dict(proposal.terms.model_dump()).hash == proposal.terms.hash
