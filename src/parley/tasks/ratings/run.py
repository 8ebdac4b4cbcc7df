"""Joint learning of items from ratings, on this machine or elsewhere, and the resulting recommender."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.errors import GuaranteeError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.deployed import Asked, ask_here
from parley.learning.start import starting_point
from parley.owner.owner import Owner
from parley.privacy.events import Adjacency
from parley.protocol.setup import Setup
from parley.tasks.ratings.algorithm import ItemFactors, Items
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.table import SCALED_HALF_RANGE, UserRatings
from parley.tasks.ratings.terms import RatingsModel
from parley.terms import Terms
from parley.terms.catalogue import RATING_MECHANISMS
from parley.terms.sections import OwnerTerms
from parley.validate import Floats, whole

TOP_K = 10  # of how many recommendations it is asked what they hold
MIN_LIKED_RATING = (
    SCALED_HALF_RANGE / 2
)  # from which rating on an item is liked: the upper quarter of the scale, 4 of 1 to 5
USERS_PER_CHUNK = 1_000  # users whose scores are held at once

Scorer = Callable[[NDArray[np.int64]], Floats]  # scores [users, items] of some users


@dataclass(frozen=True)
class Ranking:
    """Recall and NDCG of the k best unrated items on held-out favourites."""

    recall: float | None  # None: nobody has a held-out rating that counts as liked
    ndcg: float | None
    users: int


def ranking(
    scores: Scorer, train: UserRatings, held_out: UserRatings, liked: float = MIN_LIKED_RATING, k: int = TOP_K
) -> Ranking:
    """Return Recall@k and NDCG@k over the users with a held-out rating of at least `liked`."""
    recalls, gains = [np.empty(0)], [np.empty(0)]
    liking = held_out.where(held_out.values >= liked)
    judged = np.flatnonzero(np.diff(liking.first))
    for start in range(0, len(judged), USERS_PER_CHUNK):
        users = judged[start : start + USERS_PER_CHUNK]
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
    """Return the baseline scores: how often an item was rated, for all users alike. Not private: for studies."""
    counts = np.bincount(train.items, minlength=train.item_count).astype(np.float64)
    return lambda users: np.tile(counts, (len(users), 1))


def ranked(model: Recommender, train: UserRatings, held_out: UserRatings) -> Ranking:
    """Return how well the recommender ranks held-out items."""
    return ranking(lambda users: model.rank_scores(train, users), train, held_out)


def root_mean_square(errors: Floats) -> float | None:
    """Return the root of the mean squared error; None without errors."""
    return float(np.sqrt(np.mean(errors**2))) if len(errors) else None


@dataclass(frozen=True)
class OwnItems:
    """The items' worth to one owner on its own held-out ratings; None where there are none."""

    name: str
    rmse_alone: float | None  # items learned from its own ratings alone, without noise
    rmse_together: float | None
    ranking: Ranking
    popularity: Ranking  # of its own most rated items
    rmse_personal: float | None = None  # joint items moved towards its own ratings, which stay with it

    def to_json(self) -> dict[str, Any]:
        """Return the owner's entry in `parley train --json`."""
        errors = {
            "rmse_alone": self.rmse_alone,
            "rmse_together": self.rmse_together,
            "rmse_personal": self.rmse_personal,
        }
        return {**errors, **ranking_json(self.ranking, self.popularity)}


