"""Several owners learn items from their users' ratings, on this machine or elsewhere: what came out, what it cost, how good it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from parley.errors import GuaranteeError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.asking import Asked, ask_here
from parley.learning.start import starting_point
from parley.owner.owner import Owner
from parley.privacy.adjacency import Adjacency
from parley.protocol.setup import Setup
from parley.tasks.ratings.algorithm import ItemFactors, Items
from parley.tasks.ratings.own_items import alone, personal
from parley.tasks.ratings.question import ratings_of
from parley.tasks.ratings.ranking import BEST, Ranking, popularity, ranked, ranking, root_mean_square
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.terms import item_names
from parley.tasks.ratings.user_ratings import rating_preparation
from parley.terms import Model, Terms
from parley.terms.catalogue import RATING_MECHANISMS
from parley.terms.sections import OwnerTerms
from parley.validate import Floats

SILENT = 1e6  # an epsilon at which noise is no longer heard, and nobody hidden


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
        errors = {"rmse_alone": self.rmse_alone, "rmse_together": self.rmse_together, "rmse_personal": self.rmse_personal}
        return {**errors, **ranking_json(self.ranking, self.popularity)}


@dataclass(frozen=True, eq=False)
class ItemsResult:
    """The recommender, what it cost, and in a study how good it is."""

    terms: Terms
    model: Recommender  # of the first replicate
    rmse: tuple[float, ...]  # of all owners together, of every replicate; empty for a release, or without held-out ratings
    owners: tuple[OwnItems, ...]  # empty for a release
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked, or no epsilon at all
    unit: str  # whom or what an epsilon is about
    released: bool
    seconds: float
    notes: tuple[str, ...] = ()  # what a reader must know about those epsilons
    unlisted: Mapping[str, float] = field(
        default_factory=dict
    )  # in a study: shares of owners' ratings that are of items not listed
    adjacency: Adjacency | None = Adjacency.REPLACE_ONE  # None: no epsilon at all

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


def learn_items(
    terms: Terms,
    owners: Sequence[Owner],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
    measure: bool = True,
) -> ItemsResult:
    """Learn items from the ratings of owners on this machine.

    Owners with durable ledgers release: each must have accepted the terms, and nothing but the noisy answers is looked at. Owners without
    take part in a study of `replicates` parallel runs, which is measured on held-out ratings.
    """
    asked = ask_items(terms, owners, replicates, seed, progress)
    result = items_result(asked)
    if asked.released or not measure:
        return result
    everything = [recommender(asked.setup, items) for items in _algorithm(asked.setup).learned(asked.final)]
    found, errors = [], list[list[Floats]]()
    for place, owner in enumerate(owners):
        progress(place, len(owners))
        own, each = _worth(terms, owner, everything)
        found.append(own)
        errors.append(each)
    joint = [root_mean_square(np.concatenate(of_all)) for of_all in zip(*errors, strict=True)]
    rmse = tuple(error for error in joint if error is not None)
    return replace(result, rmse=rmse, owners=tuple(found), unlisted=unlisted(terms, owners))


def unlisted(terms: Terms, owners: Sequence[Owner]) -> dict[str, float]:
    """What share of every owner's ratings is of items that the terms do not list, for a study."""
    preparation = rating_preparation(terms.model)
    return {owner.name: preparation.unlisted(owner.table, owner.name) for owner in owners}


def ask_items(
    terms: Terms,
    owners: Sequence[Owner],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Asked:
    """All rounds, and nothing measured."""
    return ask_here(terms, owners, lambda setup: (_algorithm(setup), starting_point(setup)), replicates, seed, progress)


def items_result(asked: Asked) -> ItemsResult:
    """What the rounds came to, here or elsewhere."""
    model = recommender(asked.setup, learned_items(asked)[0], asked.released)
    return ItemsResult(asked.setup.terms, model, (), (), asked.spent, "user", asked.released, asked.seconds)


def learned_items(asked: Asked) -> list[Items]:
    """The items that each replicate learned."""
    return _algorithm(asked.setup).learned(asked.final)


def recommender(setup: Setup, items: Items, released: bool = False) -> Recommender:
    """The model that these items make."""
    return made_of(setup.terms.model, items, setup.hash, released)


def made_of(model: Model, items: Items, terms_hash: str = "", released: bool = False) -> Recommender:
    """The recommender by these terms' scale and ridge."""
    return Recommender(
        items, item_names(model), *model.bounds[model.target], ridge=model.penalty, terms_hash=terms_hash, released=released
    )


def worth_to(terms: Terms, owner: Owner, model: Recommender) -> OwnItems:
    """What a model is worth to one owner, measured inside."""
    return _worth(terms, owner, [model])[0]


def _worth(terms: Terms, owner: Owner, models: Sequence[Recommender]) -> tuple[OwnItems, list[Floats]]:
    """(what the first model is worth to an owner, every model's errors on its held-out ratings)."""
    tables = owner.prepare(terms).tables
    train, held_out = ratings_of(tables.train), ratings_of(tables.held_out)
    errors = [model.errors(train, held_out) for model in models]
    own, refined = None, None
    if len(held_out.values):
        own = root_mean_square(made_of(terms.model, alone(terms, owner)).errors(train, held_out))
        refined = root_mean_square(personal(terms, owner, models[0])[0].errors(train, held_out))
    ours, usual = ranked(models[0], train, held_out), ranking(popularity(train), train, held_out)
    return OwnItems(owner.name, own, root_mean_square(errors[0]), ours, usual, refined), errors


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


def _algorithm(setup: Setup) -> ItemFactors:
    if setup.terms.task != "ratings":
        raise GuaranteeError("items: expected terms of ratings, kind = 'matrix-factorization'")
    return ItemFactors.make(setup)
