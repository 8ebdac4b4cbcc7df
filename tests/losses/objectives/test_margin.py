import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import BOUNDS, class_table, gradient_answer, make_terms, regression_table

from parley.data import Design
from parley.data.design import BLOCK_ROWS
from parley.losses import LinearRegression, LinearSVM, LogisticRegression, RecordBound
from parley.losses.loss import Hinge
from parley.protocol.setup import resolve

KINDS = [LinearRegression(0.3), LinearSVM(1.0), LinearSVM(0.5, loss=Hinge(smoothing=0.3)), LogisticRegression(0.1)]
SMOOTH = [objective for objective in KINDS if not (isinstance(objective, LinearSVM) and objective.loss.smoothing == 0)]


def random_design(n=300, p=4, seed=0, classes=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 1.5, (n, p))
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0) if classes else rng.normal(0, 2, n)
    return Design(X, y, rng.uniform(0.5, 2, n))


def record_gradients(objective, design, theta):
    """The literal definition: one gradient a record, by differences of its own loss."""
    step = 1e-6
    rows = []
    for x, y, w in zip(design.X, design.y, design.weight, strict=True):
        margin, loss = np.array([theta @ x]), objective.loss.loss
        derivative = (loss(margin + step, y) - loss(margin - step, y))[0] / (2 * step)
        rows.append(w * derivative * x)
    return np.array(rows)


