"""Softmax regression: its derivatives and optimum, and bounds that no pair of neighbours exceeds, searched for by hill
climbing."""

import numpy as np
import pytest
from samples import gradient_answer
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from softmax import ORDER, softmax_terms

from parley.data import Design
from parley.data.design import BLOCK_ROWS
from parley.errors import SettingError
from parley.losses import LogisticRegression, RecordBound, SoftmaxRegression
from parley.protocol.setup import resolve


def random_design(n=200, classes=3, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(0, 1.2, (n, p)), rng.integers(0, classes, n).astype(float)
    X[:, 0] += 0.8 * y  # classes that differ, and overlap
    return Design(X, y, rng.uniform(0.5, 2, n))


# --- What it computes


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_gradient_and_hessian_are_the_derivatives_of_the_cost(classes, penalty):
    objective, design = SoftmaxRegression(penalty), random_design(classes=classes)
    theta = np.random.default_rng(1).normal(size=4 * classes) * 0.5
    h = 1e-6 * np.eye(len(theta))

    def gradient(t):
        return objective.mean_gradient(design, t) + objective.penalty_gradient(t)

    numeric = [(objective.cost(design, theta + e) - objective.cost(design, theta - e)) / 2e-6 for e in h]
    np.testing.assert_allclose(gradient(theta), numeric, rtol=1e-5, atol=1e-7)
    curve = [(gradient(theta + e) - gradient(theta - e)) / 2e-6 for e in h]
    np.testing.assert_allclose(objective.hessian(design, theta), curve, rtol=1e-4, atol=1e-7)
    assert np.linalg.eigvalsh(objective.hessian(design, theta))[-1] <= objective.curvature(design) * (1 + 1e-12)


def test_a_second_derivative_of_too_many_parameters_is_not_written_out():
    design = random_design(n=5, p=301, classes=2)
    assert SoftmaxRegression().hessian(design, np.zeros(602)) is None


def literal_gradients(design, theta):
    """(p - e_y) x' of every record, one by one."""
    rows = []
    for x, y, w in zip(design.X, design.y, design.weight, strict=True):
        scores = theta.reshape(-1, len(x)) @ x
        p = np.exp(scores - scores.max())
        p /= p.sum()
        p[int(y)] -= 1
        rows.append(w * np.outer(p, x).ravel())
    return np.array(rows)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_clipping_equals_the_per_record_definition(norm):
    design, objective, clip = random_design(), SoftmaxRegression(), 2.0
    theta = np.random.default_rng(5).normal(size=(3, 12))
    value = gradient_answer(objective, design, theta, RecordBound(clip, norm, clips=True)).value
    for r in range(3):
        gradients = literal_gradients(design, theta[r])
        np.testing.assert_allclose(objective.record_gradients(design, theta[r]), gradients, rtol=1e-12, atol=1e-13)
        size = np.linalg.norm(gradients, ord=ORDER[norm], axis=1)
        np.testing.assert_allclose(objective.record_norms(design, theta[r], norm), size, rtol=1e-12)
        assert 0.05 < (size > clip).mean() < 0.95
        clipped = gradients * np.minimum(1, clip / size)[:, None]
        np.testing.assert_allclose(value[r], clipped.mean(axis=0), rtol=1e-12, atol=1e-14)


def test_a_batch_of_parameters_gives_what_each_gives_alone_over_many_blocks():
    design, objective = random_design(n=2 * BLOCK_ROWS + 17), SoftmaxRegression(0.2)
    theta, bound = np.random.default_rng(3).normal(size=(2, 3, 12)), RecordBound(1.0, "l2", clips=True)
    gradients, local, costs = (
        objective.mean_gradient(design, theta, bound),
        objective.local_gradient(design, theta, bound),
        objective.cost(design, theta),
    )
    assert (gradients.shape, costs.shape) == ((2, 3, 12), (2, 3))
    for place in np.ndindex(2, 3):
        np.testing.assert_allclose(
            gradients[place], objective.mean_gradient(design, theta[place], bound), rtol=1e-10, atol=1e-14
        )
        np.testing.assert_allclose(
            local[place], objective.local_gradient(design, theta[place], bound), rtol=1e-10, atol=1e-14
        )
        assert costs[place] == pytest.approx(float(objective.cost(design, theta[place])), rel=1e-12)


def test_scores_beyond_what_exponentials_bear_are_no_trouble():
    design, objective = random_design(), SoftmaxRegression()
    theta = np.random.default_rng(0).normal(size=12) * 1e50
    assert np.isfinite(objective.cost(design, theta))
    assert np.isfinite(objective.mean_gradient(design, theta)).all()


# --- Its optimum


@pytest.mark.parametrize("classes", [3, 4])
def test_the_optimum_equals_scikit_learns(classes):
    design, penalty = random_design(n=400, classes=classes), 0.05
    parts = [design.where(np.arange(400) < 150), design.where(np.arange(400) >= 150)]
    solver = SklearnLogistic(C=1 / (penalty * 400), fit_intercept=False, tol=1e-12, max_iter=10_000)
    reference = solver.fit(design.X, design.y, sample_weight=design.weight).coef_
    objective = SoftmaxRegression(penalty)
    theta = objective.optimum(parts)
    np.testing.assert_allclose(theta.reshape(classes, -1), reference, rtol=1e-3, atol=1e-5)
    gradient = sum(len(d) / 400 * objective.mean_gradient(d, theta) for d in parts) + objective.penalty_gradient(theta)
    assert np.abs(gradient).max() < 1e-6
    # the same minimum
    assert np.abs(objective.mean_gradient(design, reference.ravel()) + penalty * reference.ravel()).max() < 1e-4


def test_without_a_penalty_the_classes_add_up_to_zero():
    """Adding one vector to every class changes nothing; of all optima this is the shortest."""
    design, objective = random_design(n=500), SoftmaxRegression()
    theta = objective.optimum([design])
    np.testing.assert_allclose(theta.reshape(3, 4).sum(axis=0), 0, atol=1e-8)
    shifted = (theta.reshape(3, 4) + np.array([1.0, -2.0, 3.0, 0.5])).ravel()
    assert objective.cost(design, shifted) == pytest.approx(float(objective.cost(design, theta)), rel=1e-12)
    assert np.abs(objective.mean_gradient(design, theta)).max() < 1e-6


def test_inside_a_box_that_binds_nothing_feasible_is_better():
    design, objective, rng = random_design(), SoftmaxRegression(), np.random.default_rng(1)
    theta = objective.optimum([design], radius=0.2)
    assert np.abs(theta).max() == pytest.approx(0.2)
    best = float(objective.cost(design, theta))
    for direction in rng.normal(size=(200, 12)) * 0.05:
        assert float(objective.cost(design, np.clip(theta + direction, -0.2, 0.2))) >= best - 1e-9


def test_two_classes_are_logistic_regression():
    """theta = second row less the first; each row's gradient is half of what moves theta, and a penalty on both is half
    of one on theta."""
    design = random_design(n=300, classes=2)
    signed = Design(design.X, 2 * design.y - 1, design.weight)
    plain, logistic = SoftmaxRegression(), LogisticRegression()
    rows = np.random.default_rng(2).normal(size=(5, 2, 4))
    theta = rows[:, 1] - rows[:, 0]
    np.testing.assert_allclose(plain.cost(design, rows.reshape(5, 8)), logistic.cost(signed, theta), rtol=1e-12)
    gradient = logistic.mean_gradient(signed, theta)
    np.testing.assert_allclose(
        plain.mean_gradient(design, rows.reshape(5, 8)),
        np.concatenate([-gradient, gradient], axis=1),
        rtol=1e-10,
        atol=1e-14,
    )
    for norm, factor in (("l1", 2.0), ("l2", 2**0.5)):
        sizes = plain.record_norms(design, rows[0].ravel(), norm)
        np.testing.assert_allclose(
            sizes, factor * logistic.record_norms(signed, theta[0], norm), rtol=1e-10, atol=1e-13
        )
    best = SoftmaxRegression(0.2).optimum([design]).reshape(2, 4)
    np.testing.assert_allclose(best[1] - best[0], LogisticRegression(0.1).optimum([signed]), rtol=1e-4, atol=1e-6)


def test_a_class_that_no_row_has_still_has_its_parameters():
    """An owner may have none of some class: its optimum is a model of all of them, if it is told how many there are."""
    design, setup = random_design(n=300, classes=2, p=3), resolve(softmax_terms(300, clip=1.0))
    start = setup.objective.start(setup.preparation)
    assert len(start) == setup.parameters == 9
    theta = SoftmaxRegression(0.01).optimum([design], 5.0, start=start)
    assert theta.shape == (9,)
    p = np.exp(SoftmaxRegression().scores(design.X, theta)).mean(axis=0)
    assert p.argmin() == 2
    assert np.abs(SoftmaxRegression(0.01).mean_gradient(design, theta) + 0.01 * theta).max() < 1e-6


def test_classes_that_separate_have_no_optimum_and_the_message_says_what_to_do():
    design = Design(np.repeat(np.eye(3), 4, axis=0), np.repeat(np.arange(3.0), 4), np.ones(12))
    with pytest.raises(SettingError, match=r"set model\.radius"):
        SoftmaxRegression().optimum([design])
    assert np.abs(SoftmaxRegression().optimum([design], radius=3.0)).max() == 3.0
    assert np.abs(SoftmaxRegression(1e-3).optimum([design])).max() < 20
    # one row that contradicts
    mixed = Design(np.vstack([design.X, design.X[:1]]), np.append(design.y, 2.0), np.ones(13))
    assert np.isfinite(SoftmaxRegression().optimum([mixed], radius=30.0)).all()
