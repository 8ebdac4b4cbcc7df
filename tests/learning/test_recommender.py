"""A recommender: what it says, what it is judged by, and what it does not hold."""

import numpy as np
import pytest

from parley.data.ratings import Ratings, hold_out
from parley.errors import ModelError, SettingError
from parley.learning.factor_updates import UpdateOwner, UpdateRule, learn_items
from parley.learning.recommender import Recommender, popularity, ranking
from parley.mechanisms import FastNoise
from parley.objectives.user_updates import UserUpdate

RULE = UpdateRule(rounds=15, factors=2, update=UserUpdate(clip=5.0, ridge=2.0), users_spread=0.5)


def planted(users=300, items=40, share=0.5, seed=0):
    rng = np.random.default_rng(seed)
    P, Q = rng.normal(0, 1, (users, 2)), rng.normal(0, 0.8, (items, 2))
    u, i = np.nonzero(rng.random((users, items)) < share)
    values = np.clip(np.round(3 + np.einsum("nf,nf->n", P[u], Q[i]) + 0.3 * rng.standard_normal(len(u))), 1, 5)
    names = tuple(f"u{j}" for j in range(users)), tuple(f"i{j}" for j in range(items))
    return Ratings(u.astype(np.int32), i.astype(np.int32), values, *names)


@pytest.fixture(scope="module")
def learned():
    train, test = hold_out(planted(), 0.2, np.random.default_rng(0))
    owner = UpdateOwner(train, np.arange(300), RULE, FastNoise(0))
    return Recommender(learn_items([owner], 40, RULE, 0), train.item_names, RULE), owner, train, test


def test_it_predicts_what_its_owner_would(learned):
    model, owner, train, _ = learned
    assert model.predict(train, "u7", "i3") == pytest.approx(
        owner.predict(model.items.V, Ratings(*(np.array([x], dtype=np.int32) for x in (7, 3)), np.zeros(1), *_names(train)))[0]
    )


def _names(ratings):
    return ratings.user_names, ratings.item_names


def test_it_recommends_the_best_of_what_was_not_rated(learned):
    model, _, train, _ = learned
    best = model.recommend(train, "u7", 5)
    rated = {train.item_names[i] for i in train.items[train.users == 7]}
    scores = dict(zip(train.item_names, model.rank_scores(train, np.array([7]))[0], strict=True))
    assert len(best) == 5
    assert not rated & set(best)
    assert min(scores[i] for i in best) >= max(s for i, s in scores.items() if i not in rated and i not in best)


def test_tastes_beat_popularity_where_there_are_tastes(learned):
    model, _, train, test = learned
    users = np.arange(300)
    ours = ranking(model.rank_scores(train, users), train, test, users)
    baseline = ranking(popularity(train, 300), train, test, users)
    assert ours.recall > 1.2 * baseline.recall
    assert ours.ndcg > 1.2 * baseline.ndcg


def test_ranking_by_hand():
    names = ("a", "b"), tuple("wxyz")
    train = Ratings(np.array([0], dtype=np.int32), np.array([0], dtype=np.int32), np.array([5.0]), *names)
    test = Ratings(np.array([0, 0, 1], dtype=np.int32), np.array([1, 3, 2], dtype=np.int32), np.array([5.0, 4.0, 2.0]), *names)
    scores = np.array([[9.0, 1.0, 3.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    found = ranking(
        scores, train, test, np.arange(2), k=2
    )  # z is first but not liked, then w is rated, y is second: y z -> hit at 2
    assert found.users == 1
    assert found.recall == 0.5
    assert found.ndcg == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)))


def test_saved_and_read_it_is_the_same_and_holds_nobody(learned, tmp_path):
    model, owner, train, _ = learned
    model.save(tmp_path / "model.json")
    again = Recommender.load(tmp_path / "model.json")
    assert again.recommend(train, "u7") == model.recommend(train, "u7")
    text = (tmp_path / "model.json").read_text()
    own, _ = RULE.update.solved(owner._table, model.items.V)
    assert not any(repr(float(number)) in text for number in own.ravel() if number)
    assert "u7" not in text


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"format": 1, "kind": "matrix-factorization", "items": ["a"], "V": [[1, 2], [3, 4]], "counts": [1, 2]}', "[1]"],
)
def test_what_is_no_recommender_is_refused(tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ModelError, match=r"cannot be read as a recommender"):
        Recommender.load(tmp_path / "model.json")


def test_other_items_and_strangers_are_refused(learned):
    model, _, train, _ = learned
    for wrong in (lambda: model.predict(planted(items=30), "u7", "i3"), lambda: model.predict(train, "who", "i3")):
        with pytest.raises(SettingError):
            wrong()
