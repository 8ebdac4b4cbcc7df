"""A user's terms: what they are, that they are bounded as a whole, and that no neighbour found moves the mean by more
than is said.

Premise F5: A compiled loop over one user's ratings follows the written operations and order, whatever other users
hold.
"""

import numpy as np
import pytest
from scipy.optimize import differential_evolution

from parley.errors import SettingError
from parley.tasks.ratings.question import UserUpdate
from parley.tasks.ratings.table import Ratings, UserRatings, by_user

ITEMS = 6


def ratings_of(cells, users=4, items=ITEMS):
    """Ratings from (user, item, value)."""
    u, i, r = (np.array(column) for column in zip(*cells, strict=True))
    names = tuple(map(str, range(users))), tuple(map(str, range(items)))
    return Ratings(u.astype(np.int32), i.astype(np.int32), r.astype(float), *names)


def some(seed=0, users=4):
    rng = np.random.default_rng(seed)
    cells = [(u, i, rng.uniform(1, 5)) for u in range(users) for i in range(ITEMS) if rng.random() < 0.7]
    return ratings_of([*cells, (0, 0, 3.0)] if (0, 0) not in {(u, i) for u, i, _ in cells} else cells, users)


def table_of(ratings, users=4):
    return by_user(ratings, np.arange(users), 1.0, 5.0)


def size(value, norm):
    return np.linalg.norm(value, 1 if norm == "l1" else 2)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_terms_are_the_gradient_at_users_solved_by_least_squares(norm):
    rng, table = np.random.default_rng(1), table_of(some())
    V, rule = rng.normal(0, 0.5, (ITEMS, 3)), UserUpdate(clip=1.5, norm=norm, ridge=0.7, own_ridge=0.2, count=0.3)
    want = np.zeros((ITEMS, 4))
    for u in range(4):
        at = slice(table.first[u], table.first[u + 1])
        i, y = table.items[at], table.values[at] - V[table.items[at], 0]
        X = np.column_stack([np.ones(len(i)), V[i, 1:]])
        own = np.linalg.solve(X.T @ X + np.diag([0.2, 0.7, 0.7]), X.T @ y)
        error = y - X @ own
        terms = np.column_stack([error, error[:, None] * own[1:], np.full(len(i), 0.3)])
        want[i] += terms * min(1, 1.5 / size(terms.ravel(), norm))
        assert np.allclose(rule.solved(table, V)[0][u], own)
    assert np.allclose(rule.mean(table, V).value.reshape(ITEMS, 4), want / 4)


