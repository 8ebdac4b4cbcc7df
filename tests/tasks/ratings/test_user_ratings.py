"""Ratings user by user: a prepared user follows from that user's rows alone."""

import numpy as np
import pandas as pd
import pytest
from raters import ITEMS, rating_terms, tastes

import parley
from parley.errors import DataError
from parley.tasks.ratings.table import held_out, rating_preparation


def prepared(frame, users, **privacy):
    terms = rating_terms({"a": users}, **privacy)
    return rating_preparation(terms.model).designs(frame, terms, "a")


def one(table, user):
    at = slice(table.first[user], table.first[user + 1])
    return list(zip(table.items[at].tolist(), table.values[at].tolist(), strict=True))


def everybody(frame, users, **privacy):
    """(learned from, held out) of every user, by name."""
    names = sorted(frame["who"].astype(str).unique())
    train, kept = prepared(frame, users, **privacy)
    return {name: (one(train, place), one(kept, place)) for place, name in enumerate(names)}


@pytest.mark.parametrize("privacy", [{}, {"person": "who", "records_per_person": 3}])
def test_replacing_one_user_changes_nobody_else(privacy):
    """Whatever the new user rated, however often, wherever the rows lie: which ratings count and which are held out
    stay for the others."""
    frame, rng = tastes(20, 0), np.random.default_rng(0)
    before = everybody(frame, 20, **privacy)
    gone = "user 0-4"
    for _ in range(20):
        rows = int(rng.integers(1, 40))
        films = [f"film {place}" for place in rng.integers(0, 2 * ITEMS, rows)]
        cells = rng.choice([1.0, 5.0, -1e300, 1e300, 5e-324], rows)
        new = pd.DataFrame({"who": gone, "film": films, "stars": cells})
        mixed = pd.concat([new, frame[frame["who"] != gone]]).sample(frac=1, random_state=int(rng.integers(2**31)))
        mixed = mixed.sort_values("who", kind="stable") if rng.random() < 0.5 else mixed
        if privacy:  # which of a user's rows are the first is the table's order, which the others keep
            mixed = (
                pd.concat([frame[frame["who"] != gone], new])
                if rng.random() < 0.5
                else pd.concat([new, frame[frame["who"] != gone]])
            )
        after = everybody(mixed, 20, **privacy)
        assert {name: rest for name, rest in after.items() if name != gone} == {
            n: r for n, r in before.items() if n != gone
        }
        assert all(abs(value) <= 2 for part in after[gone] for _, value in part)
        assert len({item for part in after[gone] for item, _ in part}) == sum(len(part) for part in after[gone])


def test_about_the_share_is_held_out_by_a_public_seed():
    train, kept = prepared(tastes(300, 1), 300)
    total = len(train.values) + len(kept.values)
    assert abs(len(kept.values) / total - 0.2) < 4 * (0.2 * 0.8 / total) ** 0.5
    names = tuple(map(str, range(300)))
    first, again, other = (held_out(seed, names, train, 0.2) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not held_out(0, names, train, 0.0).any()


def test_ratings_of_unlisted_items_do_not_count_and_their_users_do():
    frame = pd.DataFrame({"who": ["x", "y"], "film": ["film 1", "unknown"], "stars": [5, 1]})
    terms = rating_terms({"a": 2}).changed(model={"holdout": 0.0})
    train, kept = rating_preparation(terms.model).designs(frame, terms, "a")
    assert (one(train, 0), one(train, 1), len(train)) == ([(1, 2.0)], [], 2)
    assert len(kept.values) == 0
    with pytest.raises(DataError, match=r"state 3 records, but the table has 2 users"):
        prepared(frame, 3)
    with pytest.raises(DataError, match="column 'film' is missing"):
        prepared(frame.drop(columns="film"), 2)
    with pytest.raises(DataError, match="row 2: expected a number"):
        prepared(frame.assign(stars=["5", "good"]), 2)


def test_movielens_own_files_are_tables_too(tmp_path):
    frame = tastes(20, 0)
    rows = zip(frame["who"], frame["film"], frame["stars"], strict=True)
    (tmp_path / "ratings.dat").write_text("".join(f"{u}::{i}::{r:g}::978300760\n" for u, i, r in rows))
    columns = {"user": "user", "item": "item", "target": "rating", "bounds": {"rating": [1.0, 5.0]}}
    terms = rating_terms({"a": 20}).changed(model=columns)
    read, plain = parley.Owner("a", tmp_path / "ratings.dat").prepare(terms).tables.train, prepared(frame, 20)[0]
    assert np.array_equal(read.values, plain.values)
    assert np.array_equal(read.items, plain.items)
