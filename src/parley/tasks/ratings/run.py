"""Several owners learn items from their users' ratings, on this machine or elsewhere: the rounds, and the recommender
that they make."""

from collections.abc import Sequence

from parley.errors import GuaranteeError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.asking import Asked, ask_here
from parley.learning.start import starting_point
from parley.owner.owner import Owner
from parley.protocol.setup import Setup
from parley.tasks.ratings.algorithm import ItemFactors, Items
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.result import ItemsResult
from parley.tasks.ratings.terms import item_names
from parley.terms import Model, Terms

SILENT = 1e6  # an epsilon at which noise is no longer heard, and nobody hidden


def learn_items(
    terms: Terms,
    owners: Sequence[Owner],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
) -> ItemsResult:
    """Learn items from the ratings of owners on this machine; how good they are, `measured` says.

    Owners with durable ledgers release: each must have accepted the terms, and nothing but the noisy answers is looked
    at. Owners without take part in a study of `replicates` parallel runs.
    """
    return items_result(ask_items(terms, owners, replicates, seed, progress))


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
    models = tuple(recommender(asked.setup, items, asked.released) for items in learned_items(asked))
    return ItemsResult(asked.setup.terms, models, (), (), asked.spent, "user", asked.released, asked.seconds)


def learned_items(asked: Asked) -> list[Items]:
    """The items that each replicate learned."""
    return _algorithm(asked.setup).learned(asked.final)


def recommender(setup: Setup, items: Items, released: bool = False) -> Recommender:
    """The model that these items make."""
    return made_of(setup.terms.model, items, setup.hash, released)


def made_of(model: Model, items: Items, terms_hash: str = "", released: bool = False) -> Recommender:
    """The recommender by these terms' scale and ridge."""
    return Recommender(
        items,
        item_names(model),
        *model.bounds[model.target],
        ridge=model.penalty,
        terms_hash=terms_hash,
        released=released,
    )


def _algorithm(setup: Setup) -> ItemFactors:
    if setup.terms.task != "ratings":
        raise GuaranteeError("items: expected terms of ratings, kind = 'matrix-factorization'")
    return ItemFactors.make(setup)
