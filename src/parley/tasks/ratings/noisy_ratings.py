"""Simulations of items learned from ratings that owners hide or change first (P section 3). Every owner changes its
ratings once, so learning from them costs nothing more. Nothing is released: ledgers and daemons know released updates
alone (`setup.resolve`)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from parley.errors import DataError, GuaranteeError, SettingError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.owners import in_order
from parley.owner.owner import Owner
from parley.privacy.events import Adjacency
from parley.privacy.mechanisms import FastNoise
from parley.tasks.ratings.algorithm import Items
from parley.tasks.ratings.factorization import Factorization, factorize
from parley.tasks.ratings.measured import unlisted
from parley.tasks.ratings.rating_noise import (
    Claim,
    RatingMechanism,
    Scale,
    Thinning,
    bounded,
    claim,
    hide,
    published_noise,
    published_scale,
    require_memory,
    unbounded,
)
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.run import ItemsResult, OwnItems, made_of, popularity, ranking, root_mean_square
from parley.tasks.ratings.table import (
    SCALED_HALF_RANGE,
    RatingPreparation,
    Ratings,
    UserRatings,
    centre,
    rating_preparation,
)
from parley.tasks.ratings.terms import RatingNoisePrivacy, RatingsModel
from parley.terms import Terms
from parley.terms.catalogue import RATING_MECHANISMS
from parley.validate import Floats, whole

MAX_MEMORY_BYTES = 2e9  # bytes that unbounded DP may take
SCALE = Scale(3.0 - SCALED_HALF_RANGE, 3.0 + SCALED_HALF_RANGE)  # every scale of ratings is moved to this one


@dataclass(frozen=True, eq=False)
class Party:
    """One owner's ratings; `epsilon` is that of one rating, a share of a person's."""

    name: str
    train: UserRatings
    held_out: UserRatings
    epsilon: float


def learn_from_noisy(
    terms: Terms,
    owners: Sequence[Owner],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
) -> ItemsResult:
    """Simulate `replicates` runs, measured on held-out ratings."""
    if terms.privacy.mechanism not in RATING_MECHANISMS:
        raise SettingError("privacy.mechanism: expected a mechanism that changes the ratings themselves")
    if any(owner.releases for owner in owners):
        raise GuaranteeError(
            "owners: not allowed with a ledger; mechanisms that change ratings are for simulations only"
        )
    began, models_and_errors = time.perf_counter(), list[tuple[Recommender, list[Floats]]]()
    preparation, several = (
        rating_preparation(terms.model),
        terms.privacy.records_per_person if terms.privacy.person else 1,
    )
    parties = [_party(terms, preparation, owner, several) for owner in in_order(terms, owners)]
    for replicate in range(whole(replicates, "replicates")):
        progress(replicate, replicates)
        models_and_errors.append(_together(terms, parties, np.random.SeedSequence([seed or 0, replicate])))
    joint = [root_mean_square(np.concatenate(errors)) for _, errors in models_and_errors]
    own = [
        _value_to_owner(terms, party, models_and_errors[0][0], errors)
        for party, errors in zip(parties, models_and_errors[0][1], strict=True)
    ]
    claims = {party.name: _claim(terms, party, several) for party in parties}
    return ItemsResult(
        terms,
        tuple(model for model, _ in models_and_errors),
        tuple(error for error in joint if error is not None),
        tuple(own),
        {name: owner_claim.real for name, owner_claim in claims.items()},
        _unit(terms),
        False,
        time.perf_counter() - began,
        tuple(f"{party.name}: {_sentence(terms, party, claims[party.name])}" for party in parties),
        unlisted(terms, owners),
        ADJACENCY[terms.privacy.mechanism],
    )


def _party(terms: Terms, preparation: RatingPreparation, owner: Owner, several: int) -> Party:
    tables = preparation.designs(owner.table, terms, owner.name)
    if not len(tables[0].values):
        raise DataError(f"{owner.name}: no ratings of listed items remain for training")
    return Party(owner.name, *tables, terms.owner(owner.name).epsilon / several)


def _together(terms: Terms, parties: Sequence[Party], seed: np.random.SeedSequence) -> tuple[Recommender, list[Floats]]:
    """Return (the model, every owner's errors on its held-out ratings) of one run."""
    first, *sources = seed.spawn(1 + len(parties))
    rule, mechanism = _rule(terms), _mechanism(terms)
    rngs = [np.random.default_rng(source) for source in sources]
    if mechanism.endswith("published"):
        # An owner's means are its own and stay with it: only then its noise gives any epsilon at all.
        means = [_means(party.train) for party in parties]
        noisy = [_published(p, own, mechanism, rule, rng) for p, own, rng in zip(parties, means, rngs, strict=True)]
        shared, factors = np.zeros(len(means[0])), factorize(noisy, rule, first).items
        counts = np.zeros(len(shared))
    else:
        changed = [_changed(p, mechanism, rng) for p, rng in zip(parties, rngs, strict=True)]
        everything = _merge_ratings(changed)
        centred = centre(everything, SCALE.low, SCALE.high)
        ends = np.cumsum([0, *map(len, changed)])
        parts = [c.with_values(centred.residuals[a:b]) for c, a, b in zip(changed, ends[:-1], ends[1:], strict=True)]
        shared, factors = centred.item_means - SCALE.middle, factorize(parts, rule, first).items
        counts, means = (
            np.bincount(everything.items, minlength=len(shared)).astype(np.float64),
            [np.zeros(len(shared))] * len(parties),
        )
    model = made_of(RatingsModel.expect(terms.model), Items(np.column_stack([shared, factors]), counts), terms.hash)
    return model, [
        model.errors(_less(p.train, own), _less(p.held_out, own)) for p, own in zip(parties, means, strict=True)
    ]


def _value_to_owner(terms: Terms, party: Party, model: Recommender, errors: Floats) -> OwnItems:
    """Return the model's worth to an owner, beside learning from its own unchanged ratings."""
    own, rule = _raw(party.train), _rule(terms)
    centred = centre(own, SCALE.low, SCALE.high)
    factors = factorize([own.with_values(centred.residuals)], rule, 0).items
    V = np.column_stack([centred.item_means - SCALE.middle, factors])
    alone = made_of(RatingsModel.expect(terms.model), Items(V, np.zeros(len(V))))
    usual = ranking(popularity(party.train), party.train, party.held_out)
    kept = _means(party.train) if _mechanism(terms).endswith("published") else np.zeros(len(V))
    less = _less(party.train, kept)
    ours = ranking(lambda users: model.rank_scores(less, users) + kept, party.train, party.held_out)
    return OwnItems(
        party.name, root_mean_square(alone.errors(party.train, party.held_out)), root_mean_square(errors), ours, usual
    )


def _changed(party: Party, mechanism: RatingMechanism, rng: np.random.Generator) -> Ratings:
    """Return the ratings after a sound mechanism or hiding."""
    raw = _raw(party.train)
    if mechanism == "hide":
        return hide(raw, hidden_share(party.epsilon), rng)
    noise = FastNoise(int(rng.integers(2**62)))
    if mechanism == "bounded":
        return bounded(raw, party.epsilon, SCALE, noise)
    return unbounded(raw, np.arange(len(party.train)), party.epsilon, SCALE, noise, rng, memory=MAX_MEMORY_BYTES)


def _published(
    party: Party, means: Floats, mechanism: RatingMechanism, rule: Factorization, rng: np.random.Generator
) -> Ratings:
    raw = _raw(party.train)
    centred = raw.with_values(centre(raw, SCALE.low, SCALE.high).residuals)
    users, scale = None, published_scale(party.epsilon, rule, SCALE)
    if mechanism == "unbounded-published":
        users = np.arange(len(party.train))
        require_memory(len(users), party.train.item_count, scale, SCALED_HALF_RANGE, Thinning(), MAX_MEMORY_BYTES)
    return published_noise(centred, users, scale, rng, Thinning())


def hidden_share(epsilon: float) -> float:
    """Return P's p = 1/(1 + eps) for comparing mechanisms; `hide` drops this share, which is no privacy."""
    return 1 / (1 + epsilon)


def _raw(table: UserRatings) -> Ratings:
    names = tuple(map(str, range(len(table)))), tuple(map(str, range(table.item_count)))
    return Ratings(table.users.astype(np.int32), table.items, table.values + SCALE.middle, *names)


def _means(table: UserRatings) -> Floats:
    """Return an owner's own item means, less the middle."""
    return centre(_raw(table), SCALE.low, SCALE.high).item_means - SCALE.middle


def _less(table: UserRatings, means: Floats) -> UserRatings:
    """Subtract the item means that an owner keeps to itself."""
    return replace(table, values=table.values - means[table.items])


def _merge_ratings(parts: Sequence[Ratings]) -> Ratings:
    """Return all ratings in one table, with owners' users kept apart."""
    ends = np.cumsum([0, *(len(part.user_names) for part in parts)])
    users = np.concatenate([part.users + start for part, start in zip(parts, ends[:-1], strict=True)]).astype(np.int32)
    items, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("items", "values"))
    return Ratings(users, items, values, tuple(map(str, range(int(ends[-1])))), parts[0].item_names)


