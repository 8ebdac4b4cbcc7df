"""Boosted trees with a plain `fit`: the same training as by terms, with and without a public sample."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score

import parley
from parley.errors import SettingError, TermsError
from parley.learning.estimators import PrivateBoostedClassifier, PrivateBoostedRegressor, linear
from parley.learning.prediction import learn_model

WAVE = (-1.0, 1.0)


def rows(many, seed, classes=2):
    """Bends that no line has, a column of noise, and gaps."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (many, 3))
    raw = 3 * np.sin(3 * X[:, 0]) + 2 * (X[:, 1] > 0.2) - 1 + rng.normal(0, 0.5, many)
    X[::31, 2] = np.nan
    if classes == 0:
        return X, raw
    return X, np.searchsorted(np.quantile(raw, np.arange(1, classes) / classes), raw)


def test_a_fit_is_what_terms_of_one_owner_give():
    """Seed by seed and number by number: no second path."""
    X, y = rows(400, 0)
    fit = PrivateBoostedClassifier(epsilon=2.0, bounds=WAVE, n_estimators=12, max_bins=10, random_state=5).fit(X, y)
    terms = parley.Terms.from_dict(
        {
            "model": {
                "kind": "boosted-classification", "target": "y", "features": ["x0", "x1", "x2"], "missing": "fill",
                "bounds": {f"x{j}": [-1, 1] for j in range(3)}, "bins": 10,
            },
            "learning": {"horizon": 12},
            "privacy": {"mechanism": "gaussian", "delta": 1e-6},
            "owners": [{"name": "owner", "records": 400, "epsilon": 2.0}],
        }
    )  # fmt: skip
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=y)
    theirs = parley.train(terms, [parley.Owner("owner", table)], seed=5)
    np.testing.assert_array_equal(fit.model_.theta_, theirs.model.theta_)
    assert fit.model_.terms_hash_ == terms.hash


def test_with_a_public_sample_private_rows_make_its_trees_better():
    known, (X, y), (new, truth) = rows(300, 1), rows(6000, 2), rows(4000, 3)
    fits = [
        PrivateBoostedClassifier(epsilon=eps, public=known, random_state=0).fit(X, y).predict_proba(new)
        for eps in (1e-3, 2.0)
    ]
    alone, together = (log_loss(truth, fit) for fit in fits)
    assert together < 0.95 * alone
    Xr, yr = rows(6000, 2, classes=0)
    public, test = rows(300, 1, classes=0), rows(4000, 3, classes=0)
    scores = [
        PrivateBoostedRegressor(epsilon=eps, public=public, random_state=0).fit(Xr, yr).score(*test)
        for eps in (1e-3, 2.0)
    ]
    assert scores[1] > scores[0] + 0.02
    assert scores[1] > 0.9


@pytest.mark.parametrize("names", [(False, True), ("no", "yes"), ("c", "a", "b")], ids=str)
def test_classes_keep_their_names_and_their_order(names, tmp_path):
    known, (X, y) = rows(300, 1, len(names)), rows(3000, 2, len(names))
    labels = np.array(names)
    fit = PrivateBoostedClassifier(epsilon=5.0, public=(known[0], labels[known[1]]), random_state=0, n_estimators=30)
    fit.fit(X, labels[y])
    np.testing.assert_array_equal(fit.classes_, np.unique(labels))
    assert fit.predict(X).dtype == labels.dtype
    assert fit.score(X, labels[y]) > 0.8
    chances = fit.predict_proba(X)
    np.testing.assert_array_equal(fit.classes_[chances.argmax(axis=1)], fit.predict(X))
    assert fit.decision_function(X).shape == ((3000,) if len(names) == 2 else (3000, 3))
    fit.save(tmp_path / "model.json")
    np.testing.assert_array_equal(parley.load_model(tmp_path / "model.json").predict(X), fit.predict(X))


@pytest.mark.parametrize("public", [False, True])
def test_a_fit_without_a_seed_is_a_release_that_leaves_nothing_behind(monkeypatch, public):
    seen = []
    monkeypatch.setattr(
        linear,
        "learn_model",
        lambda terms, owners, how: seen.append((owners[0], learn_model(terms, owners, how))) or seen[-1][1],
    )
    X, y = rows(600, 2)
    sample = rows(300, 1) if public else None
    settings = {"epsilon": 1.0, "bounds": WAVE, "public": sample, "n_estimators": 8}
    assert PrivateBoostedClassifier(**settings).fit(X, y).released_
    [(owner, result)] = seen
    assert (result.safe_noise, owner.releases, result.owners[0].epsilon_spent) == (True, True, 1.0)
    assert not owner.ledger.path.exists()
    assert not PrivateBoostedClassifier(**settings, random_state=1).fit(X, y).released_


def test_no_private_row_decides_where_trees_are_cut():
    X, y = rows(500, 2)
    far = np.where(np.arange(len(X))[:, None] == 7, 1e300, X)
    for settings in ({"bounds": WAVE}, {"public": rows(200, 1), "n_estimators": 5}):
        fits = [
            PrivateBoostedClassifier(random_state=0, **settings).fit(each, y).model_.preparation_ for each in (X, far)
        ]
        assert all(np.array_equal(getattr(fits[0], name), getattr(fits[1], name)) for name in ("low", "high"))
        if (forest := fits[0].forest) is not None:
            assert all(np.array_equal(array, fits[1].forest.arrays[name]) for name, array in forest.arrays.items())


def test_shapes_clones_and_scikit_learns_tools():
    X, y = rows(2000, 2, classes=0)
    fit = PrivateBoostedRegressor(epsilon=5.0, bounds=WAVE, target_bounds=(-6, 6), random_state=0)
    assert cross_val_score(fit, X, y, cv=3).min() > 0.7
    shapes = {shape.column: shape for shape in clone(fit).fit(X, y).shapes()}
    assert shapes["x0"].spread > 3 * shapes["x2"].spread
    with_sample = PrivateBoostedRegressor(public=rows(200, 1, classes=0), random_state=0, n_estimators=5)
    assert clone(with_sample).fit(X, y).shapes() is None


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"bounds": [(0, 1)]}, SettingError, r"bounds: expected \(low, high\), or 3 such pairs"),
        ({"bounds": (1, 0)}, TermsError, r"model.bounds.x0"),
        ({"epsilon": -1}, TermsError, r"owners.owner.epsilon"),
        ({"public": 3}, SettingError, r"public: expected a pair"),
        ({"public": (np.zeros((4, 2)), np.zeros(4))}, SettingError, r"public: expected rows of 3 columns"),
        ({"public": rows(50, 1), "delta": 0.0}, SettingError, r"delta: expected a number above 0"),
        ({"public": rows(50, 1), "n_estimators": 2000}, TermsError, r"model.trees.count"),
    ],
)
def test_impossible_settings_are_one_sentence(settings, error, said):
    X, y = rows(100, 0)
    with pytest.raises(error, match=said):
        PrivateBoostedClassifier(random_state=0, **settings).fit(X, y)


def test_several_classes_need_a_public_sample():
    X, y = rows(100, 0, classes=3)
    with pytest.raises(ValueError, match="more than two classes, give a public sample"):
        PrivateBoostedClassifier().fit(X, y)
