"""Ratings user by user, as they are learned from: a record is all ratings of one user.

Formal guarantee: a prepared user is a function of that user's own rows and the terms. No other row touches it: which of
a user's ratings count, which are held out and how they are scaled follow from the user's rows, the public seed and the
public list of items. So replacing one user, with all ratings, replaces one record.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data.preparation import Preparation, require_records
from parley.data.sources import Table, open_table
from parley.data.table import codes, is_gap, keep_per_person, require_columns
from parley.errors import DataError, SettingError
from parley.numerals import percent
from parley.tasks.ratings.table import Places, Ratings, read_ratings
from parley.tasks.ratings.terms import item_names
from parley.tasks.target_rows import WholeTable
from parley.terms import Model, Terms
from parley.validate import Floats, printable

MOST = 0.5  # share of ratings that may be of items which are not listed before somebody is told
HALF = 2.0  # ratings are moved into [-HALF, HALF]: those from 1 to 5 by their distance from 3
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, eq=False)
class UserRatings(WholeTable):
    """Ratings from -2 to 2 in the order of users: those of user `u` lie at first[u] to first[u + 1]."""

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
        """The place of the user who gave each rating."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def where(self, chosen: NDArray[np.bool_]) -> "UserRatings":
        """Some of the ratings, of the same users."""
        kept = np.concatenate([[0], np.cumsum(chosen)])[self.first]
        return UserRatings(kept.astype(np.int64), self.items[chosen], self.values[chosen], self.item_count)

    def sum(self, part: Callable[[Any], Floats]) -> Floats:
        """The sum of `part` over all users, computed at once."""
        return np.asarray(part(self))


def by_user(ratings: Ratings, users: NDArray[np.int64], low: float, high: float) -> UserRatings:
    """The ratings of these users (public, some may have none), cut to [low, high]; of those of one user for one item,
    the first."""
    row = np.full(len(ratings.user_names), -1)
    row[users] = np.arange(len(users))
    place = row[ratings.users]
    if len(ratings) and (place.min() < 0 or ratings.items.min() < 0 or ratings.items.max() >= len(ratings.item_names)):
        raise SettingError("users: expected everybody who rated something, and only listed items")
    _, order = np.unique(place * len(ratings.item_names) + ratings.items, return_index=True)
    first = np.searchsorted(place[order], np.arange(len(users) + 1)).astype(np.int64)
    values = np.clip(ratings.values[order], low, high) - (low + high) / 2
    scaled = np.clip(values * (2 * HALF / (high - low)), -HALF, HALF)
    return UserRatings(first, ratings.items[order], scaled, len(ratings.item_names))


def held_out(seed: int, names: tuple[str, ...], ratings: UserRatings, share: float) -> NDArray[np.bool_]:
    """Which ratings are kept for judging: about this share, drawn by public seed, user's name and item, so by nobody
    else's ratings."""
    keys = [hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8] for name in names]
    x = np.frombuffer(b"".join(keys), dtype="<u8").astype(np.uint64)[ratings.users]
    with np.errstate(over="ignore"):  # whole numbers modulo 2^64, mixed as splitmix64 does
        x = x + (ratings.items.astype(np.uint64) + np.uint64(1)) * _MIX[0]
        x = (x ^ (x >> np.uint64(30))) * _MIX[1]
        x = (x ^ (x >> np.uint64(27))) * _MIX[2]
        x = x ^ (x >> np.uint64(31))
    return np.asarray((x >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share)


@dataclass(frozen=True, eq=False)
class RatingPreparation(Preparation):
    """Users, items of the public list, and ratings cut to their public range and scaled."""

    @property
    def width(self) -> int:
        return len(item_names(self.model))

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """None of features: there are none. That of ratings is the target's."""
        return {}

    def read(self, table: Table, terms: Terms, name: str) -> Ratings:
        """The ratings that count, in their own units: of each user's those that the terms say, of listed items."""
        model, privacy = self.model, terms.privacy
        table = self._frame(table, privacy.person, name)
        if privacy.person is not None:
            table = keep_per_person(table, privacy.person, privacy.records_per_person, name)
        return read_ratings(table, str(model.user), str(model.item), model.target, item_names(model), name)

    def _frame(self, table: Table, person: str | None, name: str) -> pd.DataFrame:
        """The columns that are read, all rows at once."""
        source = open_table(table)
        if source.streams:
            raise DataError(f"{name}: a streamed table cannot be told into users; give one file")
        model = self.model
        columns = [str(model.user), str(model.item), model.target, *([] if person is None else [person])]
        require_columns(source.example, columns, name)
        return source.frame(columns)

    def unrated(self, table: Table, name: str) -> tuple[int, int]:
        """(rows without a rating, all rows) of a table. For the owner's own eyes."""
        gaps = is_gap(self._frame(table, None, name), self.model.target, name)
        return int(np.count_nonzero(gaps)), len(gaps)

    def unlisted(self, table: Table, name: str) -> float:
        """What share of a table's ratings is of items that the terms do not list. For the owner's own eyes."""
        listed, table = item_names(self.model), self._frame(table, None, name)
        return float((codes(table, str(self.model.item), listed, name) >= len(listed)).mean()) if len(table) else 0.0

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[UserRatings, UserRatings]:
        """One record a user; `holdout` of everybody's ratings are kept for judging."""
        if find_spec("numba") is None:  # now, and not when the first question has come
            raise SettingError("ratings need the extra 'ratings': pip install 'parley-dp[ratings]'")
        ratings = self.read(table, terms, name)
        require_records(terms, name, len(ratings.user_names), " users")
        users = by_user(ratings, np.arange(len(ratings.user_names)), *self.target_bounds)
        kept = held_out(self.model.seed or 0, ratings.user_names, users, self.model.holdout)
        return users.where(~kept), users.where(kept)


def unlisted_words(share: float, model: Model) -> str | None:
    """What to say of a catalogue that does not hold what was rated; None where it holds most."""
    if not share > MOST:
        return None
    start = "none of the ratings is" if share == 1 else f"{percent(share, 'below')} of the ratings are not"
    called = "" if isinstance(model.items, tuple) else " (model.items is a number, so that they are called 1, 2, ...)"
    column = printable(str(model.item))
    return (
        f"{start} of an item in model.items{called}: such ratings are left out. Are items called so in the column "
        f"{column!r}?"
    )


def rating_preparation(model: Model) -> RatingPreparation:
    """The preparation that the terms alone fix."""
    none = np.empty(0)
    return RatingPreparation(model, (), {}, none, none, model.bounds[model.target], none, none)
