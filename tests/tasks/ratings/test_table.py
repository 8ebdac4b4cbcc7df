"""Ratings: what is read, what is left out, what the means leave, and who gets which users."""

import numpy as np
import pandas as pd
import pytest
from samples import data_path

from parley.errors import DataError, SettingError
from parley.tasks.ratings.table import Ratings, centre, divide, drop_rare, find_ratings, hold_out, read_ratings


def random_ratings(users=30, items=12, share=0.5, seed=0):
    rng = np.random.default_rng(seed)
    u, i = np.nonzero(rng.random((users, items)) < share)
    values = rng.integers(1, 6, len(u)).astype(float)
    return Ratings(
        u.astype(np.int32), i.astype(np.int32), values, tuple(map(str, range(users))), tuple(map(str, range(items)))
    )


def test_movielens_counts_are_the_published_ones():
    ratings = drop_rare(find_ratings(data_path("ml1m.parquet").parent), 10)
    assert ratings.counts == {"ratings": 998_539, "users": 6_040, "items": 3_260}
    assert np.abs(centre(ratings).residuals).max() <= 2


def test_dat_csv_and_parquet_hold_the_same(tmp_path):
    rows = [("7", "20", 3), ("7", "3", 5), ("12", "20", 1)]
    (tmp_path / "ratings.dat").write_text("".join(f"{u}::{i}::{r}::978300760\n" for u, i, r in rows))
    frame = pd.DataFrame(rows, columns=["userId", "movieId", "rating"])
    frame.to_csv(tmp_path / "some.csv", index=False)
    frame.astype(int).to_parquet(tmp_path / "some.parquet")
    read = [read_ratings(tmp_path / "ratings.dat")]
    read += [read_ratings(tmp_path / f"some.{kind}", "userId", "movieId") for kind in ("csv", "parquet")]
    for ratings in read:
        assert ratings.user_names == ("7", "12")
        assert ratings.item_names == ("3", "20")
        assert ratings.users.tolist() == [0, 0, 1]
        assert ratings.items.tolist() == [1, 0, 1]
        assert ratings.values.tolist() == [3, 5, 1]


def test_a_public_list_decides_which_items_there_are():
    frame = pd.DataFrame({"user": ["a", "b", "b"], "item": [7, 9, 8], "rating": [1, 2, 3]})
    ratings = read_ratings(frame, items=["9", "7", "5"])
    assert ratings.item_names == ("9", "7", "5")
    assert ratings.items.tolist() == [1, 0]
    assert ratings.values.tolist() == [1, 2]
    with pytest.raises(SettingError, match="a name is listed twice"):
        read_ratings(frame, items=["9", "9"])


@pytest.mark.parametrize("text", ["1::2::x::3\n", "1::2\n", ""])
def test_what_is_no_rating_is_refused_without_its_value(tmp_path, text):
    (tmp_path / "ratings.dat").write_text(text)
    with pytest.raises(DataError, match=r"ratings.dat") as refused:
        read_ratings(tmp_path / "ratings.dat")
    assert "'x'" not in str(refused.value)


def test_a_folder_without_ratings_says_what_it_looked_for(tmp_path):
    with pytest.raises(DataError, match=r"expected one of the files ml1m.parquet"):
        find_ratings(tmp_path)


def test_leaving_out_the_rare_goes_on_until_nobody_is_rare():
    # item 0 has two ratings, one of them by user 2 who has no other of a common item: with it item 1 falls below two.
    users, items = np.array([0, 0, 1, 1, 2, 2]), np.array([1, 2, 2, 1, 0, 2])
    names = ("a", "b", "c")
    left = drop_rare(Ratings(users.astype(np.int32), items.astype(np.int32), np.arange(6.0), names, names), 2)
    assert left.user_names == ("a", "b")
    assert left.item_names == ("b", "c")
    assert left.values.tolist() == [0, 1, 2, 3]


def test_centring_is_the_published_arithmetic():
    ratings = random_ratings()
    found = centre(ratings)
    frame = pd.DataFrame({"u": ratings.users, "i": ratings.items, "r": ratings.values})
    left = frame.r - frame.groupby("i").r.transform("mean").clip(1, 5)
    want = (left - left.groupby(frame.u).transform("mean").clip(-2, 2)).clip(-2, 2)
    assert np.allclose(found.residuals, want)
    assert np.allclose(found.residuals_of(ratings), found.residuals)


def test_one_rating_moves_all_residuals_by_at_most_four_ranges():
    """The bound behind the eps that is really given; climbed by changing ratings one at a time, and nearly met."""
    worst = 0.0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        ratings = random_ratings(
            users=int(rng.integers(5, 80)), items=int(rng.integers(5, 80)), share=rng.uniform(0.1, 1), seed=seed
        )
        for j in rng.integers(0, len(ratings), 20):
            # values in the middle, so that clamps forgive as little as possible
            values = 3 + 0.2 * (ratings.values - 3)
            low, high = values.copy(), values.copy()
            # what is out of range counts as its end
            low[j], high[j] = rng.choice([1.0, 0.5, -1e9]), rng.choice([5.0, 7.0, 1e9])
            apart = [centre(ratings.with_values(v)).residuals for v in (low, high)]
            worst = max(worst, float(np.abs(apart[0] - apart[1]).sum()))
    assert 13 < worst <= 16


def test_every_user_has_one_owner_and_all_its_ratings():
    ratings = random_ratings(users=100)
    parts = divide(ratings, [1, 4, 5], np.random.default_rng(1))
    assert [len(np.unique(part.users)) for part in parts] == [10, 40, 50]
    assert sum(map(len, parts)) == len(ratings)
    assert not np.intersect1d(parts[0].users, parts[1].users).size


def test_a_fifth_is_held_out():
    ratings = random_ratings(users=100)
    train, test = hold_out(ratings, 0.2, np.random.default_rng(0))
    assert len(test) == round(0.2 * len(ratings))
    cells = {(u, i) for part in (train, test) for u, i in zip(part.users, part.items, strict=True)}
    assert len(cells) == len(ratings)


def test_impossible_settings_are_refused():
    ratings, rng = random_ratings(), np.random.default_rng(0)
    for wrong in (
        lambda: divide(ratings, [1, float("nan")], rng),
        lambda: hold_out(ratings, 1.0, rng),
        lambda: centre(ratings, 5, 5),
    ):
        with pytest.raises(SettingError):
            wrong()
