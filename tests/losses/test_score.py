import itertools
from dataclasses import replace

import numpy as np
import pytest
from samples import BOUNDS, class_table, make_terms, regression_table
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, mean_squared_error, r2_score

import parley
from parley import losses as objectives
from parley.data import Design, fit_preparation
from parley.data.design import summation_slack
from parley.errors import TermsError
from parley.losses.score import scoring
from parley.privacy.mechanisms import Bounded
from parley.terms import Model


def scored_terms(kind="linear-regression", **overrides):
    bounds = {"model__bounds": {"y": [-1.0, 1.0]}} if kind == "linear-regression" else {}
    return make_terms(
        100, **{"model__kind": kind, "model__holdout": 0.2, "privacy__score_epsilon": 0.25, **bounds, **overrides}
    )


def preparation_of(terms):
    return fit_preparation(terms)[0]


def score_of(preparation, X, y, theta, k=1):
    return score_of_design(preparation, Design(X, y, np.ones(len(y))), theta, k)


def score_of_design(preparation, design, theta, k=1):
    """The score of any rows, and what is claimed of it: as `ScoreQuestion` puts them together for the agreed number of
    rows."""
    rule = scoring(preparation)
    value = rule.mean(objectives.make(preparation.model), design, theta)
    return Bounded(value, rule.sensitivity(len(design), summation_slack(len(design), design.width), k), "l1")


def largest_move(preparation, rows, m, k):
    """How far replacing k of m rows (x, y) by any others of the list moves the score at theta = 1, by trying them
    all."""
    one = replace(preparation, model=Model(**{**preparation.model.model_dump(), "intercept": False}))
    tables = [np.array([*[rows[0]] * (m - k), *part]) for part in itertools.combinations_with_replacement(rows, k)]
    scores = np.array([score_of(one, table[:, :1], table[:, 1], np.ones(1)).value for table in tables])
    return max(float(np.abs(scores - score).sum(axis=1).max()) for score in scores)


@pytest.mark.parametrize(("m", "k", "points"), [(1, 1, 9), (7, 1, 9), (5, 2, 5)])
def test_no_replaced_rows_move_a_regressions_score_beyond_its_sensitivity_and_some_reach_it(m, k, points):
    """Predictions and targets on a grid that holds the worst case (1, -1) -> (-1/2, -1/2); with 3 instead of 13/4 this
    fails."""
    grid = np.linspace(-1, 1, points)
    preparation = preparation_of(scored_terms())
    moved = largest_move(preparation, list(itertools.product(grid, grid)), m, k)
    sensitivity = scoring(preparation).sensitivity(m, 0.0, k)
    assert moved <= sensitivity * (1 + 1e-12)
    assert moved > 0.999 * sensitivity
    assert moved > 3 * k / m  # the mutant that forgets how the three means move together


@pytest.mark.parametrize(("m", "k"), [(1, 1), (6, 1), (6, 3)])
def test_no_replaced_rows_move_more_than_two_cells(m, k):
    preparation = preparation_of(scored_terms("linear-svm"))
    moved = largest_move(preparation, list(itertools.product((-1.0, 1.0), repeat=2)), m, k)
    assert moved == pytest.approx(scoring(preparation).sensitivity(m, 0.0, k), rel=1e-12)
    assert moved > k / m  # the mutant that counts one cell


def test_random_rows_of_any_size_stay_within_the_sensitivity():
    rng = np.random.default_rng(3)
    for kind in ("linear-regression", "logistic-regression"):
        terms = scored_terms(kind, model__intercept=False)
        preparation = preparation_of(terms)
        for _ in range(300):
            m, k = int(rng.integers(2, 9)), int(rng.integers(1, 3))
            X, theta = (
                rng.standard_cauchy((m, 3)) * 10 ** rng.uniform(-3, 90),
                rng.standard_cauchy(3) * 10 ** rng.uniform(-3, 90),
            )
            raw = rng.choice([-1.0, 1.0], m) if kind != "linear-regression" else np.clip(rng.standard_cauchy(m), -1, 1)
            X2, y2 = X.copy(), raw.copy()
            X2[:k], y2[:k] = rng.normal(size=(k, 3)), rng.choice([-1.0, 1.0], k)
            a, b = score_of(preparation, X, raw, theta, k), score_of(preparation, X2, y2, theta, k)
            assert np.isfinite(a.value).all()
            assert np.abs(a.value - b.value).sum() <= a.sensitivity
            assert a.norm == "l1"


