"""Softmax regression: its derivatives and optimum, and bounds that no pair of neighbours exceeds, searched for by hill
climbing."""

import numpy as np
import pytest
from samples import gradient_answer, make_terms
from sklearn.linear_model import LogisticRegression as SklearnLogistic

from parley.data import Design
from parley.data.design import BLOCK, summation_slack
from parley.errors import SettingError
from parley.losses import LogisticRegression, RecordBound, SoftmaxRegression
from parley.losses.local_update import mean_direction
from parley.losses.multinomial import FARTHEST
from parley.losses.objectives import classes
from parley.losses.record_bound import derivative_limit
from parley.protocol.queries import GradientQuery, Tables, UpdateQuery
from parley.protocol.setup import resolve

ORDER = {"l1": 1, "l2": 2}
MECHANISM = {"l1": {}, "l2": {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}}
LOCAL = {"learning__algorithm": "federated-averaging", "learning__local_steps": 4, "learning__step": "auto"}


def random_design(n=200, classes=3, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(0, 1.2, (n, p)), rng.integers(0, classes, n).astype(float)
    X[:, 0] += 0.8 * y  # classes that differ, and overlap
    return Design(X, y, rng.uniform(0.5, 2, n))


def softmax_terms(n=1, clip=None, norm="l2", weight=2.5, radius=5.0, bound=1.0, **overrides):
    """Three classes, three features within the bounds, no constant; one class counts for more."""
    features = ["x0", "x1", "x2"]
    return make_terms(
        n,
        model__kind="softmax-regression",
        model__categories={"y": ["low", "middle", "high"]},
        model__class_weight={"high": weight},
        model__bounds={name: [-bound, bound] for name in features},
        model__intercept=False,
        model__radius=radius,
        privacy__clip=clip,
        **MECHANISM[norm] | overrides,
    )


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
    design, objective = random_design(n=2 * BLOCK + 17), SoftmaxRegression(0.2)
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


# --- How far one record moves it


def hill_climb(value, size, seed, tries=400, restarts=2, enough=np.inf):
    """The largest value found from random beginnings, or the first above `enough`: steps in some coordinates, longer
    after a success, shorter after a failure."""
    rng, best = np.random.default_rng(seed), -np.inf
    for _ in range(restarts):
        here, length = rng.normal(size=size), 1.0
        there = value(here)
        for _ in range(tries):
            moved = here + length * rng.normal(size=size) * (rng.random(size) < 0.4)
            found = value(moved)
            if found > there:
                here, there, length = moved, found, min(3.0, 1.5 * length)
                if there > enough:
                    return there
            else:
                length = max(1e-3, 0.97 * length)
        best = max(best, there)
    return best


def neighbours(v, labels, bound, weight):
    """Two tables of one row each, within the bounds, and a parameter in the box of radius 5, from 24 numbers without
    limits."""
    rows = bound * np.tanh(v[:6].reshape(2, 3))
    weights = weight / (1 + np.exp(-4 * v[6:8]))
    tables = [Design(rows[[i]], np.array([labels[i]]), weights[[i]]) for i in range(2)]
    return tables, 5 * np.tanh(v[8:17])


def farthest(norm, clip, bound, labels, seed, update=False, enough=np.inf):
    """The largest distance between the answers of neighbours, relative to the sensitivity that the noise is calibrated
    for."""
    terms = softmax_terms(clip=clip, norm=norm, bound=bound, **LOCAL if update else {})
    setup = resolve(terms)
    question = setup.part("a").training.question
    assert question.bound.clips is (clip is not None)
    kind, more = (UpdateQuery, (4,)) if update else (GradientQuery, ())

    def ratio(v):
        tables, theta = neighbours(v, labels, bound, setup.limits.largest_weight)
        query = kind.ask("t", "l", 1, theta, *more)
        values = [question.bounded(query, Tables(table, table.empty())).value for table in tables]
        return float(np.linalg.norm(values[0] - values[1], ord=ORDER[norm])) / question.sensitivity

    return hill_climb(ratio, 17, seed, enough=enough)


LABELS = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0)]


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(("clip", "bound"), [(0.5, 30.0), (None, 1.0)], ids=["clip binds", "bounds"])
def test_no_neighbours_move_the_mean_gradient_further_than_claimed(norm, clip, bound):
    found = [farthest(norm, clip, bound, labels, seed) for seed, labels in enumerate(LABELS)]
    assert max(found) <= 1
    assert max(found) > (0.9 if clip else 0.75)  # the search does look where it hurts


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_search_finds_a_clip_that_measures_half(norm, monkeypatch):
    """The mutant: records scaled down by half their norm."""
    norms = classes._norms
    monkeypatch.setattr(classes, "_norms", lambda residual, which: norms(residual, which) / 2)
    assert any(farthest(norm, 0.5, 30.0, labels, seed, enough=1.5) > 1.5 for seed, labels in enumerate(LABELS))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_bound_that_follows_from_the_bounds_is_reached(norm):
    setup = resolve(softmax_terms(norm=norm))
    bound = setup.part("a").training.question.bound
    assert not bound.clips
    corner = Design(
        np.ones((1, 3)), np.array([2.0]), np.array([2.5])
    )  # the class that counts for more, and is given up for another
    theta = np.array([[5.0] * 3, [-5.0] * 3, [-5.0] * 3]).ravel()
    reached = float(setup.objective.record_norms(corner, theta, norm)[0])
    assert 0.99 * bound.value < reached <= bound.value
    exact = {"l1": 2 * 2.5 * 3, "l2": 2**0.5 * 2.5 * 3**0.5}[norm]
    assert bound.value == pytest.approx(exact, rel=1e-9)


