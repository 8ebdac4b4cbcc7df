import numpy as np
import pandas as pd
import pytest
from samples import make_terms
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import parley
from parley.data import fit_preparation
from parley.errors import DataError, TermsError
from parley.learning.start import public_fit
from parley.protocol.setup import resolve


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


def prepared(made):
    return made[0] if isinstance(made, tuple) else made.preparation


def rare(n, seed):
    """Two classes of which one is rare, and tells itself apart by columns that hang together among its rows alone: what
    bends the cost is not where most rows lie."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    odd = rng.random(n) < 0.15
    X[odd] = X[odd] @ np.array([[1.5, 1.4, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 0.2]]) + [2.0, 2.0, 0.0]
    chance = expit(X @ [1.5, 1.0, -1.0] - 5.0)
    return pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=(rng.random(n) < chance).astype(int))


def bent(tmp_path, rows=2000, redraw=None, **overrides):
    """Logistic regression of a rare class, whitened by the curvature: the setup of it."""
    rare(rows, 9).to_csv(tmp_path / "public.csv", index=False)
    settings = {"model__public": str(tmp_path / "public.csv"), "model__radius": None}
    settings |= {"model__kind": "logistic-regression", "model__whitening": "public-curvature"}
    return resolve(make_terms(3000, **settings | overrides), redraw=redraw)


def test_the_public_hessian_at_the_public_fit_is_a_number_times_the_identity(tmp_path):
    """The fit is scikit-learn's here, in columns as they are; a ridge r of the moments is all that the identity
    lacks: W M W + r W W = 1."""
    turned, plain = bent(tmp_path), bent(tmp_path, model__whitening=None)
    X, n = plain.public.X, len(plain.public)
    ridge = 0.25 * np.mean(X**2) * X.shape[1] / n
    model = LogisticRegression(C=1 / (n * ridge), fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    margins = model.fit(X, plain.public.y).coef_[0] @ X.T
    theta = np.linalg.lstsq(turned.public.X, margins, rcond=None)[0]
    np.testing.assert_allclose(turned.public.X @ theta, margins, atol=1e-9)  # a linear map: the model is the same
    hessian, W = turned.risk.hessian(turned.public, theta), turned.preparation.rotation
    number = hessian[3, 3]
    lacks = (np.eye(3) - hessian[:3, :3] / number) @ np.linalg.inv(W @ W)
    r = np.trace(lacks) / 3
    np.testing.assert_allclose(lacks, r * np.eye(3), atol=1e-8)
    assert 0 < r < 0.01
    np.testing.assert_allclose(hessian[3, :3], 0.0, atol=1e-9)
    assert number == pytest.approx(np.mean(expit(margins) * expit(-margins)), rel=1e-9)


def test_moments_would_not_have_done(tmp_path):
    """On fresh rows, at the fit that training starts from."""
    found = {}
    for whitening in ("public", "public-curvature"):
        setup = bent(tmp_path, model__whitening=whitening)
        fit = public_fit(setup.risk, setup.public, None, setup.objective.start(setup.preparation))
        fresh = setup.preparation.design(rare(20_000, 3), "fresh")
        found[whitening] = np.linalg.cond(setup.risk.hessian(fresh, fit.theta))
    assert found["public-curvature"] < 2 < 6 < found["public"]


@pytest.mark.parametrize(
    "kind", ["softmax-regression", "one-vs-all", "least-squares-classes", "linear-regression", "poisson-regression"]
)
def test_every_loss_that_bends_can_be_whitened_by_it(tmp_path, kind):
    """For the sum over classes of their blocks, each loss by its own second derivative."""
    settings = {"poisson-regression": {"model__bounds": {"y": [0, 1]}}, "linear-regression": {"model__intercept": True}}
    setup = bent(tmp_path, model__kind=kind, **settings.get(kind, {}))
    fit = public_fit(setup.risk, setup.public, None, setup.objective.start(setup.preparation))
    hessian = setup.risk.hessian(setup.public, fit.theta).reshape(-1, 4, len(fit.theta) // 4, 4)
    blocks = sum(hessian[c, :, c] for c in range(len(hessian)))
    assert np.linalg.cond(blocks) < 1.5


def test_rows_of_survival_count_by_their_periods(tmp_path):
    rng = np.random.default_rng(2)
    table = rare(1500, 4).assign(y=rng.integers(1, 6, 1500) * 1.0, died=rng.integers(0, 2, 1500))
    table.to_csv(tmp_path / "lives.csv", index=False)
    setup = bent(
        tmp_path, model__kind="survival", model__event="died", model__periods=[2.0, 4.0, 6.0],
        model__public=str(tmp_path / "lives.csv"),
    )  # fmt: skip
    theta = setup.risk.optimum([setup.public], start=setup.objective.start(setup.preparation))
    hessian = setup.risk.hessian(setup.public, theta)[3:, 3:]
    assert np.linalg.cond(hessian) < 1.1


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"model__kind": "linear-svm", "model__radius": 5.0}, "needs a smooth loss"),
        ({"model__public": None}, "public"),
        ({"model__components": 2}, "components"),
        ({"model__columns": "bins"}, "whitening"),
    ],
)
def test_what_has_no_curvature_to_take_is_refused(tmp_path, overrides, words):
    with pytest.raises(TermsError, match=words):
        bent(tmp_path, **overrides)


def test_a_cost_that_does_not_bend_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("parley.tasks.prediction.public_curvatures", lambda *given: np.zeros(2000))
    with pytest.raises(DataError, match="has no curvature"):
        bent(tmp_path)


def test_terms_of_before_keep_their_hash(tmp_path):
    plain = make_terms(100, model__public="public.csv", model__whitening="public")
    assert plain.hash == "6eec29d9bd3989f2b7d62ff92a1dc541350dda92bb2d74bcda784d7139e92321"
    assert plain.changed(model={"whitening": "public-curvature"}).hash != plain.hash


def test_the_public_sample_has_second_moments_near_the_identity(tmp_path):
    preparation, design = whitened(tmp_path)
    moments = design.X.T @ design.X / len(design)
    assert np.abs(moments - np.eye(3)).max() < 0.1  # the ridge leaves the weakest direction a little short
    plain, raw = whitened(tmp_path, model__whitening=None)
    assert np.abs(raw.X.T @ raw.X / len(raw) - np.eye(3)).max() > 0.9  # so there was something to do
    fresh = preparation.matrix(correlated(5000, 3), "fresh")
    assert np.linalg.cond(fresh.T @ fresh) < 1.5 < np.linalg.cond(np.cov(plain.matrix(correlated(5000, 3), "fresh").T))


@pytest.mark.parametrize("make", [whitened, bent])
def test_rows_stay_within_the_bound_whatever_they_hold(tmp_path, make):
    preparation = prepared(make(tmp_path))
    hostile = pd.DataFrame(
        [[1e308, -1e308, 1e308], [5e-324, 0.0, -5e-324], [-1e50, 1e50, 1e50]], columns=["x0", "x1", "x2"]
    ).assign(y=0.0)
    X = preparation.matrix(hostile, "hostile")
    assert np.isfinite(X).all()
    assert (np.abs(X) <= preparation.feature_bound).all()
    assert np.abs(X).max() > 0.999 * preparation.feature_bound[:3].min()


@pytest.mark.parametrize("rows", [2, 4, 30])
def test_a_tiny_sample_blows_nothing_up(tmp_path, rows):
    preparation, design = whitened(tmp_path, rows)
    setup = bent(tmp_path, rows + 20)  # separated, mostly
    assert np.isfinite(setup.preparation.rotation).all()
    assert np.abs(setup.public.X).max() < 10
    assert np.isfinite(preparation.rotation).all()
    assert np.linalg.norm(preparation.rotation, 2) < 1 / np.sqrt(3 / rows * 0.1) + 1e3 * (rows == 2)
    assert np.abs(design.X).max() < 10


@pytest.mark.parametrize("make", [whitened, bent])
def test_redrawn_rows_change_the_whitening_alone(tmp_path, make):
    once, again = prepared(make(tmp_path, 200)), prepared(make(tmp_path, 200, redraw=0))
    assert not np.allclose(once.rotation, again.rotation)
    assert np.array_equal(once.centre, again.centre) is (make is whitened)  # the curvature's centre belongs to it
    np.testing.assert_array_equal(once.scale, again.scale)
    np.testing.assert_array_equal(prepared(make(tmp_path, 200, redraw=0)).rotation, again.rotation)


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