def _rule(terms: Terms) -> Factorization:
    return Factorization(factors=RatingsModel.expect(terms.model).factors, passes=terms.learning.horizon)


def _mechanism(terms: Terms) -> RatingMechanism:
    if terms.privacy.mechanism == "hide":
        return "hide"
    published = isinstance(privacy := terms.privacy, RatingNoisePrivacy) and privacy.rating_scale == "published"
    if terms.privacy.mechanism == "bounded-ratings":
        return "bounded-published" if published else "bounded"
    return "unbounded-published" if published else "unbounded"


def _claim(terms: Terms, party: Party, several: int) -> Claim:
    """Return the claimed and real epsilon; m ratings of a person have m times that of each."""
    one = claim(_mechanism(terms), party.epsilon, _rule(terms), SCALE)
    if one.named is None or one.real is None:
        return one
    return Claim(
        terms.owner(party.name).epsilon,
        one.real * several if one.real != one.named else terms.owner(party.name).epsilon,
    )


ADJACENCY: dict[str, Adjacency | None] = {  # of an epsilon that terms name so
    "hide": None,
    "bounded-ratings": Adjacency.REPLACE_ONE,
    "unbounded-ratings": Adjacency.ADD_OR_REMOVE_ONE,
}


def _unit(terms: Terms) -> str:
    what = {"hide": "nothing that is kept", "bounded-ratings": "the value of a rating", "unbounded-ratings": "a rating"}
    if terms.privacy.person is None or terms.privacy.mechanism == "hide":
        return what[terms.privacy.mechanism]
    return "a user" if terms.privacy.mechanism == "unbounded-ratings" else "the values of a user's ratings"


def _sentence(terms: Terms, party: Party, said: Claim) -> str:
    if terms.privacy.mechanism == "hide":
        return (
            f"no ε: {hidden_share(party.epsilon):.0%} of the ratings are hidden, and the other ratings are not "
            "protected"
        )
    return f"{said.words()}, for {_unit(terms)} ({ADJACENCY[terms.privacy.mechanism]})"
