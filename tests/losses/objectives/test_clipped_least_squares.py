"""Clipped least squares of a studied table, by sorted records: the same gradient as row by row."""

import tracemalloc

import numpy as np
import pytest

from parley.data import Design
from parley.losses import RecordBound
from parley.losses.objectives.linear_regression import MIN_SORTED_ROWS, LinearRegression, best_fit


@pytest.mark.parametrize("spread", [0.0, 0.05, 1.0, 30.0], ids=["at the fit", "near", "about", "far"])
@pytest.mark.parametrize("clip", [1e-3, 0.5, 4.0, 1e3])
def test_a_studied_table_has_the_same_clipped_gradients(spread, clip):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(MIN_SORTED_ROWS + 77, 4)), np.ones(MIN_SORTED_ROWS + 77)])
    truth = np.array([1.0, -2.0, 0.5, 0.0, 0.3])
    plain = Design(X, X @ truth + rng.standard_t(3, size=len(X)), rng.uniform(0.5, 1.0, len(X)))
    thetas = truth + spread * rng.normal(size=(40, 5))
    bound, objective = RecordBound(clip, "l2", clips=True), LinearRegression()
    slow, quick = (objective.mean_gradient(design, thetas, bound) for design in (plain, plain.for_studies()))
    np.testing.assert_allclose(quick, slow, rtol=1e-9, atol=1e-12 * max(1.0, np.abs(slow).max()))
    assert plain.for_studies().studied is not None


def test_sums_of_wide_tables_take_less_memory_than_the_table():
    """Where no record clips anywhere near, all sums are needed: of 4,096 rows and 400 columns a sum every 128 rows took
    three tables."""
    rng = np.random.default_rng(1)
    design = Design(rng.normal(size=(4096, 400)), rng.normal(size=4096), np.ones(4096), study=True)
    bound, objective, thetas = RecordBound(1e6, "l2", clips=True), LinearRegression(), 0.1 * rng.normal(size=(3, 400))
    plain = 2 * (thetas @ design.statistics[0] - design.statistics[1])
    best_fit(design)
    tracemalloc.start()
    try:
        found = objective.mean_gradient(design, thetas, bound)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(found, plain, rtol=1e-9, atol=1e-12)
    assert peak < 2.5 * design.X.nbytes  # the sorted table, half as much of sums, and what they are computed in
