"""Are items worth a release? What all owners' ratings say through their noise, beside what an owner's own say without:
from terms alone."""

from dataclasses import dataclass

import numpy as np

from parley.errors import BelowBaselineError
from parley.numerals import number
from parley.protocol.setup import Setup, resolve
from parley.tasks.ratings.algorithm import ERROR, USERS_SPREAD, ItemFactors
from parley.tasks.ratings.user_updates import UserUpdate
from parley.terms import Terms
from parley.terms.catalogue import RATING_MECHANISMS
from parley.validate import printable

# Of what an owner knows itself: items' b are heard far better than factors, so that less than all is enough. On
# MovieLens 1M the smaller of 1,208 and 4,832 users gains 1 % where 0.93 of its users are heard (eps = 32) and loses 0.5
# % at 0.38 (eps = 16).
ENOUGH = 0.5


@dataclass(frozen=True)
class ItemsWorth:
    """`heard`: of how many users, asked without noise, the ratings say as much about items' factors as everybody's do
    with it.

    Through noise of deviation s in a sum, owner l's users say of a factor a share w = 1/(1 + s^2/(rounds c m v)) of
    what they say without: the weight that the learner gives them (`ItemFactors`). c, how often an item is rated, nobody
    knows before; but a user whose ratings measure more than the clip is scaled down, and w is then what it would be
    with as many ratings as measure the clip. So w is largest there, whatever users rate, by errors and users' factors
    of the usual size (`ERROR`, `USERS_SPREAD`). An owner that has far more users itself than are heard is expected to
    do better alone.
    """

    heard: float
    users: dict[str, int]

    def sentence(self) -> str | None:
        """What speaks against these terms; None: nothing does."""
        name, everybody = min(self.users, key=self.users.__getitem__), sum(self.users.values())
        if (
            self.heard > ENOUGH * self.users[name] or len(self.users) < 2
        ):  # one owner has nobody to learn from: it releases for others
            return None
        return (
            "every owner is expected to learn better items alone: through this noise the ratings of all "
            f"{everybody:,} users say about as much as those of {number(self.heard, 2, 'above')} without noise, and "
            f"the smallest owner, {printable(name)}, has {self.users[name]:,} of its own"
        )


def items_worth(terms: Terms) -> ItemsWorth | None:
    """What a release of items is worth, by public numbers; None where ratings themselves are changed, which nobody
    releases."""
    if terms.privacy.mechanism in RATING_MECHANISMS:
        return None
    setup = resolve(terms)
    algorithm = ItemFactors.make(setup)
    rated = np.minimum(algorithm.records * _uncut(setup) / algorithm.items, algorithm.records)
    heard = float(algorithm.heard(rated) @ algorithm.records)
    return ItemsWorth(heard, {part.name: part.records for part in terms.owners})


def require_items_worth(terms: Terms) -> None:
    """Refuse terms by which every owner is expected to do worse than alone."""
    found = items_worth(terms)
    sentence = None if found is None else found.sentence()
    if sentence is not None:
        raise BelowBaselineError(
            f"not worth a budget: {sentence}; ask for more users or epsilon or for fewer items, or spend it --anyway "
            "(what becomes of it then: parley train without --ledgers). Nothing was spent"
        )


def _uncut(setup: Setup) -> float:
    """How many ratings of a user measure the clip together: what a rating measures is e (1, p) and the constant that
    counts it."""
    terms, question = setup.terms, setup.part(setup.terms.owners[0].name).training.question
    clip, factors = float(terms.privacy.clip or 0.0), terms.model.factors or 0
    size = USERS_SPREAD / terms.model.penalty  # variance of a user's factor
    if question.norm == "l1":
        usual = (2 / np.pi) ** 0.5  # of |x|, x normal of deviation 1
        most = clip / (ERROR * usual * (1 + factors * usual * size**0.5) + UserUpdate.count)
    else:
        most = clip**2 / (ERROR**2 * (1 + factors * size) + UserUpdate.count**2)
    return float(min(most, terms.privacy.records_per_person) if terms.privacy.person is not None else most)
