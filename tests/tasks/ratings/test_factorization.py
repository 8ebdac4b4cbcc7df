"""The compiled loop beside the same arithmetic in Python, and what it comes to."""

import numpy as np
import pytest

from parley.errors import DataError, SettingError
from parley.tasks.ratings.factorization import (
    RATINGS_PER_BLOCK,
    Factorization,
    prediction_errors,
    root_mean_square,
    shuffled,
)
from parley.tasks.ratings.table import Ratings


def planted(users=120, items=40, share=0.6, noise=0.1, seed=0):
    """Ratings that two factors explain but for noise."""
    rng = np.random.default_rng(seed)
    P, Q = rng.uniform(-0.5, 0.5, (users, 2)), rng.uniform(-0.5, 0.5, (items, 2))
    u, i = np.nonzero(rng.random((users, items)) < share)
    values = np.einsum("nf,nf->n", P[u], Q[i]) * 4 + noise * rng.standard_normal(len(u))
    names = tuple(map(str, range(users))), tuple(map(str, range(items)))
    return Ratings(u.astype(np.int32), i.astype(np.int32), values, *names)


def descend_in_python(ratings, P, Q, rule, blocks):
    for block in blocks:
        for j in range(block * RATINGS_PER_BLOCK, min((block + 1) * RATINGS_PER_BLOCK, len(ratings))):
            u, i = ratings.users[j], ratings.items[j]
            p, q = P[u].copy(), Q[i].copy()
            error = ratings.values[j] - p @ q
            P[u] = np.clip(p + rule.step * (error * q - rule.penalty * p), -rule.box, rule.box)
            Q[i] = np.clip(q + rule.step * (error * p - rule.penalty * q), -rule.box, rule.box)


def test_the_compiled_loop_is_the_published_arithmetic():
    rule, ratings = Factorization(step=0.3, factors=3), planted(noise=1.0)
    assert len(ratings) > 3 * RATINGS_PER_BLOCK
    P, Q = (rule.start(n, np.random.default_rng(n)) for n in (120, 40))
    P2, Q2 = P.copy(), Q.copy()
    rule.descend(ratings, P, Q, np.random.default_rng(5))
    descend_in_python(
        ratings, P2, Q2, rule, np.random.default_rng(5).permutation(-(-len(ratings) // RATINGS_PER_BLOCK))
    )
    assert np.allclose(P, P2, atol=1e-12)
    assert np.allclose(Q, Q2, atol=1e-12)
    assert np.abs(P).max() == rule.box  # the box was met, and kept


def test_descent_descends():
    """With the printed sign of the error it would climb."""
    rule, ratings, rng = Factorization(factors=2, passes=60, step=0.05, box=2.0), planted(), np.random.default_rng(0)
    P, Q = rule.start(120, rng), rule.start(40, rng)
    before = root_mean_square(prediction_errors(ratings, P, Q))
    mixed = shuffled(ratings, rng)
    for _ in range(rule.passes):
        rule.descend(mixed, P, Q, rng)
    after = root_mean_square(prediction_errors(ratings, P, Q))
    assert before > 0.4
    assert after < 0.15


def test_what_the_loop_would_read_beyond_its_arrays_is_refused():
    rule, ratings, rng = Factorization(), planted(), np.random.default_rng(0)
    wrong = ratings.pick(slice(None))
    wrong.users[0] = 500
    with pytest.raises(DataError, match="a name for every user"):
        shuffled(wrong, rng)
    with pytest.raises(DataError, match="at least one"):
        shuffled(ratings.pick(np.zeros(0, dtype=int)), rng)
    with pytest.raises(SettingError, match="a row for each"):
        rule.descend(ratings, rule.start(3, rng), rule.start(40, rng), rng)


@pytest.mark.parametrize(
    "setting", [{"factors": 0}, {"step": float("nan")}, {"box": -1}, {"penalty": -1}, {"passes": 1.5}]
)
def test_impossible_settings_are_refused(setting):
    with pytest.raises(SettingError):
        Factorization(**setting)
