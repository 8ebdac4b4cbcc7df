"""Models that owners make of their own rows: a ridge alone, and a personal one that starts from the joint model."""

import numpy as np
import pytest
from samples import class_table, make_terms, regression_table

import parley
from parley.data import Design
from parley.errors import ModelError
from parley.learning.outcome.personal import JOINT, own_model, personal_model, refine
from parley.learning.outcome.ridge import Centre, Ridge, _shares
from parley.learning.outcome.shrinkage import pulled
from parley.learning.outcome.verdict import Estimate
from parley.losses import LinearRegression, LinearSVM, LogisticRegression
from parley.losses.objectives.classes import ClassesObjective, OneVsAll, SoftmaxRegression
from parley.losses.objectives.newton import projected_newton

TRUE = np.linspace(0.8, -0.6, 3)  # of `regression_table`


def agreement(n: int, table=None, **overrides):
    terms = make_terms(n, model__holdout=0.2, **overrides)
    return parley.Owner("a", regression_table(n, seed=3) if table is None else table).prepare(terms)


@pytest.mark.parametrize("kind", [LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression, OneVsAll])
def test_the_mean_of_the_records_losses_is_the_cost_without_its_penalty(kind):
    rng = np.random.default_rng(0)
    several = issubclass(kind, ClassesObjective)
    y = rng.integers(0, 3, 50).astype(float) if several else np.where(rng.random(50) < 0.5, -1.0, 1.0)
    rows = Design(rng.normal(size=(50, 4)), y, rng.uniform(0.5, 2, 50))
    theta = rng.normal(size=12 if several else 4)
    assert kind(0.0).record_losses(rows, theta).mean() == pytest.approx(float(kind(0.0).cost(rows, theta)), rel=1e-12)
    assert kind(3.0).record_losses(rows, theta).mean() == pytest.approx(float(kind(0.0).cost(rows, theta)), rel=1e-12)


@pytest.mark.parametrize("kind", ["linear-regression", "linear-svm", "logistic-regression", "softmax-regression"])
def test_the_pulled_model_is_where_loss_and_pull_balance(kind):
    """The gradient of the losses is the pull; a mutant with half the pull is not at balance."""
    several = {"model__categories": {"y": ["0", "1"]}} if kind == "softmax-regression" else {}
    made = agreement(
        300, regression_table(300) if kind == "linear-regression" else class_table(300), model__kind=kind, **several
    )
    rows, setup = made.tables.train, made.setup
    ridge = Ridge(setup.objective, setup.preparation, rows)
    centre = Centre("c", np.random.default_rng(1).normal(size=setup.parameters), free=False)
    theta, objective = ridge._fit_pulled(rows, [centre], (40.0,))[0, 0], ridge._smoothed
    curvature = objective.loss.largest_curvature * np.trace(rows.statistics[0]) / rows.width
    gradient, pull = objective.mean_gradient(rows, theta), 40.0 * curvature / len(rows) * (theta - centre.theta)
    np.testing.assert_allclose(gradient + pull, 0, atol=2e-6)
    assert np.abs(gradient + 0.5 * pull).max() > 1e-3


def test_a_weight_counts_as_so_many_records():
    """Least squares with uncorrelated columns: k records at the centre pull as much as k rows, whatever the number of
    rows."""
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.normal(size=(400, 3)))[0] * 20.0
    rows = Design(X, X @ TRUE, np.ones(400))
    made = agreement(100)
    theta = Ridge(LinearRegression(), made.setup.preparation, rows)._fit_pulled(
        rows, [Centre("0", np.zeros(3), free=False)], (100.0,)
    )[0, 0]
    np.testing.assert_allclose(theta, TRUE * 400 / 500, rtol=1e-9)


def test_a_personal_model_follows_the_joint_one_where_rows_are_few_and_the_own_rows_where_it_is_of_no_use():
    few = agreement(40)
    good, useless = personal_model(few, TRUE), personal_model(few, -TRUE)
    assert good.shares[JOINT] > 0.8
    assert np.linalg.norm(good.theta - TRUE) < np.linalg.norm(own_model(few).theta - TRUE)
    many = agreement(2000)
    contrary = personal_model(many, -TRUE)
    np.testing.assert_allclose(contrary.theta, own_model(many).theta, atol=0.01)
    assert useless.loss < 0.5 * float(few.setup.objective.cost(few.tables.train, -TRUE))


