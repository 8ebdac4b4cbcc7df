"""How far one record moves gradients and local steps of softmax regression;
searches reach the bound and never pass it."""

import numpy as np
import pytest
from samples import gradient_answer
from softmax import LOCAL, ORDER, softmax_terms

from parley.data import Design
from parley.data.design import summation_slack
from parley.losses import RecordBound, SoftmaxRegression
from parley.losses.class_loss import MAX_RESIDUAL_NORMS
from parley.losses.local_update import mean_direction
from parley.losses.loss import derivative_limit
from parley.losses.objectives import classes
from parley.protocol.queries import GradientQuery, Tables, UpdateQuery
from parley.protocol.setup import resolve


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
                limit = derivative_limit(design, bound) / MAX_RESIDUAL_NORMS["l2"]
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