def lone(cells, rule, V):
    """What one user adds, beside three who rated nothing, times four."""
    return 4 * rule.mean(table_of(ratings_of(cells)), V).value


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_user_found_measures_more_than_the_clip(norm):
    """Users, V, ridges and clips over the whole range that is let through: searched by evolution for the largest share
    of the clip."""

    def share(x):
        rng = np.random.default_rng(int(abs(x[0]) * 1e6))
        clip, ridge, own, count = (10.0 ** (50 * y) for y in x[1:5])
        rule = UserUpdate(clip, norm, ridge, own, count)
        V = rng.choice([-1, 1], (ITEMS, 3)) * 10.0 ** rng.uniform(-300 * abs(x[5]), 6 * abs(x[6]), (ITEMS, 3))
        V = np.clip(V, -1e6, 1e6)
        values = rng.choice([1.0, 5.0, 3.0, 1e300, -1e300, 3 + 1e-15], ITEMS)
        added = lone([(0, i, v) for i, v in enumerate(values)], rule, V)
        assert np.isfinite(added).all()
        return -size(added / clip, norm)

    found = differential_evolution(share, [(-1, 1)] * 7, maxiter=25, popsize=12, seed=0, polish=False)
    assert 0.99 < -found.fun <= 1 + 1e-15


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_neighbours_found_differ_by_more_than_the_sensitivity(norm):
    rule, base, rng = UserUpdate(0.5, norm), some(), np.random.default_rng(2)
    worst = 0.0
    for _ in range(400):
        V = rng.normal(0, 10.0 ** rng.uniform(-3, 3), (ITEMS, 4))
        kept = base.pick(base.users != 1)
        other = [(1, i, rng.choice([1.0, 5.0])) for i in range(ITEMS) if rng.random() < 0.6]
        swapped = ratings_of([*zip(kept.users, kept.items, kept.values, strict=True), *other])
        before, after = rule.mean(table_of(base), V), rule.mean(table_of(swapped), V)
        assert before.sensitivity == after.sensitivity
        worst = max(worst, size(after.value - before.value, norm) / before.sensitivity)
    assert 0.5 < worst <= 1


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_what_a_user_adds_does_not_change_by_a_bit_whoever_else_there_is(norm):
    """Users of other items, with other numbers of ratings, before and after it: nobody's arithmetic is shared."""
    rng = np.random.default_rng(4)
    for factors in (1, 2, 3, 4, 7, 8):
        rule, V = UserUpdate(0.5, norm, ridge=1e-12), rng.normal(0, 1e3, (ITEMS, factors + 1))
        own = [(1, i, rng.uniform(1, 5)) for i in (0, 2, 5)]
        alone = rule.mean(table_of(ratings_of(own)), V).value.reshape(ITEMS, -1)[[0, 2, 5]]
        for _ in range(20):
            others = [(u, i, rng.choice([1.0, 5.0, 1e300])) for u in (0, 2, 3) for i in (1, 3, 4) if rng.random() < 0.6]
            beside = rule.mean(table_of(ratings_of([*own, *others])), V).value.reshape(ITEMS, -1)[[0, 2, 5]]
            np.testing.assert_array_equal(beside, alone)


def test_one_rating_moves_more_than_its_own_term_and_less_than_the_clip_allows():
    """Why the clip is a user's: changing one of six ratings moves terms of all six items."""
    V, rule = np.random.default_rng(0).normal(0, 1, (ITEMS, 3)), UserUpdate(1e6, ridge=0.1)
    cells = [(0, i, 3.0 + (i % 2)) for i in range(ITEMS)]
    moved = lone([(0, 0, 1.0), *cells[1:]], rule, V) - lone(cells, rule, V)
    assert (np.abs(moved.reshape(ITEMS, 4)[1:, 0]) > 1e-3).all()


def test_an_item_rated_often_by_one_user_counts_once():
    """Repeated cells would add up to more than the clip, in L2."""
    rule, V = UserUpdate(1.0), np.zeros((ITEMS, 2))
    once, often = [(0, 2, 5.0)], [(0, 2, 5.0), *[(0, 2, 1.0)] * 400]
    assert np.array_equal(lone(once, rule, V), lone(often, rule, V))


def test_terms_that_are_no_numbers_count_for_nothing():
    rule = UserUpdate(1.0)
    table = UserRatings(np.array([0, 1, 2]), np.array([0, 1], dtype=np.int32), np.array([np.nan, 1.0]), ITEMS)
    value = rule.mean(table, np.zeros((ITEMS, 2))).value.reshape(ITEMS, 3)
    assert np.isfinite(value).all()
    assert not value[0].any()
    assert value[1].any()


def test_items_and_settings_out_of_place_are_refused():
    rule, table = UserUpdate(1.0), table_of(some())
    for V in (np.zeros((ITEMS + 1, 2)), np.full((ITEMS, 2), np.nan), np.full((ITEMS, 2), 1e7), np.zeros(ITEMS)):
        with pytest.raises(SettingError, match="V: expected"):
            rule.mean(table, V)
    for wrong in ({"clip": 0.0}, {"clip": 1e60}, {"clip": 1.0, "ridge": float("nan")}, {"clip": 1.0, "count": -1.0}):
        with pytest.raises(SettingError):
            UserUpdate(**wrong)
    with pytest.raises(SettingError, match="every user who has a rating"):
        by_user(some(), np.arange(2), 1.0, 5.0)