def simulated_gains(count: int) -> np.ndarray:
    """(what cross-validation says that the personal model gains, what it does gain) of owners of 40 rows with a joint
    model nearby."""
    rng, preparation, found = np.random.default_rng(0), agreement(10).setup.preparation, []
    for _ in range(count):
        own = 0.3 * rng.normal(size=3)
        X = rng.normal(size=(40, 3))
        rows, none = Design(X, X @ own + rng.normal(size=40), np.ones(40)), Centre("no model", np.zeros(3), free=False)
        joint = Centre(JOINT, own + 0.3 * rng.normal(size=3), free=False)
        alone, personal = Ridge(LinearRegression(), preparation, rows).averages([[none], [joint, none]])
        true = np.sum((alone.theta - own) ** 2) - np.sum((personal.theta - own) ** 2)
        found.append((alone.loss - personal.loss, true))
    return np.array(found)


def test_what_cross_validation_says_of_the_gain_has_the_cost_of_choosing_in_it(monkeypatch):
    """On average it is the true gain; a mutant that judges rows by shares which they helped to choose promises too
    much."""
    monkeypatch.setattr(
        parley.learning.outcome.ridge, "TAIL_SQUARE_SCALE", 0.01
    )  # the sharper the choice, the more it costs
    honest = np.diff(simulated_gains(150), axis=1)
    assert abs(honest.mean()) < 3.5 * honest.std() / np.sqrt(150)
    seen = {}

    def of_all(losses, unit, names):
        return seen.setdefault((unit, len(names)), _shares(losses, unit, names))  # the first are those of all rows

    monkeypatch.setattr(parley.learning.outcome.ridge, "_shares", of_all)
    eager = np.diff(simulated_gains(150), axis=1)
    assert eager.mean() < -3.5 * eager.std() / np.sqrt(150)


def test_averages_of_several_sets_are_those_of_each():
    made = agreement(60)
    ridge = Ridge(made.setup.objective, made.setup.preparation, made.tables.train)
    none, near, far = (
        Centre("none", np.zeros(3), free=False),
        Centre(JOINT, TRUE, free=False),
        Centre(JOINT, -TRUE, free=False),
    )
    sets = [[none], [near, none], [none, far]]
    for together, each in zip(ridge.averages(sets), (ridge.averages([each])[0] for each in sets), strict=True):
        np.testing.assert_allclose(together.theta, each.theta, rtol=1e-12)
        np.testing.assert_allclose(together.losses, each.losses, rtol=1e-9)


@pytest.mark.parametrize("kind", [LinearRegression, LogisticRegression, LinearSVM])
def test_many_pulled_models_at_once_are_those_found_one_by_one(kind):
    rng, objective = np.random.default_rng(3), kind(0.0).smoothed
    X = rng.normal(size=(60, 4))
    rows = Design(X, np.where(X[:, 0] + rng.normal(size=60) > 0, 1.0, -1.0), rng.uniform(0.5, 2, 60))
    centres, strengths = rng.normal(size=(7, 4)), np.geomspace(1e-3, 30, 7)[:, None] * np.ones(4)
    found = pulled(objective, rows, centres, strengths, starts=rng.normal(size=(7, 4)))
    singly = [
        projected_newton(
            lambda t, c=c, s=s: float(objective.cost(rows, t)) + 0.5 * float(s @ (t - c) ** 2),
            lambda t, c=c, s=s: objective.mean_gradient(rows, t) + s * (t - c),
            lambda t, s=s: objective.hessian(rows, t) + np.diag(s),
            c,
            np.inf,
        )
        for c, s in zip(centres, strengths, strict=True)
    ]
    np.testing.assert_allclose(found, singly, atol=1e-4)


