"""Who was in the table: much of an over-fitted model, no more than epsilon allows of a private one."""

import math
from copy import copy
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from grove import grove, grove_terms
from samples import class_table, make_terms, regression_table
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

import parley
from parley.audit.attacks.membership import ATTACKS, Game, infer_members, judged, mean_ends
from parley.audit.attacks.shadow import (
    Evidence,
    TrainedByTerms,
    joined,
    many_optima,
    model_evidence,
    predictions_evidence,
    random_tables,
    without_privacy,
)
from parley.audit.attacks.trained_model import audit_model
from parley.data import Design
from parley.errors import DataError, ModelError, ParleyError, SettingError
from parley.losses import make
from parley.privacy.mechanisms import FastNoise
from parley.report.pages.audit_page import membership_page
from parley.report.words.membership import attack_rows, headline, learned, model_rows, most_area
from parley.terms import Model

KINDS = ("logistic-regression", "linear-regression", "linear-svm")


def crowded(kind, rows=80, columns=30, seed=0):
    """Nearly as many columns as a table has rows."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(rows, columns)), np.ones(rows)])
    y = X @ rng.normal(size=columns + 1) / 4 + rng.normal(size=rows)
    return Design(X, y if kind == "linear-regression" else np.where(y > 0, 1.0, -1.0), np.ones(rows))


@pytest.mark.parametrize("kind", KINDS)
def test_many_models_at_once_are_those_that_are_fitted_one_by_one(kind):
    design, objective = crowded(kind), make(Model(kind=kind, target="y", regularisation=0.05)).smoothed
    tables = random_tables(len(design), 6, np.random.default_rng(1))
    found = many_optima(objective, design, tables)
    for theta, table in zip(found, tables, strict=True):
        best = objective._newton([design.where(table)], None, np.zeros(design.width))
        assert np.abs(theta - best).max() < 1e-4
        assert objective.cost(design.where(table), theta) <= objective.cost(design.where(table), best) + 1e-9


def test_tables_are_random_halves():
    tables = random_tables(40, 4000, np.random.default_rng(0))
    assert (tables.sum(axis=1) == 20).all()
    assert np.abs(tables.mean(axis=0) - 0.5).max() < 5 * 0.5 / math.sqrt(4000)  # standard errors
    with pytest.raises(SettingError):
        random_tables(3, 8, np.random.default_rng(0))


@pytest.mark.parametrize("kind", KINDS)
def test_an_over_fitted_model_tells_its_members(kind):
    design, model = crowded(kind), Model(kind=kind, target="y", regularisation=0.001)
    found = infer_members(without_privacy(make(model), model.predicts, design), len(design), None, 0.0, 128, 128, 1)
    assert found.strongest.auc.low > 0.7
    assert min(each.auc.value for each in found.inferences) > 0.55
    assert found.lower_bound > 1
    assert found.holds  # nothing was claimed


def overfitting(epsilon):
    """Training that remembers 30 of 60 rows with 40 columns, were it not for its noise."""
    columns = [f"x{j}" for j in range(40)]
    terms = make_terms(
        60, epsilon=epsilon, model__kind="logistic-regression", model__features=columns, learning__horizon=8,
        learning__step=3.0, privacy__clip=40.0,
    )  # fmt: skip
    return TrainedByTerms.make(terms, "a", class_table(60, features=40).assign(y=lambda t: shuffled(t["y"])), 1)


def shuffled(y):
    """Targets that nothing explains: a model of them remembers its rows or nothing."""
    return np.random.default_rng(5).permutation(y.to_numpy())


def test_training_by_terms_stays_inside_what_epsilon_allows():
    train = overfitting(1.0)
    found = infer_members(train, 60, train.claimed, 0.0, 96, 96, 1)
    assert found.claimed_epsilon == 1
    assert found.holds
    for each in found.inferences:
        assert each.auc.low < 0.5 + 0.03
        assert each.auc.high < most_area(1.0, 0.0)
        assert each.hits.high < math.e * 1e-3 + 0.003


def test_noise_that_is_missing_is_caught():
    """1.5 is proved of a claim of 1: so many models have that power on rows that are remembered."""
    train = overfitting(1.0)
    silent = mock.patch.object(FastNoise, "laplace", lambda self, value, scale, moved: value)
    with silent:
        found = infer_members(train, 60, train.claimed, 0.0, 64, 256, 1)
    assert found.lower_bound > 1.3
    assert not found.holds


def flipped(epsilon, rng):
    """A release of who is in the table, each answer wrong with probability 1/(1 + e^eps): 2 eps for replacing a row."""

    def train(tables):
        told = tables ^ (rng.random(tables.shape) < 1 / (1 + math.exp(epsilon)))
        statistic = (told + 1e-3 * rng.random(told.shape))[:, None]
        rows = tables.shape[1]
        return Evidence(statistic, 2 - statistic, np.full(rows, np.inf), np.zeros(rows, dtype=np.int64))

    return train


def test_what_is_proved_of_a_known_law_is_below_it_and_near():
    bounds = []
    for seed in range(8):
        found = infer_members(flipped(1.0, np.random.default_rng(seed)), 20, 2.0, 0.0, 64, 1000, seed)
        bounds += [each.lower_bound for each in found.inferences]
        assert found.inferences[0].auc.value == pytest.approx(1 / (1 + math.exp(-1)), abs=0.01)
    assert max(bounds) <= 1.0  # of 24 bounds, each three at 99 %
    assert np.median(bounds) > 0.7


def test_intervals_of_a_mean_hold():
    rng, miss = np.random.default_rng(0), 0.05
    for a, b in ((0.2, 2.0), (1.0, 1.0), (5.0, 0.1)):
        means = rng.beta(a, b, size=(4000, 40)).mean(axis=1)
        low, high = mean_ends(means, 40, miss)
        truth = a / (a + b)
        assert (low > truth).mean() < miss
        assert (high < truth).mean() < miss
        assert (low <= means).all()
        assert (high >= means).all()
    assert [float(end[0]) for end in mean_ends(np.array([0.0]), 10, 0.1)] == pytest.approx([0, 1 - 0.1**0.1])


def of_estimator(make, X, y, seed=0):
    """Training of anything with `fit` and `predict_proba` or `predict`, one table after the other; X is an array or a
    table, y [rows] classes or numbers."""

    def fitted(tables):
        models, rng = [], np.random.default_rng(seed)
        for table in tables:
            places = rng.permutation(np.flatnonzero(table))
            part = X[places] if isinstance(X, np.ndarray) else X.iloc[places]
            models.append(predictions_evidence(make().fit(part, y[places]), X, y))
        return joined(models)

    return fitted


def test_anything_that_fits_and_predicts_can_be_attacked():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    found = infer_members(of_estimator(DecisionTreeClassifier, X, y), 60, None, 0.0, 40, 40, 0)
    assert found.strongest.auc.low > 0.7
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    nearest = of_estimator(lambda: KNeighborsRegressor(1), frame, rng.normal(size=60))
    assert infer_members(nearest, 60, None, 0.0, 40, 40, 0).strongest.auc.value > 0.95


@pytest.mark.parametrize("kind", ["softmax-regression", "poisson-regression"])
def test_kinds_with_other_predictions_have_evidence(kind):
    table = class_table(40)
    extra = {"model__bounds": {"y": [0, 1]}} if kind == "poisson-regression" else {}
    counted = {"model__categories": {"y": ["0", "1"]}} if kind == "softmax-regression" else {}
    terms = make_terms(40, model__kind=kind, **extra, **counted)
    train = TrainedByTerms.make(terms.changed(learning={"quorum": 1}), "a", table, 3)
    seen = train(random_tables(40, 2, np.random.default_rng(0)))
    assert seen.statistic.shape == seen.loss.shape == (2, 3, 40)
    assert np.isfinite(seen.statistic).all()


@pytest.mark.parametrize("rule", ["median", "krum"])
def test_terms_with_a_rule_of_aggregation_have_shadow_models(rule):
    terms = make_terms(40, 40, 40, 40, 40).changed(aggregation={"rule": rule, "byzantine": 1})
    seen = TrainedByTerms.make(terms, "b", regression_table(40), 2)(random_tables(40, 2, np.random.default_rng(0)))
    assert seen.statistic.shape == (2, 2, 40)
    assert np.isfinite(seen.statistic).all()


@pytest.mark.parametrize("classes", [True, False])
def test_trees_are_attacked_by_what_they_predict(classes):
    train = TrainedByTerms.make(grove_terms({"a": 60}, classes=classes), "a", grove(60, 0, classes), 2)
    seen = train(random_tables(60, 2, np.random.default_rng(0)))
    assert seen.statistic.shape == seen.loss.shape == (2, 2, 60)
    assert np.isfinite(seen.statistic).all()
    assert np.isinf(seen.aim).all() == classes


@pytest.fixture(scope="module")
def trained():
    """A model of an owner's table, with rows that it was trained on and rows that it was not."""
    table, terms = regression_table(120), make_terms(60)
    result = parley.train(terms, [parley.Owner("a", table[:60])], seed=0)
    return result.model, table[:60], table[60:], terms


