"""A recommender: what it says, what it is judged by, and what it does not hold."""

import numpy as np
import pytest
from raters import rating_terms, tastes

import parley
from parley.errors import ModelError, SettingError
from parley.tasks.ratings.question import UserUpdate, ratings_of
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.run import popularity, ranking
from parley.tasks.ratings.table import UserRatings, rating_preparation

USERS = 120
NAME = "user 0-7"


@pytest.fixture(scope="module")
def learned():
    terms = rating_terms({"a": USERS}, 1e6)
    frame = tastes(USERS, 0)
    owner = parley.Owner("a", frame)
    return (
        parley.train(terms, [owner], seed=0).model,
        rating_preparation(terms.model).read(frame, terms, "a"),
        owner.prepare(terms),
    )


def test_it_predicts_by_the_users_own_ratings_and_the_items_alone(learned):
    model, own, _ = learned
    mine, user = own.users == own.user_names.index(NAME), own.user_names.index(NAME)
    X = np.column_stack([np.ones(mine.sum()), model.items.V[own.items[mine], 1:]])
    y = own.values[mine] - 3 - model.items.V[own.items[mine], 0]
    solved = np.linalg.solve(X.T @ X + np.diag([1.0, 2.0, 2.0]), X.T @ y)
    want = np.clip(3 + model.items.V[3, 0] + solved[0] + model.items.V[3, 1:] @ solved[1:], 1, 5)
    assert model.predict(own, NAME, "film 3") == pytest.approx(want)
    others = own.pick(own.users != (user + 1) % USERS)
    assert model.predict(others, NAME, "film 3") == model.predict(own, NAME, "film 3")


def test_it_recommends_the_best_of_what_was_not_rated(learned):
    model, own, _ = learned
    who = int(np.bincount(own.users).argmin())  # somebody with much left to rate
    rated = {own.item_names[i] for i in own.items[own.users == who]}
    best = model.recommend(own, own.user_names[who], 3)
    assert len(best) == 3
    assert not rated & set(best)
    everything = model.recommend(own, own.user_names[who], 100)
    assert set(everything) == set(own.item_names) - rated
    assert everything[:3] == best


def test_ratings_on_another_scale_are_predicted_on_it():
    frame = tastes(USERS, 0)
    content = rating_terms({"a": USERS}, 1e6)
    wide = content.changed(model={"bounds": {"stars": [0.0, 100.0]}})
    scaled = frame.assign(stars=25 * (frame["stars"] - 1))
    here, there = (parley.train(t, [parley.Owner("a", f)], seed=0) for t, f in ((content, frame), (wide, scaled)))
    assert there.rmse[0] == pytest.approx(25 * here.rmse[0], rel=1e-9)
    assert (there.model.low, there.model.high) == (0.0, 100.0)


def test_ranking_by_hand():
    """z is best but not liked, w is rated, y is second: of x and z, liked and held out, only one is among the best
    two."""
    train = UserRatings(np.array([0, 1, 1]), np.array([0], dtype=np.int32), np.array([2.0]), 4)
    test = UserRatings(np.array([0, 2, 3]), np.array([1, 3, 2], dtype=np.int32), np.array([2.0, 1.0, -1.0]), 4)
    scores = np.array([[9.0, 1.0, 3.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    found = ranking(lambda users: scores[users], train, test, k=2)
    assert found.users == 1
    assert found.recall == 0.5
    assert found.ndcg == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)))
    nobody = ranking(lambda users: scores[users], train, test, liked=3.0)
    assert (nobody.recall, nobody.users) == (None, 0)
    assert popularity(train)(np.arange(2)).tolist() == [[1, 0, 0, 0]] * 2


def test_saved_and_read_it_is_the_same_and_holds_nobody(learned, tmp_path):
    model, own, agreement = learned
    model.save(tmp_path / "model.json")
    again = Recommender.load(tmp_path / "model.json")
    assert again.recommend(own, NAME) == model.recommend(own, NAME)
    assert (again.terms_hash, again.released) == (agreement.hash, False)
    text = (tmp_path / "model.json").read_text()
    solved, _ = UserUpdate(1.0, ridge=2.0).solved(ratings_of(agreement.tables.train), model.items.V)
    assert not any(repr(float(number)) in text for number in solved.ravel() if number)
    assert NAME not in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"format": 1, "kind": "matrix-factorization", "items": ["a"], "V": [[1, 2], [3, 4]], "counts": [1, 2]}',
        "[1]",
    ],
)
def test_what_is_no_recommender_is_refused(tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ModelError, match=r"cannot be read as a recommender"):
        Recommender.load(tmp_path / "model.json")


def test_other_items_and_strangers_are_refused(learned):
    model, own, _ = learned
    terms = rating_terms({"a": USERS}, 1e6, items=10)
    other = rating_preparation(terms.model).read(tastes(USERS, 0), terms, "a")
    for wrong in (lambda: model.predict(other, NAME, "film 3"), lambda: model.predict(own, "who", "film 3")):
        with pytest.raises(SettingError):
            wrong()
