"""How good a recommender is: errors of held-out ratings, and whether held-out favourites are among the best of what was
not rated."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.user_ratings import HALF, UserRatings
from parley.validate import Floats, whole

BEST = 10  # of how many recommendations it is asked what they hold
LIKED = HALF / 2  # from which rating on an item is liked: the upper quarter of the scale, 4 of 1 to 5
CHUNK = 1_000  # users whose scores are held at once

Scorer = Callable[[NDArray[np.int64]], Floats]  # scores [users, items] of some users


@dataclass(frozen=True)
class Ranking:
    """How well the k best of unrated items hold what was held out: the share of it found, and the same weighed by
    place."""

    recall: float | None  # None: nobody has a held-out rating that counts as liked
    ndcg: float | None
    users: int


def ranking(scores: Scorer, train: UserRatings, held_out: UserRatings, liked: float = LIKED, k: int = BEST) -> Ranking:
    """Recall@k and NDCG@k over the users who have a held-out rating of `liked` or more."""
    recalls, gains = [np.empty(0)], [np.empty(0)]
    liking = held_out.where(held_out.values >= liked)
    judged = np.flatnonzero(np.diff(liking.first))
    for start in range(0, len(judged), CHUNK):
        users = judged[start : start + CHUNK]
        unrated, good = np.array(scores(users)), np.zeros((len(users), train.item_count), dtype=bool)
        row = np.full(len(train), -1)
        row[users] = np.arange(len(users))
        for table, mark, value in ((train, unrated, -np.inf), (liking, good, True)):
            mine = row[table.users] >= 0
            mark[row[table.users[mine]], table.items[mine]] = value
        best = np.argsort(-unrated, axis=1, kind="stable")[:, : whole(k, "k")]
        hits = np.take_along_axis(good, best, axis=1)
        known, places = good.sum(axis=1), 1 / np.log2(np.arange(2, best.shape[1] + 2))
        recalls.append(hits.sum(axis=1) / known)
        gains.append(hits @ places / np.cumsum(places)[np.minimum(known, best.shape[1]) - 1])
    if not len(judged):
        return Ranking(None, None, 0)
    return Ranking(float(np.concatenate(recalls).mean()), float(np.concatenate(gains).mean()), len(judged))


def popularity(train: UserRatings) -> Scorer:
    """The baseline: how often an item was rated, the same for everybody. Not private: for studies."""
    counts = np.bincount(train.items, minlength=train.item_count).astype(np.float64)
    return lambda users: np.tile(counts, (len(users), 1))


def ranked(model: Recommender, train: UserRatings, held_out: UserRatings) -> Ranking:
    """How well the recommender ranks held-out items."""
    return ranking(lambda users: model.rank_scores(train, users), train, held_out)


def root_mean_square(errors: Floats) -> float | None:
    """The root of the mean squared error; None if there are no errors."""
    return float(np.sqrt(np.mean(errors**2))) if len(errors) else None