def test_without_noise_the_figures_are_those_of_the_field():
    """Held-out figures of scikit-learn; predictions beyond the target's bounds are brought back to them first."""
    rng = np.random.default_rng(5)
    table, theta = class_table(400, seed=2), rng.normal(size=3)
    X, y = table[["x0", "x1", "x2"]].to_numpy(), np.where(table["y"] > 0, 1.0, -1.0)
    preparation = preparation_of(scored_terms("linear-svm", model__intercept=False))
    shares = score_of(preparation, X, y, theta).value
    tn, fp, fn, tp = confusion_matrix(y > 0, X @ theta > 0).ravel() / 400
    np.testing.assert_allclose(shares, [tp, fp, fn, tn], rtol=1e-12)
    figures = {name: float(value) for name, (value, _) in scoring(preparation).figures(shares, 0.0).items()}
    expected = {
        "accuracy": tp + tn,
        "balanced_accuracy": (tp / (tp + fn) + tn / (tn + fp)) / 2,
        "recall": tp / (tp + fn),
        "precision": tp / (tp + fp),
    }
    assert figures == pytest.approx(expected)

    table = regression_table(400, seed=2) * 4
    X, y = table[["x0", "x1", "x2"]].to_numpy(), table["y"].to_numpy()
    preparation = preparation_of(scored_terms(model__bounds={"y": [-3.0, 5.0]}))
    kept = np.clip(y, -3, 5)
    shares = score_of(preparation, X, kept, 3 * theta).value
    figures = {name: float(value) for name, (value, _) in scoring(preparation).figures(shares, 0.0).items()}
    said = np.clip(X @ (3 * theta), -3, 5)
    assert (np.abs(X @ theta * 3) > 5).any()
    assert figures == pytest.approx({"mean_squared_error": mean_squared_error(kept, said), "r2": r2_score(kept, said)})


def test_scaled_targets_come_back_in_their_own_units(tmp_path):
    """With a public sample and a constant the target is centred and scaled; the released error is not."""
    public = regression_table(200, seed=8).assign(y=lambda t: 100 + 7 * t["y"])
    public.to_csv(tmp_path / "public.csv", index=False)
    terms = scored_terms(model__bounds={}, model__public=str(tmp_path / "public.csv"), model__intercept=True)
    preparation = preparation_of(terms)
    assert preparation.target_scale > 2
    design = preparation.design(public, "public")
    theta = np.array([0.2, -0.1, 0.0, 0.3])
    shares = score_of_design(preparation, design, theta).value
    said = np.clip(
        (design.X @ theta) * preparation.target_scale + preparation.target_centre, public["y"].min(), public["y"].max()
    )
    error = scoring(preparation).figures(shares, 0.0)["mean_squared_error"][0]
    assert float(error) == pytest.approx(mean_squared_error(public["y"], said))


@pytest.mark.parametrize("kind", ["linear-regression", "logistic-regression"])
def test_replicates_are_an_axis_and_a_streamed_table_gives_the_same(kind, tmp_path):
    table = regression_table(9000) if kind == "linear-regression" else class_table(9000)
    (tmp_path / "rows").mkdir()
    for place in range(3):
        table.iloc[3000 * place : 3000 * (place + 1)].to_parquet(
            tmp_path / "rows" / f"{place}.parquet", row_group_size=700
        )
    bounds = {"model__bounds": BOUNDS} if kind == "linear-regression" else {}
    terms = make_terms(9000, model__kind=kind, model__holdout=0.5, privacy__score_epsilon=0.1, **bounds)
    memory, disk = (parley.Owner("a", source).prepare(terms) for source in (table, tmp_path / "rows"))
    preparation, held_out = memory.setup.preparation, memory.tables.held_out
    theta = np.random.default_rng(1).normal(size=(4, 2, held_out.width))
    here, there = (score_of_design(preparation, a.tables.held_out, theta) for a in (memory, disk))
    assert here.value.shape == (4, 2, 4 if kind != "linear-regression" else 3)
    np.testing.assert_allclose(there.value, here.value, rtol=1e-12)
    assert there.sensitivity == here.sensitivity == memory.part.stages[1].series.mechanism.sensitivity
    assert there.sensitivity == disk.part.stages[1].question.sensitivity
    np.testing.assert_allclose(score_of_design(preparation, held_out, theta[2, 1]).value, here.value[2, 1], rtol=1e-12)


