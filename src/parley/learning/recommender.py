"""A recommender of learned items: predicts for an owner's own users, whose factors it solves when it is asked and keeps nowhere."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parley.data.ratings import Ratings
from parley.durable import replace_text
from parley.errors import ModelError, SettingError
from parley.learning.factor_updates import Items, UpdateRule
from parley.objectives.user_updates import UserUpdate, by_user
from parley.validate import Floats, whole

FORMAT, FEW = 1, 20.0  # how often an item is taken to be rated at least, so that noise about the rare says little


@dataclass(frozen=True, eq=False)
class Recommender:
    """The named items as they were learned, and the scale and ridges by which a user is solved. It holds nobody's ratings or factors."""

    items: Items
    item_names: tuple[str, ...]
    rule: UpdateRule

    def scores(self, own: Ratings, users: NDArray[np.int64]) -> Floats:
        """What these users would rate [users, items], within the scale, from their own ratings here."""
        self._require(own)
        solved, _ = self.rule.update.solved(
            by_user(own, np.arange(len(own.user_names)), self.rule.low, self.rule.high), self.items.V
        )
        V = self.items.V
        found = (self.rule.low + self.rule.high) / 2 + V[:, 0] + solved[users, :1] + solved[users, 1:] @ V[:, 1:].T
        return np.asarray(np.clip(found, self.rule.low, self.rule.high))

    def rank_scores(self, own: Ratings, users: NDArray[np.int64]) -> Floats:
        """By what items are ranked: expected rating + log(how often rated), for people mostly rate what many do."""
        return np.asarray(self.scores(own, users) + np.log(self.items.counts + FEW))

    def predict(self, own: Ratings, user: str, item: str) -> float:
        """The rating expected of this user for this item."""
        return float(self.scores(own, np.array([_place(own.user_names, user, "user")]))[0, _place(self.item_names, item, "item")])

    def recommend(self, own: Ratings, user: str, k: int = 10) -> list[str]:
        """The k items that this user has not rated and that rank highest, best first."""
        place = _place(own.user_names, user, "user")
        scores = self.rank_scores(own, np.array([place]))[0]
        scores[own.items[own.users == place]] = -np.inf
        best = np.argsort(-scores, kind="stable")[: whole(k, "k")]
        return [self.item_names[i] for i in best if np.isfinite(scores[i])]

    def save(self, path: str | Path) -> None:
        """As a JSON file: items, their factors, public settings."""
        rule, update = self.rule, self.rule.update
        facts = {"low": rule.low, "high": rule.high, "ridge": update.ridge, "own_ridge": update.own_ridge}
        content = {"format": FORMAT, "kind": "matrix-factorization", "items": list(self.item_names), **facts}
        content |= {"V": self.items.V.tolist(), "counts": self.items.counts.tolist()}
        replace_text(Path(path), json.dumps(content))

    @classmethod
    def load(cls, path: str | Path) -> "Recommender":
        """What `save` wrote; of anything else a `ModelError`."""
        try:
            content = json.loads(Path(path).read_text())
            if content["format"] != FORMAT or content["kind"] != "matrix-factorization":
                raise ValueError
            V, counts = (np.array(content[name], dtype=np.float64) for name in ("V", "counts"))
            names = tuple(map(str, content["items"]))
            update = UserUpdate(1.0, ridge=content["ridge"], own_ridge=content["own_ridge"])
            rule = UpdateRule(factors=V.shape[1] - 1, update=update, low=content["low"], high=content["high"])
            sound = np.isfinite(V).all() and (counts >= 0).all() and np.isfinite(counts).all() and rule.low < rule.high
            if not sound or V.ndim != 2 or counts.shape != (len(V),) or len(V) != len(names):
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            raise ModelError(f"{path}: cannot be read as a recommender ({type(error).__name__})") from None
        return cls(Items(V, counts), names, rule)

    def _require(self, own: Ratings) -> None:
        if own.item_names != self.item_names:
            raise SettingError("ratings: expected those of the model's items, in its order; read them with items=model.item_names")


@dataclass(frozen=True)
class Ranking:
    """How well the k best of unrated items hold what was held out: the share of it found, and the same weighed by place."""

    recall: float
    ndcg: float
    users: int


def ranking(
    scores: Floats, train: Ratings, held_out: Ratings, users: NDArray[np.int64], liked: float = 4.0, k: int = 10
) -> Ranking:
    """Recall@k and NDCG@k over the users who have a held-out rating of `liked` or more; `scores` [users, items] in their order."""
    row = np.full(len(train.user_names), -1)
    row[users] = np.arange(len(users))
    unrated = scores.copy()
    mine = row[train.users] >= 0
    unrated[row[train.users[mine]], train.items[mine]] = -np.inf
    good = np.zeros(scores.shape, dtype=bool)
    mine = (row[held_out.users] >= 0) & (held_out.values >= liked)
    good[row[held_out.users[mine]], held_out.items[mine]] = True
    judged = good.any(axis=1)
    if not judged.any():
        raise SettingError("held_out: nobody has a rating that counts as liked")
    best = np.argsort(-unrated[judged], axis=1, kind="stable")[:, : whole(k, "k")]
    hits = np.take_along_axis(good[judged], best, axis=1)
    known, places = good[judged].sum(axis=1), 1 / np.log2(np.arange(2, best.shape[1] + 2))
    ideal = np.cumsum(places)[np.minimum(known, best.shape[1]) - 1]
    return Ranking(
        float(np.mean(hits.sum(axis=1) / known)),
        float(np.mean(hits @ places / ideal)),
        int(judged.sum()),
    )


def popularity(train: Ratings, users: int) -> Floats:
    """The baseline's scores [users, items]: how often an item was rated, the same for everybody. Not private: for studies."""
    counts = np.bincount(train.items, minlength=len(train.item_names)).astype(np.float64)
    return np.tile(counts, (users, 1))


def _place(names: tuple[str, ...], name: str, what: str) -> int:
    if name not in names:
        raise SettingError(f"{what}: no such {what} here")
    return names.index(name)
