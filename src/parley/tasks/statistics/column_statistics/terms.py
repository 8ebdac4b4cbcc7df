"""Terms for column statistics, and the split of one file's budgets into statistics and learning."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from parley.errors import TermsError
from parley.terms import Terms
from parley.terms.catalogue import ALL_MECHANISMS, MECHANISMS
from parley.terms.rules import AlgorithmRules
from parley.terms.sections import CheckableTerms
from parley.validate import below

ROUNDS = 2  # how large values are, then how they are spread within that


class ScalesRules(AlgorithmRules):
    """Two rounds that ask every owner; nothing is learned, held out or scored."""

    asks: ClassVar[str] = "scales"
    rounds: ClassVar[int] = ROUNDS

    def check(self, terms: CheckableTerms) -> None:
        learning, privacy = terms.learning, terms.privacy
        if learning.horizon != ROUNDS or learning.step != "auto" or learning.straggler == "skip":
            raise ValueError(f"learning.algorithm|'scales' needs horizon = {ROUNDS}, no step and no straggler = 'skip'")
        if privacy.score_epsilon is not None or privacy.scale_epsilon is not None or terms.model.holdout > 0:
            raise ValueError("learning.algorithm|'scales' does not allow score_epsilon, scale_epsilon or holdout")
        if ALL_MECHANISMS[privacy.mechanism].grid:
            raise ValueError("privacy.mechanism|with algorithm = 'scales', expected 'laplace' or 'gaussian'")
        if learning.participation is not None or any(owner.stride is not None for owner in terms.owners):
            raise ValueError(
                "learning.algorithm|'scales' asks every owner in both rounds; remove participation and strides"
            )


ALGORITHM = ScalesRules()


DELTA_SHARE = Fraction(1, 10)  # of delta, for column statistics, where learning needs one too


def column_statistics_agreement(terms: Terms) -> Terms:
    """Return the agreement about column statistics of these terms, the same for every party.

    It costs each owner `privacy.scale_epsilon`. It gets all of delta if learning needs none (each owner's Laplace
    noise), else a tenth. With a delta its noise is Gaussian, because a person is in many counts at once.

    >>> terms = Terms.from_dict({"model": {"kind": "logistic-regression", "target": "ill", "features": ["age"]},
    ...     "privacy": {"scale_epsilon": 0.2}, "owners": [{"name": "a", "records": 1000, "epsilon": 1.0}]})
    >>> asked = column_statistics_agreement(terms)
    >>> asked.learning.algorithm, asked.owner("a").epsilon, asked.rounds
    ('scales', 0.2, 2)
    """
    if terms.privacy.scale_epsilon is None:
        raise TermsError(
            "privacy.scale_epsilon: missing; set the part of each owner's epsilon to spend on column statistics, such "
            "as 0.2 of an epsilon of 1.0"
        )
    model, privacy, learning, delta = terms.model, terms.privacy, terms.learning, float(_scale_delta(terms))
    content: dict[str, Any] = {
        "title": f"Scales for: {terms.title}" if terms.title else "Scales",
        "model": {
            key: value
            for key, value in model.model_dump(exclude_none=True).items()
            if key in ("kind", "target", "features", "bounds", "categories", "dates", *model.own_keys())
        },
        "learning": {"algorithm": "scales", "learner": learning.learner},
        "privacy": {
            "mechanism": "gaussian" if delta > 0 else "laplace",
            "delta": delta,
            "noise": privacy.noise,
            "shared_records": privacy.shared_records,
            "records_per_person": privacy.records_per_person,
            **({} if privacy.person is None else {"person": privacy.person}),
        },
        "owners": [
            {
                "name": part.name,
                "records": part.records,
                "epsilon": privacy.scale_epsilon,
                **({"data": part.data} if part.data else {}),
            }
            for part in terms.owners
        ],
        "hosts": terms.hosts,
    }
    return Terms.from_dict(content, "scales")


def ready_terms(terms: Terms, model: Mapping[str, Any]) -> Terms:
    """Return the terms to learn by, with these `model` keys and budgets of at most exactly what is left."""
    asked = column_statistics_agreement(terms)
    spent, delta = terms.scale_epsilon, Fraction(str(asked.privacy.delta))
    left = {part.name: {"epsilon": below(Fraction(str(part.epsilon)) - spent)} for part in terms.owners}
    rest = below(Fraction(str(terms.privacy.delta)) - delta)
    return terms.changed(model=model, privacy={"scale_epsilon": None, "delta": rest}, owners=left)


def _scale_delta(terms: Terms) -> Fraction:
    delta = Fraction(str(terms.privacy.delta))
    needed = terms.noise.approximate or MECHANISMS[terms.privacy.mechanism].approximate
    return Fraction(str(below(delta * DELTA_SHARE))) if needed else delta