@pytest.mark.parametrize("objective", KINDS)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_clipping_equals_the_per_record_definition(objective, norm):
    design = random_design()
    theta = np.random.default_rng(5).normal(size=(3, 4))
    bound = RecordBound(2.5, norm, clips=True)
    value = gradient_answer(objective, design, theta, bound).value
    for r in range(3):
        gradients = record_gradients(objective, design, theta[r])
        size = np.linalg.norm(gradients, ord=1 if norm == "l1" else 2, axis=1)
        np.testing.assert_allclose(objective.record_norms(design, theta[r], norm), size, rtol=1e-5, atol=1e-8)
        clipped = gradients * np.minimum(1, 2.5 / np.maximum(size, 1e-300))[:, None]
        assert (size > 2.5).mean() > 0.05  # the clip does bind
        np.testing.assert_allclose(value[r], clipped.mean(axis=0), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("objective", SMOOTH)
def test_gradient_and_hessian_are_the_derivatives_of_the_cost(objective):
    design = random_design()
    theta = np.random.default_rng(1).normal(size=4) * 0.3
    h = 1e-6 * np.eye(4)
    gradient = [(objective.cost(design, theta + e) - objective.cost(design, theta - e)) / 2e-6 for e in h]
    full = objective.mean_gradient(design, theta) + objective.penalty_gradient(theta)
    np.testing.assert_allclose(full, gradient, rtol=1e-5, atol=1e-7)

    def gradient_at(t):
        return objective.mean_gradient(design, t) + objective.penalty_gradient(t)

    curve = [(gradient_at(theta + e) - gradient_at(theta - e)) / 2e-6 for e in h]
    np.testing.assert_allclose(objective.hessian(design, theta), curve, rtol=1e-4, atol=2e-2)


def test_the_hinge_gradient_is_a_subgradient():
    design, objective = random_design(), LinearSVM(1.0)
    rng = np.random.default_rng(2)
    for _ in range(50):
        here, there = rng.normal(size=(2, 4))
        gradient = objective.mean_gradient(design, here) + objective.penalty_gradient(here)
        assert objective.cost(design, there) >= objective.cost(design, here) + gradient @ (there - here) - 1e-12


@pytest.mark.parametrize("objective", KINDS)
def test_a_batch_of_parameters_gives_what_each_gives_alone(objective):
    design = random_design(n=3 * BLOCK_ROWS + 17)
    theta = np.random.default_rng(3).normal(size=(2, 3, 4))
    bound = RecordBound(3.0, "l1", clips=True)
    batch, cost = objective.mean_gradient(design, theta, bound), objective.cost(design, theta)
    assert batch.shape == (2, 3, 4)
    assert cost.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            np.testing.assert_allclose(
                batch[i, j], objective.mean_gradient(design, theta[i, j], bound), rtol=1e-10, atol=1e-13
            )
            assert cost[i, j] == pytest.approx(float(objective.cost(design, theta[i, j])), rel=1e-12)


def test_statistics_give_the_same_gradient_as_the_records():
    design = random_design(n=2 * BLOCK_ROWS + 5, classes=False)
    theta = np.random.default_rng(4).normal(size=(7, 4))
    never = RecordBound(1e12, "l1", clips=True)
    by_records = LinearRegression().mean_gradient(design, theta, never)
    by_statistics = LinearRegression().mean_gradient(design, theta, RecordBound(1e12, "l1", clips=False))
    np.testing.assert_allclose(by_statistics, by_records, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", ["linear-regression", "linear-svm", "logistic-regression"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_record_within_the_bounds_exceeds_the_implied_bound(kind, norm):
    weight = {} if kind == "linear-regression" else {"model__class_weight": {"1": 3.0}}
    bounds = BOUNDS if kind == "linear-regression" else {k: v for k, v in BOUNDS.items() if k != "y"}
    terms = make_terms(400, model__kind=kind, model__bounds=bounds, privacy__clip=None, **weight)
    table = regression_table(400) if kind == "linear-regression" else class_table(400)
    setup = resolve(terms)
    objective = setup.objective
    bound = objective.record_bound(setup.preparation, setup.limits, norm)
    assert not bound.clips
    design, _ = setup.preparation.designs(
        table * 100 if kind == "linear-regression" else table.assign(x0=table.x0 * 99), terms, "a"
    )
    rng = np.random.default_rng(0)
    corners = rng.choice([-5.0, 5.0], size=(20, design.width))
    largest = max(objective.record_norms(design, corner, norm).max() for corner in corners)
    assert largest <= bound.value
    assert largest > 0.5 * bound.value  # and the bound is not idle


def test_the_smaller_of_clip_and_bounds_counts():
    def bound(**overrides):
        setup = resolve(make_terms(10, **overrides))
        return setup.objective.record_bound(setup.preparation, setup.limits, "l1")

    assert not bound(model__bounds=BOUNDS, privacy__clip=1e9).clips
    assert bound(model__bounds=BOUNDS, privacy__clip=1.0) == RecordBound(1.0, "l1", clips=True)
    assert bound().clips


def adversarial_pairs(count, n=20_000, p=3):
    """Tables whose sums round badly, and the same with one record replaced by its opposite."""
    rng = np.random.default_rng(8)
    for _ in range(count):
        X = rng.choice([1.0, 1 / 3, 0.1, 1e-3, 7e-9], size=(n, p)) * rng.choice([-1, 1], size=(n, 1))
        y = -np.sign(X[:, 0]) * 50.0
        one, other = X.copy(), X.copy()
        place = rng.integers(n)
        one[place], other[place] = [1.0, 0, 0], [-1.0, 0, 0]
        y[place] = 50.0
        weight = np.ones(n)
        yield Design(one, y, weight), Design(other, y, weight)


def largest_excess(bound):
    """By how much, relative to 2 Xi/n, the largest measured change exceeds it; and the same for the stated
    sensitivity."""
    theta = np.array([[0.7, -0.1, 0.3], [1 / 3, 0.2, -0.9]])
    naive, stated = -np.inf, -np.inf
    for one, other in adversarial_pairs(30):
        first, second = (gradient_answer(LinearRegression(), d, theta, bound) for d in (one, other))
        change = np.abs(first.value - second.value).sum(axis=-1).max()
        naive = max(naive, change / (2 * bound.value / len(one)) - 1)
        stated = max(stated, change / first.sensitivity - 1)
    return naive, stated


def test_rounding_is_part_of_the_sensitivity():
    """Without the slack the computed answers of two neighbours differ by more than 2 Xi/n; with it they never do."""
    naive, stated = largest_excess(RecordBound(0.3, "l1", clips=True))
    assert naive > 0  # the mutant without slack is caught
    assert stated <= 0
    assert naive < 1e-6


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.sampled_from([1e-300, 1e-8, 1.0, 1e8, 1e100]), st.sampled_from([1e-3, 1.0, 1e6]))
def test_one_record_of_any_size_moves_the_answer_by_at_most_the_sensitivity(seed, size, clip):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(50, 3)), rng.choice([-1.0, 1.0], 50)
    other = X.copy()
    other[7] = rng.normal(size=3) * size
    theta = rng.normal(size=3) * rng.choice([1.0, 1e50])
    bound = RecordBound(clip, "l1", clips=True)
    for objective in (LinearRegression(), LinearSVM(1.0), LogisticRegression()):
        first = gradient_answer(objective, Design(X, y, np.ones(50)), theta, bound)
        second = gradient_answer(objective, Design(other, y, np.ones(50)), theta, bound)
        assert np.isfinite(second.value).all()
        assert np.abs(first.value - second.value).sum() <= first.sensitivity


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 300), st.sampled_from(["l1", "l2"]), st.floats(0.01, 30))
def test_clipped_least_squares_of_many_parameters_is_that_of_each(seed, clip, norm, spread):
    """With replicates, records that cannot clip are taken by their statistics: the same numbers, whatever share may
    clip."""
    design = random_design(n=3 * BLOCK_ROWS + 17, p=3, seed=seed, classes=False)
    bound = RecordBound(clip, norm, clips=True)
    theta = np.random.default_rng(seed).normal(0, spread, (6, 3)) * np.linspace(0, 1, 6)[:, None]
    together = LinearRegression().mean_gradient(design, theta, bound)
    singly = np.array([LinearRegression().mean_gradient(design, row, bound) for row in theta])
    np.testing.assert_allclose(together, singly, rtol=1e-9, atol=1e-9 * clip)


def test_records_that_clip_at_the_best_fit_itself_are_not_sure():
    # best fit 0, where all of them clip
    design = Design(np.array([[1.0], [1.0], [1.0]]), np.array([-10.0, 5.0, 5.0]), np.ones(3))
    bound = RecordBound(2.0, "l1", clips=True)
    theta = np.zeros((2, 1))
    np.testing.assert_allclose(
        LinearRegression().mean_gradient(design, theta, bound)[0],
        LinearRegression().mean_gradient(design, theta[0], bound),
    )