def test_a_target_without_public_bounds_cannot_be_scored():
    with pytest.raises(TermsError, match=r"model\.bounds\.y"):
        scored_terms(model__bounds={"x0": [0, 1]})
    bare = preparation_of(make_terms(100))
    with pytest.raises(TermsError, match="could change a score arbitrarily"):
        scoring(bare)
    with pytest.raises(TermsError, match="low < high"):  # a public sample whose target never changes
        scoring(replace(bare, target_bounds=(2.0, 2.0)))


CLASSES = {
    "model__kind": "softmax-regression",
    "model__categories": {"y": ["low", "middle", "high"]},
    "model__intercept": False,
}


def test_no_replaced_rows_of_several_classes_move_more_than_two_shares():
    """Every pair of rows, told rightly or wrongly, of any class: the sensitivity is reached, and one cell less would be
    a lie."""
    preparation = preparation_of(scored_terms(**CLASSES, model__bounds={}))
    rows = [(x, y) for x in np.eye(3) for y in (0.0, 1.0, 2.0)]
    scores = [
        score_of(preparation, np.array([x, rows[0][0]]), np.array([y, 0.0]), np.eye(3).ravel()).value for x, y in rows
    ]
    moved = max(float(np.abs(a - b).sum()) for a, b in itertools.combinations(scores, 2))
    assert moved == pytest.approx(scoring(preparation).sensitivity(2, 0.0), rel=1e-12)
    assert all(score.sum() == pytest.approx(1) for score in scores)


def test_without_noise_the_figures_of_several_classes_are_those_of_the_field():
    rng = np.random.default_rng(5)
    preparation = preparation_of(scored_terms(**CLASSES, model__bounds={}))
    X, y, theta = rng.normal(size=(400, 3)), rng.integers(0, 3, 400).astype(float), rng.normal(size=(2, 9))
    shares = score_of(preparation, X, y, theta).value
    assert shares.shape == (2, 6)
    figures = scoring(preparation).figures(shares, 0.0)
    for r in range(2):
        said = (X @ theta[r].reshape(3, 3).T).argmax(axis=1)
        hits = [np.mean((y == c) & (said == c)) for c in range(3)] + [np.mean((y == c) & (said != c)) for c in range(3)]
        np.testing.assert_allclose(shares[r], hits, rtol=1e-12)
        assert figures["accuracy"][0][r] == pytest.approx(accuracy_score(y, said))
        assert figures["balanced_accuracy"][0][r] == pytest.approx(balanced_accuracy_score(y, said))


def test_standard_errors_of_several_classes_are_those_of_the_noise():
    """20,000 draws: means within 5 standard errors of the truth, spreads within 3 % of what is claimed; noise in the
    sum is taken out."""
    runs, deviation = 20_000, 0.004
    preparation = preparation_of(scored_terms(**CLASSES, model__bounds={}))
    exact = np.array([0.25, 0.2, 0.15, 0.1, 0.2, 0.1])
    noisy = exact + np.random.default_rng(2).laplace(scale=deviation / np.sqrt(2), size=(runs, 6))
    truth, seen = scoring(preparation).figures(exact, 0.0), scoring(preparation).figures(noisy, deviation)
    for name, (values, errors) in seen.items():
        spread = values.std(ddof=1)
        assert abs(values.mean() - float(truth[name][0])) < 5 * spread / np.sqrt(runs), name
        assert errors.mean() == pytest.approx(spread, rel=0.03), name
    plain = noisy[:, :3].sum(axis=1).std(ddof=1)
    assert seen["accuracy"][0].std(ddof=1) < 0.75 * plain  # what knowing the sum is worth
