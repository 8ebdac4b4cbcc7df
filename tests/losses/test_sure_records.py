"""Clipped least squares of a studied table, by sorted records: the same gradient as row by row."""

import numpy as np
import pytest

from parley.data import Design
from parley.losses import RecordBound
from parley.losses.linear_regression import SORTED_FROM, LinearRegression


@pytest.mark.parametrize("spread", [0.0, 0.05, 1.0, 30.0], ids=["at the fit", "near", "about", "far"])
@pytest.mark.parametrize("clip", [1e-3, 0.5, 4.0, 1e3])
def test_a_studied_table_has_the_same_clipped_gradients(spread, clip):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(SORTED_FROM + 77, 4)), np.ones(SORTED_FROM + 77)])
    truth = np.array([1.0, -2.0, 0.5, 0.0, 0.3])
    plain = Design(X, X @ truth + rng.standard_t(3, size=len(X)), rng.uniform(0.5, 1.0, len(X)))
    thetas = truth + spread * rng.normal(size=(40, 5))
    bound, objective = RecordBound(clip, "l2", clips=True), LinearRegression()
    slow, quick = (objective.mean_gradient(design, thetas, bound) for design in (plain, plain.for_studies()))
    np.testing.assert_allclose(quick, slow, rtol=1e-9, atol=1e-12 * max(1.0, np.abs(slow).max()))
    assert plain.for_studies().studied is not None