def test_a_model_is_attacked_with_its_own_members(trained):
    model, members, others, terms = trained
    audit = audit_model(model, members, others, terms, "a", 16, 0)
    assert (audit.members, audit.others, audit.owner) == (60, 60, "a")
    assert set(audit.areas) == {*ATTACKS, "loss"}
    assert all(0.3 < area < 0.7 for area in audit.areas.values())
    assert audit.holds
    content = audit.to_json()
    assert content["membership"]["claimed_epsilon"] == 1
    assert [each["method"] for each in content["membership"]["attacks"]] == list(ATTACKS)
    page = membership_page(audit)
    for part in ("<svg", "claimed maximum", "signature", "own machine", "LiRA", "a was the only owner"):
        assert part in page
    assert attack_rows(audit.membership)[-2][1:] == ["0.732", "0.00272", "1"]  # rounded to the side on which they hold
    broken = replace(audit, membership=replace(audit.membership, claimed_epsilon=-1.0))
    assert "Broken" in headline(broken)


@pytest.fixture(scope="module")
def many():
    """A model of 2,000 rows and 30 columns by the least cost, its members and others."""
    table = class_table(2300, features=30).assign(y=lambda t: shuffled(t["y"]))
    terms = make_terms(
        2000, model__kind="logistic-regression", model__features=[f"x{j}" for j in range(30)], model__radius=None,
        model__regularisation=1e-3, learning__horizon=1,
    )  # fmt: skip
    members, others = table[:2000], table[2000:]
    model = parley.train(terms, [parley.Owner("a", members)], seed=0).model
    best = copy(model)
    best.theta_ = make(terms.model).optimum([model.preparation_.design(members, "a")], None)
    return best, members, others


