import warnings

import numpy as np
import pytest
from samples import class_table
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

import parley
from parley.learning.estimators import (
    PrivateBoostedClassifier,
    PrivateBoostedRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateSoftmaxRegression,
    linear,
)
from parley.learning.prediction import learn_model

BOOSTED = [PrivateBoostedClassifier, PrivateBoostedRegressor]
KINDS = [PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, PrivateSoftmaxRegression]


@pytest.mark.parametrize("kind", [*KINDS, PrivatePoissonRegressor, *BOOSTED])
def test_scikit_learns_estimator_checks_pass(kind):
    """All of them, with a budget large enough that their accuracy checks make sense; of trees few, at few places."""
    estimator = kind(epsilon=1e6, random_state=0)
    if kind in BOOSTED:
        estimator.set_params(n_estimators=30, max_bins=16)
    if kind is PrivateLinearSVC:
        estimator.set_params(clip=100.0, radius=100.0, horizon=80, step=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns about its own skipped checks
        outcomes = check_estimator(estimator, on_fail=None, on_skip=None)
    assert [o["check_name"] for o in outcomes if o["status"] == "failed"] == []
    assert sum(o["status"] == "passed" for o in outcomes) > 45


def test_without_a_seed_the_noise_is_safe_and_fresh():
    table = class_table(200)
    X, y = table[["x0", "x1", "x2"]].to_numpy(), table["y"].to_numpy()
    fits = [PrivateLogisticRegression(epsilon=1.0).fit(X, y).theta_ for _ in range(2)]
    assert (fits[0] != fits[1]).all()


def test_a_fit_without_a_seed_is_a_release_and_one_with_a_seed_a_study(monkeypatch, tmp_path):
    """Every answer is debited before it is used, with exact noise, and the model says so; a study's model says that it
    is none."""
    table = class_table(200)
    X, y = table[["x0", "x1", "x2"]].to_numpy(), table["y"].to_numpy()
    seen = []
    monkeypatch.setattr(
        linear,
        "learn_model",
        lambda terms, owners, how: seen.append((owners[0], learn_model(terms, owners, how))) or seen[-1][1],
    )
    model = PrivateLogisticRegression(epsilon=1.0).fit(X, y)
    [(owner, result)] = seen
    assert (model.released_, result.safe_noise, owner.releases) == (True, True, True)
    assert result.owners[0].epsilon_spent == 1.0
    assert not owner.ledger.path.exists()  # nothing is left behind
    assert PrivateLogisticRegression(epsilon=1.0, random_state=3).fit(X, y).released_ is False
    model.save(tmp_path / "model.json")
    assert parley.load_model(tmp_path / "model.json").released_ is True


def test_a_seed_repeats_a_study():
    table = class_table(200)
    X, y = table[["x0", "x1", "x2"]].to_numpy(), table["y"].to_numpy()
    seeded = [PrivateLogisticRegression(epsilon=1.0, random_state=3).fit(X, y).theta_ for _ in range(2)]
    np.testing.assert_array_equal(*seeded)


def test_impossible_settings_are_one_sentence():
    from parley.errors import TermsError

    with pytest.raises(TermsError, match=r"PrivateLinearRegression: owners.owner.epsilon = -1"):
        PrivateLinearRegression(epsilon=-1).fit(np.zeros((5, 2)), np.arange(5.0))


def test_units_do_not_matter_where_the_norm_is_given_in_them():
    table = class_table(500)
    X, y = table[["x0", "x1", "x2"]].to_numpy(), table["y"].to_numpy()
    usual = PrivateLogisticRegression(norm=6**0.5, random_state=1).fit(X, y)
    thousand = PrivateLogisticRegression(norm=1000 * 6**0.5, random_state=1).fit(1000 * X, y)
    np.testing.assert_allclose(thousand.predict_proba(1000 * X), usual.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(PrivateLogisticRegression(random_state=1).fit(X, y).theta_, usual.theta_)
    lines = [
        PrivateLinearRegression(target_norm=t, random_state=1).fit(X, t * X[:, 0]).predict(X) / t for t in (1.0, 1000.0)
    ]
    np.testing.assert_allclose(*lines, atol=1e-6)


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateSoftmaxRegression, PrivateLinearRegression])
def test_defaults_need_no_tuning(kind, tmp_path):
    """Against the averaged subgradients that once were the default, on the same rows at the same epsilon."""
    table, new = class_table(4000), class_table(4000, seed=1)
    columns = ["x0", "x1", "x2"]
    scores = []
    for settings in ({}, {"algorithm": "averaged-subgradient", "clip": 10.0}):
        fits = [
            kind(epsilon=0.3, random_state=seed, **settings).fit(table[columns].to_numpy(), table["y"])
            for seed in range(5)
        ]
        scores.append(np.mean([fit.score(new[columns].to_numpy(), new["y"]) for fit in fits]))
    assert scores[0] > scores[1]
    assert scores[0] > (0.88 if kind is not PrivateLinearRegression else 0.5)
    released = kind(epsilon=0.3).fit(table[columns].to_numpy(), table["y"])
    assert released.released_
    released.save(tmp_path / "model.json")
    again = parley.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(new[columns].to_numpy()), released.predict(new[columns].to_numpy()))


def test_a_norm_or_an_algorithm_that_is_none_is_refused():
    from parley.errors import SettingError, TermsError

    X, y = np.eye(4), np.array([0, 1, 0, 1])
    with pytest.raises(SettingError, match="norm = 0"):
        PrivateLogisticRegression(norm=0).fit(X, y)
    with pytest.raises(TermsError, match=r"learning.algorithm = 'magic'"):
        PrivateLogisticRegression(algorithm="magic").fit(X, y)


@pytest.mark.parametrize("names", [(False, True), (0, 1), (-3, 7), ("no", "yes"), ("b", "a")], ids=str)
@pytest.mark.parametrize("kind", KINDS[1:])
def test_two_classes_are_named_and_ordered_as_in_scikit_learn(kind, names):
    """`classes_` sorted and of the labels' own type; the margin is above zero, and the second column large, for the
    second."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = np.array(names)[(X @ [2.0, -1.0, 0.0] + rng.logistic(size=3000) > 0.3).astype(int)]
    ours, theirs = kind(epsilon=5.0, random_state=0).fit(X, y), LogisticRegression().fit(X, y)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.classes_.dtype == theirs.classes_.dtype
    assert ours.predict(X).dtype == theirs.predict(X).dtype
    margin = ours.decision_function(X)
    assert margin.shape == theirs.decision_function(X).shape
    assert np.corrcoef(margin, theirs.decision_function(X))[0, 1] > 0.9
    assert ((margin > 0) == (ours.predict(X) == ours.classes_[1])).all()
    if hasattr(ours, "predict_proba"):
        assert np.corrcoef(ours.predict_proba(X)[:, 1], theirs.predict_proba(X)[:, 1])[0, 1] > 0.9
