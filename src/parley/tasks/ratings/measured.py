"""How good joint items are for each owner, measured inside on its own held-out ratings, beside what it would have
alone.

Formal guarantee: none. Everything here is computed from private ratings without noise: for studies, and for an owner's
own eyes.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parley.errors import GuaranteeError
from parley.learning.algorithms.algorithm import Progress
from parley.owner.owner import Owner
from parley.tasks.ratings.own_items import alone, personal
from parley.tasks.ratings.question import ratings_of
from parley.tasks.ratings.ranking import popularity, ranked, ranking, root_mean_square
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.result import ItemsResult, OwnItems
from parley.tasks.ratings.run import made_of
from parley.tasks.ratings.user_ratings import rating_preparation
from parley.terms import Terms
from parley.validate import Floats


def measured(
    result: ItemsResult, owners: Sequence[Owner], progress: Progress = lambda done, total: None
) -> ItemsResult:
    """The result of a study with every replicate's error on all owners' held-out ratings, and what the first is worth
    to each owner."""
    if result.released:
        raise GuaranteeError("a release is not measured on private ratings; parley score shows an owner its own")
    found, errors = [], list[list[Floats]]()
    for place, owner in enumerate(owners):
        progress(place, len(owners))
        own, each = _worth(result.terms, owner, result.models)
        found.append(own)
        errors.append(each)
    joint = [root_mean_square(np.concatenate(of_all)) for of_all in zip(*errors, strict=True)]
    rmse = tuple(error for error in joint if error is not None)
    return replace(result, rmse=rmse, owners=tuple(found), unlisted=unlisted(result.terms, owners))


def unlisted(terms: Terms, owners: Sequence[Owner]) -> dict[str, float]:
    """What share of every owner's ratings is of items that the terms do not list, for a study."""
    preparation = rating_preparation(terms.model)
    return {owner.name: preparation.unlisted(owner.table, owner.name) for owner in owners}


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