def test_shadow_models_are_as_large_as_the_model(many):
    """The model is then one of those in the game, and its area is one of theirs."""
    model, members, others = many
    audit = audit_model(model, members, others, models=48, seed=0)
    assert (audit.members, audit.records, audit.shadow_records) == (300, 2000, 2000)
    assert audit.membership.strongest.auc.low > 0.55
    assert audit.areas["online"] > 0.59  # models of 300 rows teach 0.55
    assert audit.areas["online"] > audit.other_models["online"].high
    assert audit.other_models["online"].mean == pytest.approx(0.5, abs=0.02)
    assert audit.blind_area == pytest.approx(0.5, abs=3 * 0.032)  # standard errors of 300 beside 300
    assert (
        "Models that were fitted to 2,000 rows without noise reveal, to someone who knows all but 300 rows,"
        in headline(audit)
    )
    assert f"to {max(audit.areas.values()):.2f}." in learned(audit)[2]
    assert "1,700 of the table" in membership_page(audit)


def test_of_a_larger_table_nothing_is_said(many):
    model, members, others = many
    audit = audit_model(model, members, others, models=8, seed=0, largest=500)
    assert (audit.records, audit.shadow_records) == (2000, 500)
    assert (
        "The audited model was trained on 2,000 rows, so the finding says nothing about the audited model"
        in headline(audit)
    )
    assert audit.to_json()["shadow_records"] == 500
    promised = replace(audit, membership=replace(audit.membership, claimed_epsilon=9.0))
    assert headline(promised).startswith("No attack on models that were trained on 500 rows revealed more")
    assert "on 500 rows" in headline(replace(audit, membership=replace(audit.membership, claimed_epsilon=-1.0)))


