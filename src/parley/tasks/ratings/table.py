"""Ratings: reading, filtering and centring them, dividing users among owners, and one record per user.

Formal guarantee: a prepared user is a function of that user's own rows and the terms. Which of a user's ratings count,
which are held out and how they are scaled follow from the user's rows, the public seed and the public list of items. So
replacing one user, with all ratings, replaces one record.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data.preparation import Preparation, require_records
from parley.data.sources import Table, find_source, open_table, read_table
from parley.data.table import codes, is_gap, keep_per_person, require_columns
from parley.data.table import names as column_names
from parley.data.table import numbers as column_numbers
from parley.errors import DataError, SettingError
from parley.numerals import percent
from parley.tasks.ratings.terms import RatingsModel
from parley.tasks.records import WholeTable
from parley.terms import Model, Terms
from parley.validate import Floats, printable, whole

Places = NDArray[np.int32]
# what a folder of ratings may hold, the first counts
FILE_NAMES = ("ml1m.parquet", "ratings.parquet", "ratings.dat", "ratings.csv")


@dataclass(frozen=True, eq=False)
class Ratings:
    """`values[j]` is the rating of item `items[j]` by user `users[j]`, by place; names may have no rating."""

    users: Places
    items: Places
    values: Floats
    user_names: tuple[str, ...]
    item_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of ratings, users and items."""
        return {"ratings": len(self), "users": len(self.user_names), "items": len(self.item_names)}

    def pick(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> "Ratings":
        """Return some of the ratings, with the same users and items."""
        return replace(self, users=self.users[chosen], items=self.items[chosen], values=self.values[chosen])

    def with_values(self, values: Floats) -> "Ratings":
        """Return the same cells with other numbers."""
        return replace(self, values=values)


@dataclass(frozen=True, eq=False)
class Centred:
    """Item means [items], user means [users], and the residuals of ratings."""

    item_means: Floats
    user_means: Floats
    residuals: Floats
    half: float  # residuals lie in [-half, half]

    def residuals_of(self, ratings: Ratings) -> Floats:
        """Return the residuals of other ratings of the same users and items."""
        return np.clip(
            ratings.values - self.item_means[ratings.items] - self.user_means[ratings.users], -self.half, self.half
        )


def read_ratings(
    table: Table,
    user: str = "user",
    item: str = "item",
    target: str = "rating",
    items: Sequence[str] | None = None,
    name: str | None = None,
) -> Ratings:
    """Read MovieLens' `ratings.dat`, or a CSV file, Parquet file or data frame with these three columns.

    `items` is a public list, the same for all owners; ratings of other items are dropped. Without it the items are
    those rated, for studies only: it reveals whether an item was rated. Rows without a rating are dropped, too, but
    keep their user and place. `name` is for messages.
    """
    source = find_source(table)
    frame = read_table(source) if source.named else read_table(source).set_axis([user, item, target], axis=1)
    name = name or ("ratings" if source.path is None else source.where)
    require_columns(frame, [user, item, target], name)
    users, user_names = _places(frame, user, name)
    places, item_names = _places(frame, item, name, items)
    hint = "leave out rows that hold no rating"
    values = column_numbers(frame, target, name, gaps=True, hint=hint)
    ratings = Ratings(users, places, values, user_names, item_names)
    return ratings.pick(~np.isnan(values) & (places < len(item_names)))


def find_ratings(folder: Path) -> Ratings:
    """Return the ratings in a folder: MovieLens 1M as Parquet, `ratings.dat`, or a CSV file of the small sets."""
    for name in FILE_NAMES:
        if (folder / name).is_file():
            if name.endswith(".csv"):
                return read_ratings(folder / name, "userId", "movieId", "rating")
            return read_ratings(folder / name)
    raise DataError(f"{folder}: the folder has no ratings; expected one of the files {', '.join(FILE_NAMES)}")


def drop_rare(ratings: Ratings, least: int = 10) -> Ratings:
    """Drop items and users with fewer than `least` ratings, repeatedly (P section 4.1, step 1)."""
    least = whole(least, "least")
    while True:
        per_item = np.bincount(ratings.items, minlength=len(ratings.item_names))
        kept = ratings.pick(per_item[ratings.items] >= least)
        per_user = np.bincount(kept.users, minlength=len(kept.user_names))
        kept = kept.pick(per_user[kept.users] >= least)
        if len(kept) == len(ratings):
            return _compact(kept)
        ratings = kept


def centre(ratings: Ratings, low: float = 1.0, high: float = 5.0) -> Centred:
    """Subtract item means, then user means of the rest, clamping both and the residuals (P section 4.1, steps 2 to 4).

    Replacing one rating moves all residuals together by at most 4 (high - low) in L1: its own residual, its item's mean
    over that item's ratings, its user's mean over that user's, and the means of all who rated the item, each by at most
    high - low. Clamping only shrinks.
    """
    if not high > low:
        raise SettingError(f"low, high = {low}, {high}: expected low < high")
    half = (high - low) / 2
    items, users = len(ratings.item_names), len(ratings.user_names)
    values = np.clip(ratings.values, low, high)  # the bound above is about values within the range
    item_means = np.clip(_means(ratings.items, values, items, (low + high) / 2), low, high)
    left = values - item_means[ratings.items]
    user_means = np.clip(_means(ratings.users, left, users, 0.0), -half, half)
    return Centred(item_means, user_means, np.clip(left - user_means[ratings.users], -half, half), half)


def divide(ratings: Ratings, shares: Sequence[float], rng: np.random.Generator) -> list[Ratings]:
    """Divide users with all their ratings among owners at random, in proportion to `shares`. All owners have the same
    items.

    >>> some = Ratings(*(np.arange(10, dtype=np.int32),) * 2, np.ones(10), ("u",) * 10, ("i",) * 10)
    >>> [len(np.unique(part.users)) for part in divide(some, [1, 4], np.random.default_rng(0))]
    [2, 8]
    """
    weights = np.asarray(shares, dtype=np.float64)
    if not (weights > 0).all() or not np.isfinite(weights).all():
        raise SettingError("shares: expected a positive number for each owner")
    users = len(ratings.user_names)
    ends = np.round(np.cumsum(weights) / weights.sum() * users).astype(np.int64)
    place = np.empty(users, dtype=np.int64)
    place[rng.permutation(users)] = np.arange(users)
    owner = np.searchsorted(ends, place, side="right")[ratings.users]
    return [ratings.pick(owner == which) for which in range(len(weights))]


def hold_out(ratings: Ratings, share: float, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
    """Return (training ratings, test ratings), with a random `share` of them in the second."""
    if not 0 < share < 1:
        raise SettingError(f"share = {share}: expected a number between 0 and 1")
    order = rng.permutation(len(ratings))
    kept = round(share * len(ratings))
    return ratings.pick(np.sort(order[kept:])), ratings.pick(np.sort(order[:kept]))


def _places(
    frame: pd.DataFrame, column: str, name: str, known: Sequence[str] | None = None
) -> tuple[Places, tuple[str, ...]]:
    """Return every cell's place in the list (beyond its end for others), or among the column's sorted names."""
    if known is not None:
        if len(set(known)) < len(known):
            raise SettingError("items: a name is listed twice; list each item only once")
        return codes(frame, column, known, name).astype(np.int32), tuple(known)
    called = column_names(frame, column, name)
    if all(text.isdecimal() for text in called):
        called.sort(key=int)
    return codes(frame, column, called, name).astype(np.int32), tuple(called)


def _compact(ratings: Ratings) -> Ratings:
    users, new_users = np.unique(ratings.users, return_inverse=True)
    items, new_items = np.unique(ratings.items, return_inverse=True)
    return Ratings(
        new_users.astype(np.int32),
        new_items.astype(np.int32),
        ratings.values,
        tuple(ratings.user_names[j] for j in users),
        tuple(ratings.item_names[j] for j in items),
    )


def _means(places: Places, values: Floats, size: int, otherwise: float) -> Floats:
    """Return the mean value at each place; `otherwise` where there is none."""
    counts = np.bincount(places, minlength=size)
    sums = np.bincount(places, weights=values, minlength=size)
    return np.asarray(np.divide(sums, counts, out=np.full(size, otherwise), where=counts > 0))


MAX_UNLISTED_SHARE = 0.5  # share of ratings that may be of items which are not listed before somebody is told
SCALED_HALF_RANGE = 2.0  # ratings are moved into [-HALF, HALF]: those from 1 to 5 by their distance from 3
_HASH_MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, eq=False)
class UserRatings(WholeTable):
    """Ratings from -2 to 2 in the order of users: those of user u are at first[u] to first[u + 1]."""

    called: ClassVar[str] = "ratings"

    first: NDArray[np.int64]
    items: Places
    values: Floats
    item_count: int

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def width(self) -> int:
        return self.item_count

    @property
    def users(self) -> NDArray[np.int64]:
        """The place of each rating's user."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def where(self, chosen: NDArray[np.bool_]) -> "UserRatings":
        """Return some of the ratings, with the same users."""
        kept = np.concatenate([[0], np.cumsum(chosen)])[self.first]
        return UserRatings(kept.astype(np.int64), self.items[chosen], self.values[chosen], self.item_count)

    def sum(self, part: Callable[[Any], Floats]) -> Floats:
        """Return the sum of `part` over all users at once."""
        return np.asarray(part(self))


def by_user(ratings: Ratings, users: NDArray[np.int64], low: float, high: float) -> UserRatings:
    """Return the ratings of these public users, cut to [low, high]; a user's first rating of an item counts."""
    row = np.full(len(ratings.user_names), -1)
    row[users] = np.arange(len(users))
    place = row[ratings.users]
    if len(ratings) and (place.min() < 0 or ratings.items.min() < 0 or ratings.items.max() >= len(ratings.item_names)):
        raise SettingError(
            "users: the list must contain every user who has a rating, and every rating must be of a listed item"
        )
    _, order = np.unique(place * len(ratings.item_names) + ratings.items, return_index=True)
    first = np.searchsorted(place[order], np.arange(len(users) + 1)).astype(np.int64)
    values = np.clip(ratings.values[order], low, high) - (low + high) / 2
    scaled = np.clip(values * (2 * SCALED_HALF_RANGE / (high - low)), -SCALED_HALF_RANGE, SCALED_HALF_RANGE)
    return UserRatings(first, ratings.items[order], scaled, len(ratings.item_names))


def held_out(seed: int, names: tuple[str, ...], ratings: UserRatings, share: float) -> NDArray[np.bool_]:
    """Mark about this share of ratings as held out, by public seed, user's name and item alone."""
    keys = [hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8] for name in names]
    x = np.frombuffer(b"".join(keys), dtype="<u8").astype(np.uint64)[ratings.users]
    with np.errstate(over="ignore"):  # whole numbers modulo 2^64, mixed as splitmix64 does
        x = x + (ratings.items.astype(np.uint64) + np.uint64(1)) * _HASH_MULTIPLIERS[0]
        x = (x ^ (x >> np.uint64(30))) * _HASH_MULTIPLIERS[1]
        x = (x ^ (x >> np.uint64(27))) * _HASH_MULTIPLIERS[2]
        x = x ^ (x >> np.uint64(31))
    return np.asarray((x >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share)


@dataclass(frozen=True, eq=False)
class RatingPreparation(Preparation):
    """Users, items of the public list, and ratings cut to their public range and scaled."""

    model: RatingsModel

    @property
    def width(self) -> int:
        return self.model.item_count

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Empty: there are no features, and the range of ratings is the target's."""
        return {}

    def read(self, table: Table, terms: Terms, name: str) -> Ratings:
        """Return the ratings that count, in their own units, of listed items."""
        model, privacy = self.model, terms.privacy
        table = self._frame(table, privacy.person, name)
        if privacy.person is not None:
            table = keep_per_person(table, privacy.person, privacy.records_per_person, name)
        return read_ratings(table, model.user, model.item, model.target, model.item_names, name)

    def _frame(self, table: Table, person: str | None, name: str) -> pd.DataFrame:
        """Return all rows of the columns in use."""
        source = open_table(table)
        if source.streams:
            raise DataError(f"{name}: a folder of Parquet files cannot be split into users; give one file")
        model = self.model
        columns = [model.user, model.item, model.target, *([] if person is None else [person])]
        require_columns(source.example, columns, name)
        return source.frame(columns)

    def unrated(self, table: Table, name: str) -> tuple[int, int]:
        """Return (rows without a rating, all rows) of a table. For the owner's own eyes."""
        gaps = is_gap(self._frame(table, None, name), self.model.target, name)
        return int(np.count_nonzero(gaps)), len(gaps)

    def unlisted(self, table: Table, name: str) -> float:
        """Return the share of a table's ratings whose items the terms do not list. For the owner's own eyes."""
        listed, table = self.model.item_names, self._frame(table, None, name)
        return float((codes(table, self.model.item, listed, name) >= len(listed)).mean()) if len(table) else 0.0

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[UserRatings, UserRatings]:
        """Return (training, held-out) users; the share `holdout` of each one's ratings is held out."""
        if find_spec("numba") is None:  # now, and not when the first question has come
            raise SettingError("ratings need the extra 'ratings': pip install 'parley-dp[ratings]'")
        ratings = self.read(table, terms, name)
        require_records(terms, name, len(ratings.user_names), " users")
        users = by_user(ratings, np.arange(len(ratings.user_names)), *self.target_bounds)
        kept = held_out(self.model.seed, ratings.user_names, users, self.model.holdout)
        return users.where(~kept), users.where(kept)


def unlisted_words(share: float, model: Model) -> str | None:
    """Warn of a list of items without most of the rated ones; None if it has most."""
    if not share > MAX_UNLISTED_SHARE:
        return None
    start = "no rating is" if share == 1 else f"{percent(share, 'below')} of the ratings are not"
    ratings = RatingsModel.expect(model)
    called = "" if isinstance(ratings.items, tuple) else " (model.items is a number, so the items are called 1, 2, ...)"
    column = printable(ratings.item)
    return (
        f"{start} of an item in model.items{called}: ratings of other items are left out. Check the names of items in "
        f"the column {column!r}."
    )


def rating_preparation(model: Model) -> RatingPreparation:
    """Return the preparation that the terms alone fix."""
    none = np.empty(0)
    return RatingPreparation(RatingsModel.expect(model), (), {}, none, none, model.bounds[model.target], none, none)