def test_before_any_row_is_seen_no_model_counts_as_much_as_the_joint_one():
    """Though the joint one is tried in two ways: a mutant that counts ways gives it two thirds."""
    share = _shares(np.ones((3, 5)), 1.0, np.array(["joint", "joint", "none"]))
    np.testing.assert_allclose(share, [0.25, 0.25, 0.5])


def test_an_owner_of_one_class_has_a_finite_model_alone():
    made = agreement(60, class_table(60).assign(y=1), model__kind="logistic-regression", model__radius=None)
    own = own_model(made)
    assert np.isfinite(own.theta).all()
    assert own.loss < 0.1


def test_ways_that_do_equally_well_count_alike_and_those_that_fail_for_nothing():
    losses = np.array([[1.0, 1.0], [1.0, 1.0], [np.inf, 1.0], [50.0, 50.0]])
    np.testing.assert_allclose(_shares(losses, 1.0, np.array(["a", "b", "c", "d"])), [0.5, 0.5, 0, 0], atol=1e-8)


def test_ways_count_by_the_standard_errors_that_they_are_behind_whatever_the_tails():
    """A likelihood, the mutant, would be surer of the same difference where the rows scatter more."""
    names, rng = np.array(["a", "b"]), np.random.default_rng(0)
    shares = []
    for tail in (1.0, 10.0):
        apart = rng.standard_t(30, size=400) * tail
        apart += 2 * apart.std(ddof=1) / np.sqrt(400) - apart.mean()  # two standard errors behind
        share = _shares(np.array([np.ones(400), 1 + apart]), 1e-9, names)
        shares.append(share[0] / share[1])
    np.testing.assert_allclose(shares, np.exp(2 + 4 / 10))


def test_rows_that_differ_alike_are_not_certain_of_what_they_have_not_seen():
    """A way that saves half a unit of log-likelihood in all, every row the same, is about as good; so is anything after
    a single row."""
    losses = np.array([np.full(100, 0.01), np.full(100, 0.015)])
    share = _shares(losses, 1.0, np.array(["a", "b"]))
    assert 1 < share[0] / share[1] < 1.5
    np.testing.assert_allclose(_shares(losses[:, :1], 1.0, np.array(["a", "b"])), [0.5, 0.5])


def test_averaging_hurts_fewer_owners_than_picking_the_best(monkeypatch):
    """Owners of 40 rows beside a joint model nearby: what personal models gain on average, against the mutant that
    picks one way."""
    averaged = simulated_gains(120)[:, 1]
    monkeypatch.setattr(parley.learning.outcome.ridge, "TAIL_SQUARE_SCALE", 1e-6)
    picked = simulated_gains(120)[:, 1]
    better = averaged - picked
    assert better.mean() > 3 * better.std() / np.sqrt(120)
    assert np.minimum(averaged, 0).sum() > 0.75 * np.minimum(picked, 0).sum()


def test_ninety_per_cent_intervals_cover_the_mean_as_often():
    rng = np.random.default_rng(5)
    covered = [(e := Estimate.from_values(rng.exponential(1.0, 200))).low <= 1 <= e.high for _ in range(2000)]
    narrow = [
        (e := Estimate.from_values(rng.exponential(1.0, 200))).mean - 0.5 * (e.mean - e.low) <= 1 <= 2 * e.mean - e.low
        for _ in range(2000)
    ]
    error = 4 * np.sqrt(0.09 / 2000)
    assert abs(np.mean(covered) - 0.9) < error
    assert abs(np.mean(narrow) - 0.9) > error  # half as wide below


def test_refining_gives_a_model_that_is_scored_like_others_and_is_no_release():
    terms = make_terms(400, 60, model__holdout=0.25, epsilon=50.0, learning__horizon=40, learning__step=0.7)
    owners = [parley.Owner("a", regression_table(400, seed=1)), parley.Owner("b", regression_table(60, seed=2))]
    joint = parley.train(terms, owners, seed=1).model
    own, how = refine(joint, terms, owners[1])
    assert own.terms_hash_ == terms.hash
    assert not own.released_
    assert sum(how.shares.values()) == pytest.approx(1)
    assert own.predict(regression_table(5)).shape == (5,)
    with pytest.raises(ModelError, match="other terms"):
        refine(joint, make_terms(400, 60), owners[1])