@dataclass(frozen=True, eq=False)
class ItemsResult:
    """The recommender, its cost, and in a study its quality."""

    terms: Terms
    models: tuple[Recommender, ...]  # of every replicate
    # of all owners together, of every replicate; empty for a release, or without held-out ratings
    rmse: tuple[float, ...]
    owners: tuple[OwnItems, ...]  # empty for a release
    # by the owners' ledgers; None: one elsewhere that could not be asked, or no epsilon at all
    spent: Mapping[str, float | None]
    unit: str  # whom or what an epsilon is about
    released: bool
    seconds: float
    notes: tuple[str, ...] = ()  # what a reader must know about those epsilons
    unlisted: Mapping[str, float] = field(
        default_factory=dict
    )  # in a study: shares of owners' ratings that are of items not listed
    adjacency: Adjacency | None = Adjacency.REPLACE_ONE  # None: no epsilon at all

    @property
    def model(self) -> Recommender:
        """The recommender of the first replicate."""
        return self.models[0]

    def to_json(self) -> dict[str, Any]:
        """Return what `parley train --json` prints for ratings."""
        own = {each.name: each.to_json() for each in self.owners}
        judged = [each for each in self.owners if each.ranking.users]
        return {
            "title": self.terms.title,
            "metrics": {
                "rmse": float(np.mean(self.rmse)) if self.rmse else None,
                "rmse_spread": float(np.std(self.rmse, ddof=1)) if len(self.rmse) > 1 else None,
                **ranking_json(_pooled([e.ranking for e in judged]), _pooled([e.popularity for e in judged])),
            },
            "owners": [
                {
                    "name": o.name,
                    "users": o.records,
                    **self._epsilons(o),
                    **own.get(o.name, {}),
                    **({"unlisted_share": self.unlisted[o.name]} if o.name in self.unlisted else {}),
                }
                for o in self.terms.owners
            ],
            "items": len(self.model.item_names),
            "factors": self.model.items.V.shape[1] - 1,
            "unit": self.unit,
            "adjacency": self.adjacency,
            "notes": list(self.notes),
            "replicates": max(len(self.rmse), 1),
            "released": self.released,
            "inside": not self.released,  # metrics of a study are computed from private ratings
            "terms_hash": self.terms.hash,
            "seconds": self.seconds,
        }

    def _epsilons(self, owner: OwnerTerms) -> dict[str, float | None]:
        """Return an owner's epsilons; where ratings themselves are changed, the real one can differ from the terms'."""
        spent = self.spent.get(owner.name)
        if self.terms.privacy.mechanism in RATING_MECHANISMS:
            return {"epsilon": spent, "epsilon_named": owner.epsilon, "epsilon_spent": spent}
        return {"epsilon": owner.epsilon, "epsilon_spent": spent}


def ranking_json(ours: Ranking, usual: Ranking) -> dict[str, Any]:
    """Return both rankings under their usual names."""
    return {
        f"recall@{TOP_K}": ours.recall,
        f"ndcg@{TOP_K}": ours.ndcg,
        "popularity": {f"recall@{TOP_K}": usual.recall, f"ndcg@{TOP_K}": usual.ndcg},
        "judged_users": ours.users,
    }


def _pooled(rankings: Sequence[Ranking]) -> Ranking:
    users = sum(each.users for each in rankings)
    if not users:
        return Ranking(None, None, 0)
    recall, ndcg = (
        sum(each.users * value for each in rankings if (value := getattr(each, name)) is not None) / users
        for name in ("recall", "ndcg")
    )
    return Ranking(recall, ndcg, users)


def learn_items(
    terms: Terms,
    owners: Sequence[Owner],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
) -> ItemsResult:
    """Learn items from the ratings of owners on this machine; `measured` judges them. Owners with durable ledgers
    release: each must have accepted the terms, and only noisy answers are used. Owners without take part in a study of
    `replicates` parallel runs."""
    return items_result(ask_items(terms, owners, replicates, seed, progress))


def ask_items(
    terms: Terms,
    owners: Sequence[Owner],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Asked:
    """Run all rounds, without measuring."""
    return ask_here(terms, owners, lambda setup: (_algorithm(setup), starting_point(setup)), replicates, seed, progress)


def items_result(asked: Asked) -> ItemsResult:
    """Return the result of the rounds, run here or elsewhere."""
    models = tuple(recommender(asked.setup, items, asked.released) for items in learned_items(asked))
    return ItemsResult(asked.setup.terms, models, (), (), asked.spent, "user", asked.released, asked.seconds)


def learned_items(asked: Asked) -> list[Items]:
    """Return the items that each replicate learned."""
    return _algorithm(asked.setup).learned(asked.final)


def recommender(setup: Setup, items: Items, released: bool = False) -> Recommender:
    """Return the model of these items."""
    return made_of(RatingsModel.expect(setup.terms.model), items, setup.hash, released)


def made_of(model: RatingsModel, items: Items, terms_hash: str = "", released: bool = False) -> Recommender:
    """Return the recommender with these terms' scale and ridge."""
    return Recommender(
        items,
        model.item_names,
        *model.bounds[model.target],
        ridge=model.penalty,
        terms_hash=terms_hash,
        released=released,
    )


def _algorithm(setup: Setup) -> ItemFactors:
    if setup.terms.task != "ratings":
        raise GuaranteeError("items: expected terms for ratings, kind = 'matrix-factorization'")
    return ItemFactors.make(setup)
