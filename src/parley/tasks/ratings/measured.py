"""The quality of joint items for each owner on its own held-out ratings, beside learning alone.

Formal guarantee: none. Everything is computed from private ratings without noise, for studies and for an owner's own
eyes. Nothing leaves the owner, is released, or spends budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from parley.errors import BelowBaselineError, GuaranteeError
from parley.learning.algorithms.algorithm import Asker, Progress, run
from parley.learning.start import starting_point
from parley.numerals import number
from parley.owner.owner import Agreement, Owner
from parley.protocol.queries import Answer, Query, Tables
from parley.protocol.setup import Setup, resolve
from parley.tasks.ratings.algorithm import (
    FACTORS_SPREAD,
    ITEMS_SPREAD,
    RATING_DEVIATION,
    USERS_SPREAD,
    ItemFactors,
    Items,
)
from parley.tasks.ratings.question import UserUpdate, ratings_of
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.run import ItemsResult, OwnItems, made_of, popularity, ranked, ranking, root_mean_square
from parley.tasks.ratings.table import UserRatings, held_out, rating_preparation
from parley.tasks.ratings.terms import RatingsModel
from parley.terms import Terms
from parley.terms.catalogue import RATING_MECHANISMS
from parley.terms.sections import OWN_NOISE
from parley.validate import Floats, printable

# tried for how far own items lie from the joint ones, ratings being from -2 to 2
TRIED_DEVIATIONS = (0.02, 0.05, 0.1, 0.2, 0.5)
FOLD_SHARE = 0.2  # of an owner's training ratings, by which the deviation is chosen
FULL_PARTICIPATION = {"participation": None, "participation_seed": None, "quorum": None, "straggler": "wait"}


def alone(terms: Terms, owner: Owner) -> Items:
    """Return the items that an owner learns alone, by the same rounds from exact answers."""
    agreement = owner.prepare(_own_terms(terms, owner.name))
    return _learned(agreement, ratings_of(agreement.tables.train))


def personal(terms: Terms, owner: Owner, joint: Recommender) -> tuple[Recommender, float]:
    """Return (joint items moved towards the owner's own ratings, the prior's deviation); 0 leaves the joint items. A
    fold of the owner's training ratings chooses the deviation. Held-out ratings are not touched, so `parley score` can
    judge the outcome."""
    agreement = owner.prepare(_own_terms(terms, owner.name))
    train = ratings_of(agreement.tables.train)
    back = held_out(RatingsModel.expect(terms.model).seed + 1, tuple(map(str, range(len(train)))), train, FOLD_SHARE)
    part, judge = train.where(~back), train.where(back)
    errors = {0.0: _held_out_error(joint, part, judge)}
    for deviation in TRIED_DEVIATIONS:
        own = replace(joint, items=_learned(agreement, part, joint.items, deviation))
        errors[deviation] = _held_out_error(own, part, judge)
    best = min(errors, key=errors.__getitem__)  # the first of several alike: closest to the joint ones
    if best == 0:
        return replace(joint, released=False), 0.0
    return replace(joint, items=_learned(agreement, train, joint.items, best), released=False), best


@dataclass(frozen=True, eq=False)
class Inside:
    """An owner asked by its own people: exact answers that nobody else may see."""

    agreement: Agreement
    ratings: UserRatings

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        question = self.agreement.part.training.question
        tables = Tables(self.ratings, self.agreement.tables.held_out)
        return [
            Answer(query.id, name, question.records, question.exact(query, tables)) for name, query in questions.items()
        ]


def _held_out_error(model: Recommender, own: UserRatings, judge: UserRatings) -> float:
    return root_mean_square(model.errors(own, judge)) or 0.0


def _learned(
    agreement: Agreement, ratings: UserRatings, around: Items | None = None, deviation: float = ITEMS_SPREAD
) -> Items:
    """Return items learned from these ratings, with a prior around others or around 0."""
    setup = agreement.setup
    centre: Floats | float = 0.0 if around is None else around.V
    spreads = deviation, deviation / ITEMS_SPREAD * FACTORS_SPREAD
    algorithm = replace(ItemFactors.make(setup), noise=np.zeros(1), centre=centre, spreads=spreads)
    start = algorithm.start(starting_point(setup) if around is None else around.V.ravel())
    final = run(algorithm, Inside(agreement, ratings), setup.aggregation, Asker.from_setup(setup), start)
    items = algorithm.learned(final)[0]
    return items if around is None else Items(items.V, around.counts)


def _own_terms(terms: Terms, name: str) -> Terms:
    """Return terms of this owner alone, by which no noise is drawn."""
    privacy = {**OWN_NOISE, "shared_records": 1, "mechanism": "gaussian", "delta": 1e-6}
    return terms.changed(only=[name], everyone={"stride": None}, privacy=privacy, hosts=(), learning=FULL_PARTICIPATION)


def measured(
    result: ItemsResult, owners: Sequence[Owner], progress: Progress = lambda done, total: None
) -> ItemsResult:
    """Return a study's result with its errors on held-out ratings, and the first model's worth to each owner."""
    if result.released:
        raise GuaranteeError(
            "Parley does not evaluate a release on owners' private ratings; each owner can run parley score"
        )
    owners_items, errors = [], list[list[Floats]]()
    for place, owner in enumerate(owners):
        progress(place, len(owners))
        own, each = _value_to_owner(result.terms, owner, result.models)
        owners_items.append(own)
        errors.append(each)
    joint = [root_mean_square(np.concatenate(of_all)) for of_all in zip(*errors, strict=True)]
    rmse = tuple(error for error in joint if error is not None)
    return replace(result, rmse=rmse, owners=tuple(owners_items), unlisted=unlisted(result.terms, owners))


def unlisted(terms: Terms, owners: Sequence[Owner]) -> dict[str, float]:
    """Return each owner's share of ratings whose items the terms do not list, for a study."""
    preparation = rating_preparation(terms.model)
    return {owner.name: preparation.unlisted(owner.table, owner.name) for owner in owners}


