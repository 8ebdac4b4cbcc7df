"""What terms must say where owners release something before a model is learned: column statistics, heterogeneity."""

from fractions import Fraction

from parley.terms.catalogue import ALL_MECHANISMS, TASKS
from parley.terms.checkable import CheckableTerms


def check_delta(terms: CheckableTerms) -> None:
    """Refuse a delta that nothing needs."""
    privacy = terms.privacy
    named = privacy.scale_epsilon is not None or TASKS[terms.task].names  # names that nobody listed need one
    if (
        privacy.delta > 0
        and not ALL_MECHANISMS[privacy.mechanism].approximate
        and not terms.noise.approximate
        and not named
    ):
        noise = privacy.mechanism.capitalize()
        raise ValueError(
            f"privacy.delta|expected 0: {noise} noise needs none; with mechanism = 'gaussian' it is needed"
        )


def check_scales(terms: CheckableTerms) -> None:
    """Refuse scales that leave nothing to learn with."""
    privacy = terms.privacy
    if privacy.scale_epsilon is None:
        return
    if terms.model.public is not None:
        raise ValueError(
            "privacy.scale_epsilon|expected none beside model.public: a public sample has the scales, for nothing"
        )
    for owner in terms.owners:
        if not terms.scale_epsilon + terms.score_epsilon < Fraction(str(owner.epsilon)):
            raise ValueError(
                f"privacy.scale_epsilon|expected less than the epsilon of {owner.name!r}: training needs the rest"
            )


def check_differences(terms: CheckableTerms) -> None:
    """Refuse to ask how much owners differ where that cannot be told, or would leave nothing to learn with."""
    if terms.privacy.difference_epsilon is None:
        return
    if terms.model.public is None:
        raise ValueError("privacy.difference_epsilon|expected model.public beside it: owners are asked at its best fit")
    told = terms.learning.rules.tells_heterogeneity(ALL_MECHANISMS[terms.privacy.mechanism].norm)
    if not told or terms.privacy.clip_norm is not None:
        raise ValueError(
            "privacy.difference_epsilon|expected an algorithm whose clip bounds a record's gradient in the "
            "mechanism's norm, such as gradient-descent"
        )
    if len(terms.owners) < 2:
        raise ValueError("privacy.difference_epsilon|expected two owners or more: one does not differ from anybody")
    for owner in terms.owners:
        if not terms.difference_epsilon + terms.score_epsilon < Fraction(str(owner.epsilon)):
            raise ValueError(
                f"privacy.difference_epsilon|expected less than the epsilon of {owner.name!r}: training needs the rest"
            )
