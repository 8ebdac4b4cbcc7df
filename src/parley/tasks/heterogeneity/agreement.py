"""How much owners differ first, a model afterwards: two agreements made of one file, whose budgets add up to what the
file says."""

from fractions import Fraction
from typing import Any

from parley.errors import TermsError
from parley.terms.agreement import Terms
from parley.terms.catalogue import MECHANISMS
from parley.validate import below

DELTA_SHARE = Fraction(1, 10)  # of delta, for this question, where learning needs one too


def heterogeneity_agreement(terms: Terms) -> Terms:
    """The agreement by which owners are asked how much they differ: every party derives the same one.

    One round of gradients at the public sample's best fit, each owner with noise of its own by the terms' mechanism and
    clip. It costs each owner `privacy.difference_epsilon`, and a tenth of delta where the mechanism needs one.
    """
    privacy = terms.privacy
    if privacy.difference_epsilon is None:
        raise TermsError(
            "privacy.difference_epsilon: missing; it says how much of every owner's epsilon the answer may cost, such "
            "as 0.1 of 1.0"
        )
    content: dict[str, Any] = {
        "title": f"Differences for: {terms.title}" if terms.title else "Differences",
        "model": terms.model.model_dump(exclude_none=True),
        "learning": {
            "algorithm": "gradient-descent",
            "horizon": 1,
            "start": "public",
            "learner": terms.learning.learner,
        },
        "privacy": {
            "mechanism": privacy.mechanism,
            "delta": float(_delta(terms)),
            "shared_records": privacy.shared_records,
            "records_per_person": privacy.records_per_person,
            **({} if privacy.clip is None else {"clip": privacy.clip}),
            **({} if privacy.person is None else {"person": privacy.person}),
        },
        "owners": [
            {
                "name": part.name,
                "records": part.records,
                "epsilon": privacy.difference_epsilon,
                **({"data": part.data} if part.data else {}),
            }
            for part in terms.owners
        ],
    }
    return Terms.from_dict(content, "differences")


def terms_after_heterogeneity(terms: Terms) -> Terms:
    """The terms to learn by: the budgets are what the answer left, never more than exactly that."""
    spent = terms.difference_epsilon
    left = {part.name: {"epsilon": below(Fraction(str(part.epsilon)) - spent)} for part in terms.owners}
    rest = below(Fraction(str(terms.privacy.delta)) - _delta(terms))
    return terms.changed(privacy={"difference_epsilon": None, "delta": rest}, owners=left)


def _delta(terms: Terms) -> Fraction:
    if not MECHANISMS[terms.privacy.mechanism].approximate:
        return Fraction(0)
    return Fraction(str(below(Fraction(str(terms.privacy.delta)) * DELTA_SHARE)))
