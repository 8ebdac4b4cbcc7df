"""Owners in turn and in parallel: what travels, and that it helps."""

import numpy as np
import pytest

from parley.errors import SettingError
from parley.tasks.ratings.factorization import Factorization, factorize
from parley.tasks.ratings.table import Ratings, divide, hold_out

RULE = Factorization(factors=2, passes=40, step=0.05, box=2.0)


def planted(users=240, items=60, share=0.25, seed=0):
    rng = np.random.default_rng(seed)
    P, Q = rng.uniform(-1, 1, (users, 2)), rng.uniform(-1, 1, (items, 2))
    u, i = np.nonzero(rng.random((users, items)) < share)
    values = np.einsum("nf,nf->n", P[u], Q[i]) + 0.1 * rng.standard_normal(len(u))
    return Ratings(
        u.astype(np.int32), i.astype(np.int32), values, tuple(map(str, range(users))), tuple(map(str, range(items)))
    )


@pytest.mark.parametrize("order", ["in-turn", "parallel"])
@pytest.mark.parametrize("owners", [2, 3])
def test_the_smallest_owner_gains(order, owners):
    rng = np.random.default_rng(1)
    shares = [1, 5, 5][:owners]
    halves = [hold_out(part, 0.2, rng) for part in divide(planted(), shares, rng)]
    together = factorize([train for train, _ in halves], RULE, 0, order)
    alone = factorize([halves[0][0]], RULE, 0)
    held_out = halves[0][1]
    assert together.players[0].error(together.items, held_out) < 0.8 * alone.players[0].error(alone.items, held_out)


def test_one_seed_one_model():
    parts = divide(planted(), [1, 2], np.random.default_rng(0))
    assert np.array_equal(factorize(parts, RULE, 3).items, factorize(parts, RULE, 3).items)
    assert not np.array_equal(factorize(parts, RULE, 3).items, factorize(parts, RULE, 4).items)


def test_a_player_touches_only_what_it_was_given():
    parts = divide(planted(), [1, 1], np.random.default_rng(0))
    joint = factorize(parts, RULE, 0)
    before = joint.items.copy()
    joint.players[0].descend(joint.items)
    assert np.array_equal(joint.items, before)  # what came in is not changed under the sender's hands
    started = factorize(parts, Factorization(factors=2, passes=1, step=1e-30), 0)
    own = np.unique(parts[0].users)
    moved = np.flatnonzero((joint.players[0]._own != started.players[0]._own).any(axis=1))
    assert np.array_equal(np.sort(moved), own)


def test_owners_of_other_items_are_refused():
    with pytest.raises(SettingError, match="for the same items"):
        factorize([planted(), planted(items=30)], RULE, 0)
    with pytest.raises(SettingError, match="expected 'in-turn'"):
        factorize([planted()], RULE, 0, "sideways")
