"""One run's posterior as the next one's prior: what both know together, and nothing twice."""

import numpy as np
import pandas as pd
import pytest
from samples import BOUNDS, GAUSSIAN, make_terms, regression_table

import parley
from parley.errors import ModelError
from parley.learning.outcome.model import load_model
from parley.learning.outcome.prior import updated

ONCE = {"learning__algorithm": "fedinfer", "learning__horizon": None, "learning__step": None, "model__radius": None}


def trained(table, epsilon=2.0, seed=0, **overrides):
    settings = {**ONCE, "privacy__clip": None, "model__bounds": BOUNDS, **GAUSSIAN, **overrides}
    return parley.train(
        make_terms(len(table), epsilon=epsilon, **settings), [parley.Owner("a", table)], seed=seed
    ).model


def spread(rows, seed):
    """A target that lies within its bounds, with noise of its own."""
    table = regression_table(rows, seed)
    return table.assign(y=0.5 * table.x0 - table.x1 + 0.3 * np.random.default_rng(seed).normal(size=rows))


def test_without_noise_both_runs_together_are_a_run_on_all_rows():
    tables = [spread(3000, 1), spread(5000, 2)]
    first, second, both = (trained(table, 1e6) for table in (*tables, pd.concat(tables, ignore_index=True)))
    found = updated(first, second, other_rows=True)
    deviation = np.sqrt(np.diagonal(both.posterior_.covariance[0]))
    assert np.abs((found.theta_ - both.theta_) / deviation).max() < 0.1
    np.testing.assert_allclose(found.posterior_.covariance, both.posterior_.covariance, rtol=0.01, atol=1e-7)
    assert found.posterior_.records == both.posterior_.records


def test_intervals_of_two_runs_hold_as_often_as_they_say():
    """100 pairs of runs of 400 and 600 rows, ε = 2: 90 % intervals of three coefficients hold in 90 % of all cases,
    within four standard errors of 100 pairs; one after the other they are narrower than those of the later run."""
    truth, held, narrower = np.array([0.5, -1.0, 0.0]), [], []
    for seed in range(100):
        runs = [trained(spread(rows, 10 * seed + rows), seed=seed + rows) for rows in (400, 600)]
        found = updated(*runs, other_rows=True)
        intervals, single = found.intervals(0.9), runs[1].intervals(0.9)
        held.append(np.mean([each.low <= value <= each.high for each, value in zip(intervals, truth, strict=True)]))
        narrower.append(np.mean([a.std < b.std for a, b in zip(intervals, single, strict=True)]))
    assert np.mean(held) == pytest.approx(0.9, abs=4 * np.std(held) / 10)
    assert np.mean(narrower) == 1


def test_nothing_is_counted_twice_and_nothing_else_is_mixed(tmp_path):
    first, second = trained(spread(400, 1)), trained(spread(500, 2))
    scaled = trained(spread(500, 2), model__scales={"x0": 2.0})
    for wrong, said in (
        (lambda: updated(first, first, other_rows=True), "count twice"),
        (lambda: updated(first, second, other_rows=False), "count twice"),
        (lambda: updated(first, scaled, other_rows=True), "the same columns"),
    ):
        with pytest.raises(ModelError, match=said):
            wrong()
    found = updated(first, second, other_rows=True)
    found.save(tmp_path / "both.json")
    np.testing.assert_allclose(load_model(tmp_path / "both.json").theta_, found.theta_)
    assert not found.released_