def test_one_record_of_any_size_moves_the_answer_by_at_most_the_sensitivity():
    rng, objective = np.random.default_rng(0), SoftmaxRegression()
    for _ in range(200):
        X, y = rng.normal(size=(50, 3)), rng.integers(0, 3, 50).astype(float)
        other = X.copy()
        other[7] = rng.normal(size=3) * rng.choice([1e-50, 1e-8, 1.0, 1e8, 1e50])
        theta = rng.normal(size=9) * rng.choice([1.0, 1e50])
        for norm in ("l1", "l2"):
            bound = RecordBound(float(rng.choice([1e-3, 1.0, 1e6])), norm, clips=True)
            one, two = (gradient_answer(objective, Design(rows, y, np.ones(50)), theta, bound) for rows in (X, other))
            assert np.isfinite(two.value).all()
            assert np.linalg.norm(one.value - two.value, ord=ORDER[norm]) <= one.sensitivity


# --- Local steps


def test_every_share_of_a_local_step_measures_at_most_the_bound_and_one_reaches_it():
    rng, objective = np.random.default_rng(4), SoftmaxRegression()
    largest = 0.0
    for _ in range(300):
        row = Design(
            rng.normal(size=(1, 3)) * 10 ** rng.uniform(-3, 3),
            rng.integers(0, 3, 1).astype(float),
            rng.uniform(0.1, 3, 1),
        )
        clip = float(10 ** rng.uniform(-2, 2))
        size = np.linalg.norm(
            objective.local_gradient(row, rng.normal(size=9) * 1e3, RecordBound(clip, "l2", clips=True))
        )
        largest = max(largest, size / clip)
    assert 0.99 < largest <= 1


def expansion(setup, bound, length, seed, gradient, enough=np.inf):
    """How much further apart one step of `length` times 1/L drives two close points at most, as found by search; two
    records."""
    rho = length / setup.objective.largest_curvature(setup.preparation)

    def ratio(v):
        rows = np.tanh(v[:6].reshape(2, 3))
        table = Design(rows, np.array([0.0, 1.0]), np.array([2.5, 2.5]))
        points = np.stack([v[6:15], v[6:15] + 0.1 * v[15:24]])
        ends = points - rho * gradient(table, points, bound)
        return float(np.linalg.norm(ends[0] - ends[1]) / max(np.linalg.norm(points[0] - points[1]), 1e-4))

    return hill_climb(ratio, 24, seed, enough=enough)


@pytest.mark.parametrize("clip", [0.4, None])
def test_no_local_step_of_at_most_2_over_l_drives_points_apart(clip):
    setup = resolve(softmax_terms(clip=clip, **LOCAL))
    objective, bound = setup.objective, setup.part("a").training.question.bound
    assert bound.clips is (clip is not None)
    for seed, length in enumerate((0.5, 1.0, 2.0)):
        assert expansion(setup, bound, length, seed, objective.local_gradient) <= 1 + 1e-9
    if clip is None:  # the mutant: steps that are twice as long
        assert expansion(setup, bound, 4.0, 0, objective.local_gradient, 1.5) > 1.5


def test_steps_along_gradients_that_are_clipped_as_a_whole_drive_points_apart():
    """Why rows are shortened instead: one record x = 1 of three classes, a clip that just binds, a step of 2/L = 4."""
    row, objective = Design(np.ones((1, 1)), np.zeros(1), np.ones(1)), SoftmaxRegression()
    points = np.array([[-13.0, 0.438, -0.438], [-13.0, 0.438, -0.438]])
    points[1] += 1e-5 * np.array([-0.727, 0.687, 0.040])
    bound = RecordBound(1.2589, "l2", clips=True)

    def stretched(gradient):
        ends = points - 4.0 * gradient(row, points, bound)
        return np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(points[0] - points[1])

    assert stretched(objective.mean_gradient) > 1.09
    assert stretched(objective.local_gradient) <= 1


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("clip", [0.5, None])
def test_no_neighbours_move_a_local_update_further_than_claimed(norm, clip):
    found = [
        farthest(norm, clip, 2.0 if clip else 1.0, labels, seed, update=True) for seed, labels in enumerate(LABELS[:2])
    ]
    assert max(found) <= 1
    assert max(found) > 0.6


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no extended precision on this machine")
@pytest.mark.parametrize("clip", [0.4, None])
def test_the_rounding_of_all_local_steps_is_within_its_bound(clip):
    """Against extended precision, with the row lengths that the owner computed."""
    setup = resolve(softmax_terms(20, clip=clip, **LOCAL))
    local, bound, rng, wide = (
        setup.local_update,
        setup.part("a").training.question.bound,
        np.random.default_rng(3),
        np.longdouble,
    )
    worst = 0.0
    for _ in range(40):
        design = Design(rng.uniform(-1, 1, (20, 3)), rng.integers(0, 3, 20).astype(float), np.ones(20))
        start = rng.uniform(-5, 5, 9)
        computed = local.direction(lambda w, d=design: setup.objective.local_gradient(d, w, bound), start)

        def exact(w, design=design):
            X = wide(design.X)
            if bound.clips:
                limit = derivative_limit(design, bound) / FARTHEST["l2"]
                X = X * np.minimum(wide(1), wide(limit))[:, None]
            scores = w.reshape(3, 3) @ X.T
            p = np.exp(scores - scores.max(axis=0))
            p /= p.sum(axis=0)
            p[design.y.astype(int), np.arange(20)] -= 1
            return (p @ X).ravel() / 20

        truth = mean_direction(
            exact, wide(start), local.steps, wide(local.step), wide(local.regularisation), wide(local.radius)
        )
        worst = max(worst, float(np.linalg.norm(computed - truth)))
    assert 0 < worst <= local._rounding(bound.value, summation_slack(len(design), design.width))
