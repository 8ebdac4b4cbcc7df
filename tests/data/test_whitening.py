import numpy as np
import pandas as pd
import pytest
from samples import make_terms

import parley
from parley.data import fit_preparation


def correlated(n, seed, names=False):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    X = z @ np.array([[1.0, 0.0, 0.0], [0.98, 0.2, 0.0], [0.5, 0.0, 30.0]]).T
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    return table.assign(y=X @ [0.5, -0.5, 0.01] + 0.3 * rng.normal(size=n))


def whitened(tmp_path, rows=2000, redraw=None, **overrides):
    correlated(rows, 9).to_csv(tmp_path / "public.csv", index=False)
    settings = {"model__public": str(tmp_path / "public.csv"), "model__radius": None, "model__whitening": "public"}
    return fit_preparation(make_terms(3000, **settings | overrides), redraw=redraw)


def test_the_public_sample_has_second_moments_near_the_identity(tmp_path):
    preparation, design = whitened(tmp_path)
    moments = design.X.T @ design.X / len(design)
    assert np.abs(moments - np.eye(3)).max() < 0.1  # the ridge leaves the weakest direction a little short
    plain, raw = whitened(tmp_path, model__whitening=None)
    assert np.abs(raw.X.T @ raw.X / len(raw) - np.eye(3)).max() > 0.9  # so there was something to do
    fresh = preparation.matrix(correlated(5000, 3), "fresh")
    assert np.linalg.cond(fresh.T @ fresh) < 1.5 < np.linalg.cond(np.cov(plain.matrix(correlated(5000, 3), "fresh").T))


def test_rows_stay_within_the_bound_whatever_they_hold(tmp_path):
    preparation, _ = whitened(tmp_path)
    hostile = pd.DataFrame(
        [[1e308, -1e308, 1e308], [5e-324, 0.0, -5e-324], [-1e50, 1e50, 1e50]], columns=["x0", "x1", "x2"]
    ).assign(y=0.0)
    X = preparation.matrix(hostile, "hostile")
    assert np.isfinite(X).all()
    assert (np.abs(X) <= preparation.feature_bound).all()


@pytest.mark.parametrize("rows", [2, 4, 30])
def test_a_tiny_sample_blows_nothing_up(tmp_path, rows):
    preparation, design = whitened(tmp_path, rows)
    assert np.isfinite(preparation.rotation).all()
    assert np.linalg.norm(preparation.rotation, 2) < 1 / np.sqrt(3 / rows * 0.1) + 1e3 * (rows == 2)
    assert np.abs(design.X).max() < 10


def test_redrawn_rows_change_the_whitening_alone(tmp_path):
    once, again = whitened(tmp_path, 100)[0], whitened(tmp_path, 100, redraw=0)[0]
    assert not np.allclose(once.rotation, again.rotation)
    np.testing.assert_array_equal(once.centre, again.centre)
    np.testing.assert_array_equal(whitened(tmp_path, 100, redraw=0)[0].rotation, again.rotation)


def test_a_whitened_model_predicts_in_the_targets_own_units(tmp_path):
    correlated(1000, 9).to_csv(tmp_path / "public.csv", index=False)
    terms = make_terms(
        3000, epsilon=1e4, model__public=str(tmp_path / "public.csv"), model__radius=None, model__whitening="public",
        model__intercept=True,
        learning__algorithm="gradient-descent", learning__decay=0.0, learning__step="auto", learning__horizon=30,
        privacy__clip=60.0,
    )  # fmt: skip
    table = correlated(3000, 1)
    result = parley.train(terms, [parley.Owner("a", table)], replicates=1, seed=1)
    X = np.column_stack([table[["x0", "x1", "x2"]], np.ones(3000)])
    best = X @ np.linalg.lstsq(X, table.y, rcond=None)[0]
    preparation = fit_preparation(terms)[0]
    said = preparation.matrix(table, "a") @ result.theta[0] * preparation.target_scale + preparation.target_centre
    assert np.mean((said - best) ** 2) < 0.01 * np.mean((table.y - best) ** 2)