def of_class(positive, rows, seed):
    """Rows of which this share is positive."""
    table, ones = class_table(rows * 4, seed), round(positive * rows)
    of_both = [table[table["y"] == 1][:ones], table[table["y"] == 0][: rows - ones]]
    return pd.concat(of_both).sample(frac=1, random_state=seed)


def test_an_area_of_rows_of_two_laws_stands_beside_what_no_model_tells():
    members, others = of_class(0.9, 200, 1), of_class(0.1, 200, 2)
    terms = make_terms(200, epsilon=0.5, model__kind="logistic-regression", model__radius=None)
    model = parley.train(terms, [parley.Owner("a", members)], seed=0).model
    audit = audit_model(model, members, others, terms, "a", 16, 0)
    assert max(audit.areas.values()) > 0.8 > most_area(0.5, 0.0)  # and that is no leak
    assert audit.blind_area > max(audit.areas.values()) - 0.05
    assert model_rows(audit)[-1] == ["without any model", f"{audit.blind_area:.3f}", ""]
    page = membership_page(audit)
    for part in (
        "chance decides which of two rows is in the table",
        "ε does not bound the AUC",
        "does not limit how",
    ):
        assert part in page
    content = audit.to_json()
    assert content["area_without_a_model"] == audit.blind_area
    assert content["areas_of_other_models"]["loss"].keys() == {"mean", "low", "high"}


def test_shadow_models_have_the_noise_of_the_owners_table():
    table, terms = regression_table(200), make_terms(200, model__holdout=0.5)
    train = TrainedByTerms.make(terms, "a", table[:120], always=table[120:160])
    assert train.setup.terms.owner("a").records == 100  # half of 120, and 40
    agreed = parley.Owner("a", table).prepare(terms).part.training.series
    assert train.setup.part("a").training.series.mechanism == agreed.mechanism


def test_without_terms_nothing_is_claimed(trained):
    model, members, others, _ = trained
    audit = audit_model(model, members, others, models=16, seed=0)
    assert audit.membership.claimed_epsilon is None
    assert audit.holds
    assert "No ε was claimed" in learned(audit)[0]


def test_mistakes_are_refused(trained):
    model, members, others, terms = trained
    with pytest.raises(ModelError):
        audit_model(model, members, others, terms.changed(learning={"horizon": 3}), "a", 16)
    with pytest.raises(DataError):
        audit_model(model, members[:5], others, terms, "a", 16)
    personal = copy(model)
    personal.trees_ = mock.sentinel.trees
    with pytest.raises(ModelError, match="personal"):
        audit_model(personal, members, others, terms, "a", 16)
    trees = parley.train(grove_terms({"a": 60}), [parley.Owner("a", grove(60, 0))], seed=0).model
    with pytest.raises(ModelError, match="can be trained only with the terms"):
        audit_model(trees, grove(60, 0), grove(60, 1), models=16)
    with pytest.raises(ParleyError):
        Game.play(flipped(1.0, np.random.default_rng(0)), 20, 2, 2)
    game = Game.play(flipped(1.0, np.random.default_rng(0)), 20, 8, 8, 0)
    with pytest.raises(SettingError):
        judged(game, None, 0.0, confidence=1.0)
    assert model_evidence(model, others).statistic.shape == (1, 1, 60)
