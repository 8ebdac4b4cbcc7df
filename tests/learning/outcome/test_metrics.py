import numpy as np
import pandas as pd
import pytest
from samples import class_table, make_terms, regression_table
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

from parley.learning.outcome.metrics import task_metrics
from parley.protocol.setup import resolve


def test_regression_metrics_equal_scikit_learns_and_average_over_runs():
    terms = make_terms(100, model__holdout=0.5)
    setup = resolve(terms)
    _, held = setup.preparation.designs(regression_table(100), terms, "a")
    theta = np.random.default_rng(0).normal(size=(3, 3))
    got = task_metrics(setup.objective, setup.preparation, held, theta)
    assert got["r2"] == pytest.approx(np.mean([r2_score(held.y, held.X @ t) for t in theta]))
    assert got["mean_absolute_error"] == pytest.approx(
        np.mean([mean_absolute_error(held.y, held.X @ t) for t in theta])
    )


def test_classification_metrics_equal_scikit_learns():
    terms = make_terms(400, model__kind="logistic-regression", model__holdout=0.5)
    setup = resolve(terms)
    _, held = setup.preparation.designs(class_table(400), terms, "a")
    theta = np.array([1.0, 0.5, 1.0, 0.1])
    got = task_metrics(setup.objective, setup.preparation, held, theta)
    score = held.X @ theta
    assert got["auc"] == pytest.approx(roc_auc_score(held.y, score))
    assert got["average_precision"] == pytest.approx(average_precision_score(held.y, score))
    assert got["accuracy"] == pytest.approx(np.mean(np.sign(score) == held.y))
    top = np.argsort(-score)[:2]  # 1 % of 200 rows
    assert got["recall_at_1_percent"] == pytest.approx((held.y[top] > 0).sum() / (held.y > 0).sum())


def test_what_the_rows_do_not_define_is_none():
    terms = make_terms(50, model__kind="linear-svm")
    setup = resolve(terms)
    train, held = setup.preparation.designs(class_table(50).assign(y=0), terms, "a")
    assert set(task_metrics(setup.objective, setup.preparation, held, np.zeros((1, 4))).values()) == {None}
    single = task_metrics(setup.objective, setup.preparation, train, np.zeros((1, 4)))
    assert single["auc"] is None
    assert single["accuracy"] == 1.0


def several_classes(n, classes="abcd", seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(classes), n)
    X = np.clip(rng.normal(0, 1, (n, 3)) + np.vstack([np.eye(3), [-1, -1, 0]])[y], -4, 4)
    return pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=np.array([*classes])[y])


def test_metrics_of_several_classes_equal_scikit_learns_and_average_over_runs():
    terms = make_terms(600, model__kind="softmax-regression", model__categories={"y": [*"abcd"]}, model__holdout=0.5)
    setup = resolve(terms)
    _, held = setup.preparation.designs(several_classes(600), terms, "a")
    theta = np.random.default_rng(1).normal(size=(3, 16))
    got = task_metrics(setup.objective, setup.preparation, held, theta)
    expected = {"accuracy": [], "balanced_accuracy": [], "log_loss": [], "auc": []}
    for t in theta:
        scores = held.X @ t.reshape(4, 4).T
        p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        expected["accuracy"].append(accuracy_score(held.y, scores.argmax(axis=1)))
        expected["balanced_accuracy"].append(balanced_accuracy_score(held.y, scores.argmax(axis=1)))
        expected["log_loss"].append(log_loss(held.y, p))
        expected["auc"].append(roc_auc_score(held.y, p, multi_class="ovr", average="macro"))
    assert got == pytest.approx({name: np.mean(values) for name, values in expected.items()})


def test_classes_that_no_row_has_are_left_out():
    terms = make_terms(100, model__kind="softmax-regression", model__categories={"y": [*"abcd"]})
    setup = resolve(terms)
    two, held = setup.preparation.designs(several_classes(100, "ab"), terms, "a")
    got = task_metrics(setup.objective, setup.preparation, two, np.random.default_rng(0).normal(size=16))
    assert all(np.isfinite(value) for value in got.values())
    assert set(task_metrics(setup.objective, setup.preparation, held, np.zeros(16)).values()) == {None}
    one, _ = setup.preparation.designs(several_classes(100, "a"), terms, "a")
    single = task_metrics(setup.objective, setup.preparation, one, np.zeros(16))
    assert single["auc"] is None
    assert single["log_loss"] == pytest.approx(np.log(4))