def worth_to(terms: Terms, owner: Owner, model: Recommender) -> OwnItems:
    """Return what a model is worth to one owner, measured inside."""
    return _value_to_owner(terms, owner, [model])[0]


def _value_to_owner(terms: Terms, owner: Owner, models: Sequence[Recommender]) -> tuple[OwnItems, list[Floats]]:
    """Return (the first model's worth to an owner, every model's errors on its held-out ratings)."""
    tables = owner.prepare(terms).tables
    train, held_out = ratings_of(tables.train), ratings_of(tables.held_out)
    errors = [model.errors(train, held_out) for model in models]
    own, refined = None, None
    if len(held_out.values):
        own = root_mean_square(made_of(RatingsModel.expect(terms.model), alone(terms, owner)).errors(train, held_out))
        refined = root_mean_square(personal(terms, owner, models[0])[0].errors(train, held_out))
    ours, usual = ranked(models[0], train, held_out), ranking(popularity(train), train, held_out)
    return OwnItems(owner.name, own, root_mean_square(errors[0]), ours, usual, refined), errors


# Of what an owner knows itself: items' b are heard far better than factors, so that less than all is enough. On
# MovieLens 1M the smaller of 1,208 and 4,832 users gains 1 % where 0.93 of its users are heard (eps = 32) and loses 0.5
# % at 0.38 (eps = 16).
MIN_HEARD_SHARE = 0.5


@dataclass(frozen=True)
class ItemsWorth:
    """How much a release says about items: `effective_records` users' ratings without noise say as much about "
    "factors as all with it.

    With noise of deviation s in a sum, owner l keeps a share w = 1/(1 + s^2/(rounds c m v)) of its information on a
    factor, its weight in `ItemFactors`. Nobody knows beforehand c, how often an item is rated. But terms beyond the
    clip are scaled down, so w is at most its value with as many ratings as fill the clip, for errors and factors of the
    usual size (`RATING_DEVIATION`, `USERS_SPREAD`). An owner with far more users than `effective_records` is expected
    to do better alone.
    """

    heard: float
    users: dict[str, int]

    def sentence(self) -> str | None:
        """Say what speaks against these terms; None if nothing does."""
        name, everybody = min(self.users, key=self.users.__getitem__), sum(self.users.values())
        if (
            self.heard > MIN_HEARD_SHARE * self.users[name] or len(self.users) < 2
        ):  # one owner has nobody to learn from: it releases for others
            return None
        return (
            "every owner is expected to learn better item factors alone. With the terms' noise, the ratings of all "
            f"{everybody:,} users are worth about as much as those of {number(self.heard, 2, 'above')} users without "
            f"noise. The smallest owner, {printable(name)}, has {self.users[name]:,} users"
        )


def items_worth(terms: Terms) -> ItemsWorth | None:
    """Return a release's worth by public numbers; None where ratings themselves are changed, which is no release."""
    if terms.privacy.mechanism in RATING_MECHANISMS:
        return None
    setup = resolve(terms)
    algorithm = ItemFactors.make(setup)
    rated = np.minimum(algorithm.records * _ratings_within_clip(setup) / algorithm.items, algorithm.records)
    effective_records = float(algorithm.heard(rated) @ algorithm.records)
    return ItemsWorth(effective_records, {part.name: part.records for part in terms.owners})


def require_items_worth(terms: Terms) -> None:
    """Refuse terms under which every owner is expected to do better alone."""
    found = items_worth(terms)
    sentence = None if found is None else found.sentence()
    if sentence is not None:
        raise BelowBaselineError(
            f"the terms are not worth spending budget on: {sentence}. Use more users, a larger epsilon or fewer "
            "items, or release anyway with --force. To see the result first, run a simulation (parley train without "
            "--ledgers). Nothing was spent"
        )


def _ratings_within_clip(setup: Setup) -> float:
    """Return how many ratings of a user fill the clip, each with terms e (1, p) and a counting constant."""
    terms, question = setup.terms, setup.part(setup.terms.owners[0].name).training.question
    clip, factors = float(terms.privacy.clip or 0.0), RatingsModel.expect(terms.model).factors
    size = USERS_SPREAD / terms.model.penalty  # variance of a user's factor
    if question.norm == "l1":
        usual = (2 / np.pi) ** 0.5  # of |x|, x normal of deviation 1
        max_ratings = clip / (RATING_DEVIATION * usual * (1 + factors * usual * size**0.5) + UserUpdate.count)
    else:
        max_ratings = clip**2 / (RATING_DEVIATION**2 * (1 + factors * size) + UserUpdate.count**2)
    return float(
        min(max_ratings, terms.privacy.records_per_person) if terms.privacy.person is not None else max_ratings
    )
