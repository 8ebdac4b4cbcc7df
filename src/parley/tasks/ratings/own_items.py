"""What an owner makes of its own ratings, inside and without noise: items learned alone, and joint items made its own.

Nothing here leaves the owner: no answer is released, no budget is spent, and what comes out has no guarantee.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from parley.learning.algorithms.algorithm import Asker, run
from parley.learning.start import starting_point
from parley.owner.owner import Agreement, Owner
from parley.protocol.queries import Answer, Query, Tables
from parley.tasks.ratings.algorithm import FACTORS_SPREAD, ITEMS_SPREAD, ItemFactors, Items
from parley.tasks.ratings.question import ratings_of
from parley.tasks.ratings.ranking import root_mean_square
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.user_ratings import UserRatings, held_out
from parley.terms import Terms
from parley.validate import Floats

# tried for how far own items lie from the joint ones, ratings being from -2 to 2
DEVIATIONS = (0.02, 0.05, 0.1, 0.2, 0.5)
FOLD = 0.2  # of an owner's training ratings, by which the deviation is chosen
EVERYBODY = {"participation": None, "participation_seed": None, "quorum": None, "straggler": "wait"}


def alone(terms: Terms, owner: Owner) -> Items:
    """What an owner learns by itself: by the same rounds, from exact answers."""
    agreement = owner.prepare(_own_terms(terms, owner.name))
    return _learned(agreement, ratings_of(agreement.tables.train))


def personal(terms: Terms, owner: Owner, joint: Recommender) -> tuple[Recommender, float]:
    """(joint items moved towards the owner's own ratings, by which deviation): 0 where the joint ones had better be
    left as they are.

    A prior around the joint items; ratings held back from the owner's own training ratings choose its deviation. Those
    that are held out are not touched, so `parley score` can judge the outcome.
    """
    agreement = owner.prepare(_own_terms(terms, owner.name))
    train = ratings_of(agreement.tables.train)
    back = held_out((terms.model.seed or 0) + 1, tuple(map(str, range(len(train)))), train, FOLD)
    part, judge = train.where(~back), train.where(back)
    found = {0.0: _judged(joint, part, judge)}
    for deviation in DEVIATIONS:
        own = replace(joint, items=_learned(agreement, part, joint.items, deviation))
        found[deviation] = _judged(own, part, judge)
    best = min(found, key=found.__getitem__)  # the first of several alike: closest to the joint ones
    if best == 0:
        return replace(joint, released=False), 0.0
    return replace(joint, items=_learned(agreement, train, joint.items, best), released=False), best


@dataclass(frozen=True, eq=False)
class Inside:
    """An owner asked by its own people: exact answers, which nobody else may see."""

    agreement: Agreement
    ratings: UserRatings

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        question = self.agreement.part.training.question
        tables = Tables(self.ratings, self.agreement.tables.held_out)
        return [
            Answer(query.id, name, question.records, question.exact(query, tables)) for name, query in questions.items()
        ]


def _judged(model: Recommender, own: UserRatings, judge: UserRatings) -> float:
    return root_mean_square(model.errors(own, judge)) or 0.0


def _learned(
    agreement: Agreement, ratings: UserRatings, around: Items | None = None, deviation: float = ITEMS_SPREAD
) -> Items:
    """Items from these ratings of the owner's, with a prior around others, or around nothing."""
    setup = agreement.setup
    centre: Floats | float = 0.0 if around is None else around.V
    spreads = deviation, deviation / ITEMS_SPREAD * FACTORS_SPREAD
    algorithm = replace(ItemFactors.make(setup), noise=np.zeros(1), centre=centre, spreads=spreads)
    start = algorithm.start(starting_point(setup) if around is None else around.V.ravel())
    final = run(algorithm, Inside(agreement, ratings), setup.aggregation, Asker.of(setup), start)
    found = algorithm.learned(final)[0]
    return found if around is None else Items(found.V, around.counts)


def _own_terms(terms: Terms, name: str) -> Terms:
    """Terms of this owner alone. No noise is ever drawn by them."""
    privacy = {"noise": "each-owner", "shared_records": 1, "mechanism": "gaussian", "delta": 1e-6}
    return terms.changed(only=[name], everyone={"stride": None}, privacy=privacy, hosts=(), learning=EVERYBODY)
