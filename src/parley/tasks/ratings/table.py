"""Ratings of items by users: reading them, leaving out the rare, taking means away, dividing users among owners."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data.sources import Table, find_source, read_table
from parley.data.table import codes, require_columns
from parley.data.table import names as column_names
from parley.data.table import numbers as column_numbers
from parley.errors import DataError, SettingError
from parley.validate import Floats, whole

Places = NDArray[np.int32]
# what a folder of ratings may hold, the first counts
FILES = ("ml1m.parquet", "ratings.parquet", "ratings.dat", "ratings.csv")


@dataclass(frozen=True, eq=False)
class Ratings:
    """Rating `values[j]` of item `item_names[items[j]]` by user `user_names[users[j]]`. Any of the names may have no
    rating."""

    users: Places
    items: Places
    values: Floats
    user_names: tuple[str, ...]
    item_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def counts(self) -> dict[str, int]:
        """How many ratings there are, by how many users, of how many items."""
        return {"ratings": len(self), "users": len(self.user_names), "items": len(self.item_names)}

    def pick(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> "Ratings":
        """Some of the ratings, of the same users and items."""
        return replace(self, users=self.users[chosen], items=self.items[chosen], values=self.values[chosen])

    def with_values(self, values: Floats) -> "Ratings":
        """The same cells with other numbers in them."""
        return replace(self, values=values)


@dataclass(frozen=True, eq=False)
class Centred:
    """What is left of every rating beyond its item's mean [items] and its user's [users]."""

    item_means: Floats
    user_means: Floats
    residuals: Floats
    half: float  # residuals lie in [-half, half]

    def residuals_of(self, ratings: Ratings) -> Floats:
        """What these means leave of other ratings of the same users and items."""
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
    """MovieLens' `ratings.dat`, or a CSV or Parquet file (or a data frame) with these three columns.

    `items` is a public list, the same for all owners: then the items are those, and ratings of others are left out.
    Without it the items are those that somebody rated, which is for studies: whether an item was ever rated tells of a
    rating. A row without a rating is left out, too; its user remains, and so does its place among the user's rows.
    `name` is for messages.
    """
    source = find_source(table)
    frame = read_table(source) if source.named else read_table(source).set_axis([user, item, target], axis=1)
    name = name or ("ratings" if source.path is None else source.where)
    require_columns(frame, [user, item, target], name)
    users, user_names = _places(frame, user, name)
    places, item_names = _places(frame, item, name, items)
    hint = "a rating is one, and what is no rating belongs in no row"
    values = column_numbers(frame, target, name, gaps=True, hint=hint)
    found = Ratings(users, places, values, user_names, item_names)
    return found.pick(~np.isnan(values) & (places < len(item_names)))


def find_ratings(folder: Path) -> Ratings:
    """The ratings in a folder: MovieLens 1M as a Parquet file, `ratings.dat`, or a CSV file with the names of the small
    sets."""
    for name in FILES:
        if (folder / name).is_file():
            if name.endswith(".csv"):
                return read_ratings(folder / name, "userId", "movieId", "rating")
            return read_ratings(folder / name)
    raise DataError(f"{folder}: no ratings here; expected one of {', '.join(FILES)}")


def enough(ratings: Ratings, least: int = 10) -> Ratings:
    """Without items and users that have fewer than `least` ratings, as often as it takes until none is left (P section
    4.1, step 1)."""
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
    """Item means, then user means of what is left, both and the rest clamped (P section 4.1, steps 2 to 4).

    Replacing one rating moves all residuals together by at most 4 (high - low) in L1: its own residual, its item's mean
    over that item's ratings, its user's mean over that user's, and the means of all who rated the item, each by at most
    high - low; clamping only shrinks.
    """
    if not high > low:
        raise SettingError(f"low, high = {low}, {high}: expected a range")
    half = (high - low) / 2
    items, users = len(ratings.item_names), len(ratings.user_names)
    values = np.clip(ratings.values, low, high)  # the bound above is about values within the range
    item_means = np.clip(_means(ratings.items, values, items, (low + high) / 2), low, high)
    left = values - item_means[ratings.items]
    user_means = np.clip(_means(ratings.users, left, users, 0.0), -half, half)
    return Centred(item_means, user_means, np.clip(left - user_means[ratings.users], -half, half), half)


def divide(ratings: Ratings, shares: Sequence[float], rng: np.random.Generator) -> list[Ratings]:
    """Users among owners at random, with all of their ratings: `shares` of them each. Items are common to all.

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
    """(to learn from, to be judged by): `share` of the ratings at random are kept for the second."""
    if not 0 < share < 1:
        raise SettingError(f"share = {share}: expected a number between 0 and 1")
    order = rng.permutation(len(ratings))
    kept = round(share * len(ratings))
    return ratings.pick(np.sort(order[kept:])), ratings.pick(np.sort(order[:kept]))


def _places(
    frame: pd.DataFrame, column: str, name: str, known: Sequence[str] | None = None
) -> tuple[Places, tuple[str, ...]]:
    """The place of every cell in the list, beyond its end for others; without one, among the column's names, sorted."""
    if known is not None:
        if len(set(known)) < len(known):
            raise SettingError("items: expected different names")
        return codes(frame, column, known, name).astype(np.int32), tuple(known)
    called = column_names(frame, column, name)
    if all(text.isdecimal() for text in called):
        called.sort(key=int)
    return codes(frame, column, called, name).astype(np.int32), tuple(called)


def _compact(ratings: Ratings) -> Ratings:
    """Without names that have no rating."""
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
    """The mean of the values at each place; `otherwise` where there is none."""
    counts = np.bincount(places, minlength=size)
    sums = np.bincount(places, weights=values, minlength=size)
    return np.asarray(np.divide(sums, counts, out=np.full(size, otherwise), where=counts > 0))
