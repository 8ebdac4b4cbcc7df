"""What terms must say of privacy beside training: releases before and after it, an owner as the unit, hosts."""

from fractions import Fraction

from parley.terms.catalogue import ALL_MECHANISMS, PREDICTION, TASKS
from parley.terms.checkable import CheckableTerms, held_out_records
from parley.terms.sections import OWNER

ASKED = ("gradient", "update", "corrected", "statistics")  # questions whose answers are clipped as a whole


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


def check_score(terms: CheckableTerms) -> None:
    """Refuse (ValueError) a score that leaves nothing to train with, has no rows, or has a target without bounds."""
    epsilon, model = terms.privacy.score_epsilon, terms.model
    if epsilon is None:
        return
    if model.predicts == "survival":
        raise ValueError("privacy.score_epsilon|expected none with kind = 'survival': it has no score that is released")
    for owner in terms.owners:
        if not epsilon < owner.epsilon:
            raise ValueError(
                f"privacy.score_epsilon|expected less than the epsilon of {owner.name!r}: training needs the rest"
            )
        if held_out_records(owner.records, model.holdout) < 1:
            raise ValueError(
                f"privacy.score_epsilon|expected model.holdout beside it, a share that gives {owner.name!r} a "
                f"held-out record"
            )
    bounded = model.classifies or model.target in {*model.bounds, *model.categories}
    if not bounded and model.public is None and not terms.scale_epsilon > 0:
        raise ValueError(
            f"privacy.score_epsilon|expected bounds of the target, model.bounds.{model.target}, or a public sample "
            f"beside it"
        )


def check_owner_unit(terms: CheckableTerms) -> None:
    """Refuse (ValueError) owners as the unit where an answer is not clipped as a whole, or is about some rows only."""
    learning, privacy = terms.learning, terms.privacy
    if privacy.unit != OWNER:
        return
    if terms.task != PREDICTION or learning.rules.asks not in ASKED:
        raise ValueError(
            "privacy.unit|expected 'record' with this algorithm: an owner as a whole is hidden in gradients, local "
            "updates and second moments alone"
        )
    if learning.algorithm == "fedinfer":
        raise ValueError(
            "privacy.unit|expected 'record' beside fedinfer: its intervals are of moments that nobody scaled down; "
            "sufficient-statistics gives such a model without them"
        )
    if privacy.clip is None:
        raise ValueError(
            "privacy.clip|expected a number beside unit = 'owner': an answer is scaled down to it as a whole"
        )
    if privacy.person is not None:
        raise ValueError(
            "privacy.person|expected none beside unit = 'owner': all rows count, whoever they are about, and a table "
            "is replaced as a whole"
        )
    if privacy.shared_records > 1 or privacy.records_per_person > 1:
        raise ValueError(
            "privacy.unit|expected shared_records = 1 and records_per_person = 1 beside 'owner': a table is replaced "
            "as a whole, whoever is in it"
        )
    for key in ("score_epsilon", "scale_epsilon", "difference_epsilon"):
        if getattr(privacy, key) is not None:
            raise ValueError(
                f"privacy.{key}|expected none beside unit = 'owner': its noise would hide one person, not a table"
            )


def check_hosts(terms: CheckableTerms) -> None:
    """Refuse (ValueError) noise for all without three parties, or two, to draw it, and hosts with nothing to do."""
    names = {host.name for host in terms.hosts}
    keys = [host.key for host in terms.hosts if host.key is not None]
    if len(set(keys)) < len(keys):
        raise ValueError("hosts.key|expected different keys: who holds the key of two hosts reads every answer")
    if not terms.noise.hosts and names:
        raise ValueError("hosts|expected none: they draw the noise where privacy.noise = 'shared'")
    if terms.noise.hosts and not len(names) == len(terms.hosts) == terms.noise.hosts:
        raise ValueError(
            f"hosts|expected 3 different names beside privacy.noise = 'shared', or 2, found {len(names)}: three draw "
            "one noise together that none of them knows, of two each adds a whole one; owners may be hosts, and the "
            "learner"
        )
