"""What comes of learning items together: the recommender, what it cost, and in a study how good it is for each
owner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parley.privacy.adjacency import Adjacency
from parley.tasks.ratings.ranking import BEST, Ranking
from parley.tasks.ratings.recommender import Recommender
from parley.terms import Terms
from parley.terms.catalogue import RATING_MECHANISMS
from parley.terms.sections import OwnerTerms


@dataclass(frozen=True)
class OwnItems:
    """What the items are worth to one owner, measured inside on its own held-out ratings; None where there are none."""

    name: str
    rmse_alone: float | None  # items learned from its own ratings alone, without noise
    rmse_together: float | None
    ranking: Ranking
    popularity: Ranking  # of its own most rated items
    rmse_personal: float | None = None  # joint items moved towards its own ratings, which stay with it

    def to_json(self) -> dict[str, Any]:
        """As `parley train --json` has it of every owner."""
        errors = {
            "rmse_alone": self.rmse_alone,
            "rmse_together": self.rmse_together,
            "rmse_personal": self.rmse_personal,
        }
        return {**errors, **ranking_json(self.ranking, self.popularity)}


@dataclass(frozen=True, eq=False)
class ItemsResult:
    """The recommender, what it cost, and in a study how good it is."""

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
        """What `parley train --json` prints for ratings."""
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
        """Where ratings themselves are changed, what the terms name is not always what holds."""
        spent = self.spent.get(owner.name)
        if self.terms.privacy.mechanism in RATING_MECHANISMS:
            return {"epsilon": spent, "epsilon_named": owner.epsilon, "epsilon_spent": spent}
        return {"epsilon": owner.epsilon, "epsilon_spent": spent}


def ranking_json(ours: Ranking, usual: Ranking) -> dict[str, Any]:
    """Both rankings by the names that the literature has for them."""
    return {
        f"recall@{BEST}": ours.recall,
        f"ndcg@{BEST}": ours.ndcg,
        "popularity": {f"recall@{BEST}": usual.recall, f"ndcg@{BEST}": usual.ndcg},
        "judged_users": ours.users,
    }


def _pooled(rankings: Sequence[Ranking]) -> Ranking:
    """The ranking over the users of several owners together."""
    users = sum(each.users for each in rankings)
    if not users:
        return Ranking(None, None, 0)
    recall, ndcg = (
        sum(each.users * value for each in rankings if (value := getattr(each, name)) is not None) / users
        for name in ("recall", "ndcg")
    )
    return Ranking(recall, ndcg, users)
