"""Privacy checks of terms: releases before and after training, owners as the unit, hosts, and each kind of question.

Formal guarantee: an owner's sensitivity, and the cost of its noise, are proved for a question under these conditions.
They are checked by question, not by algorithm, so an algorithm that a program adds cannot leave them out.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction

from parley.terms.catalogue import ALL_MECHANISMS, MODELS, NOISES, PREDICTION, TASKS, THREE_HOST_SWITCHES
from parley.terms.sections import (
    OWNER_UNIT,
    SHARED_NOISE,
    CheckableTerms,
    held_out_records,
    training_records,
)

MAX_NOISY_STEPS = 10_000  # local steps of one answer, each with noise of its own
OWNER_UNIT_QUESTIONS = (
    "gradient",
    "update",
    "corrected",
    "network-update",
    "corrected-network-update",
    "statistics",
)  # questions whose answers are clipped as a whole


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
            f"privacy.delta|expected 0, because {noise} noise needs no delta, but Gaussian noise needs one"
        )


def check_scales(terms: CheckableTerms) -> None:
    """Refuse paid scales if a public sample gives them, or if nothing is left to learn with."""
    privacy = terms.privacy
    if privacy.scale_epsilon is None:
        return
    if terms.model.public is not None:
        raise ValueError(
            "privacy.scale_epsilon|not allowed with model.public, because a public sample gives the scales at no cost"
        )
    for owner in terms.owners:
        if not terms.scale_epsilon + terms.score_epsilon < Fraction(str(owner.epsilon)):
            raise ValueError(
                f"privacy.scale_epsilon|expected less than the epsilon of {owner.name!r}, because training needs "
                "the rest"
            )


def check_differences(terms: CheckableTerms) -> None:
    """Refuse to measure heterogeneity if it cannot be told, or if nothing is left to learn with."""
    if terms.privacy.difference_epsilon is None:
        return
    if terms.model.public is None:
        raise ValueError(
            "privacy.difference_epsilon|needs model.public, because owners answer for the model fitted to this sample"
        )
    can_tell = terms.learning.rules.tells_heterogeneity(ALL_MECHANISMS[terms.privacy.mechanism].norm)
    if not can_tell or terms.privacy.clip_norm is not None:
        raise ValueError(
            "privacy.difference_epsilon|expected an algorithm whose clip bounds a record's gradient in the "
            "mechanism's norm, such as gradient-descent"
        )
    if len(terms.owners) < 2:
        raise ValueError(
            "privacy.difference_epsilon|expected two owners or more, because a single owner has no heterogeneity"
        )
    for owner in terms.owners:
        if not terms.difference_epsilon + terms.score_epsilon < Fraction(str(owner.epsilon)):
            raise ValueError(
                f"privacy.difference_epsilon|expected less than the epsilon of {owner.name!r}, because training "
                "needs the rest"
            )


def check_score(terms: CheckableTerms) -> None:
    """Refuse (ValueError) a score that leaves nothing to train with, has no rows, or has a target without bounds."""
    epsilon, model = terms.privacy.score_epsilon, terms.model
    if epsilon is None:
        return
    if model.predicts == "survival":
        raise ValueError(
            "privacy.score_epsilon|not allowed with kind = 'survival', because survival scores cannot be released"
        )
    for owner in terms.owners:
        if not epsilon < owner.epsilon:
            raise ValueError(
                f"privacy.score_epsilon|expected less than the epsilon of {owner.name!r}, because training needs "
                "the rest"
            )
        if held_out_records(owner.records, model.holdout) < 1:
            raise ValueError(
                f"privacy.score_epsilon|needs model.holdout, a share that gives {owner.name!r} at least one held-out "
                "record"
            )
    bounded = model.classifies or model.target in {*model.bounds, *model.categories}
    if not bounded and model.public is None and not terms.scale_epsilon > 0:
        raise ValueError(
            f"privacy.score_epsilon|needs bounds for the target (model.bounds.{model.target}) or a public sample"
        )


def check_owner_unit(terms: CheckableTerms) -> None:
    """Refuse (ValueError) owners as the unit if answers are not clipped as a whole, or cover only some rows."""
    learning, privacy = terms.learning, terms.privacy
    if privacy.unit != OWNER_UNIT:
        return
    if terms.task not in (PREDICTION, "networks") or learning.rules.asks not in OWNER_UNIT_QUESTIONS:
        raise ValueError(
            "privacy.unit|expected 'record' with this algorithm, because only gradients, local updates and second "
            "moments can hide a whole owner"
        )
    if privacy.clip is None:
        raise ValueError(
            "privacy.clip|expected a number with unit = 'owner', because the clip scales down the whole answer"
        )
    if privacy.person is not None:
        raise ValueError(
            "privacy.person|not allowed with unit = 'owner', because neighbouring tables may differ in all rows"
        )
    if privacy.shared_records > 1 or privacy.records_per_person > 1:
        raise ValueError(
            "privacy.unit|expected shared_records = 1 and records_per_person = 1 with 'owner', because neighbouring "
            "tables may differ in all rows"
        )
    for key in ("score_epsilon", "scale_epsilon", "difference_epsilon"):
        if getattr(privacy, key) is not None:
            raise ValueError(
                f"privacy.{key}|not allowed with unit = 'owner', because the noise would hide one person, not a "
                "whole table"
            )


def check_hosts(terms: CheckableTerms) -> None:
    """Refuse (ValueError) shared noise without three hosts, or two, and hosts without shared noise."""
    names = {host.name for host in terms.hosts}
    keys = [host.key for host in terms.hosts if host.key is not None]
    if len(set(keys)) < len(keys):
        raise ValueError(
            "hosts.key|expected a different key for each host, because whoever has the keys of two hosts can "
            "read every answer"
        )
    if not terms.noise.hosts and names:
        raise ValueError("hosts|allowed only with privacy.noise = 'shared'")
    if terms.noise.paired and len(names) == NOISES[SHARED_NOISE].hosts:
        raise ValueError("privacy.draw|allowed only with two hosts; three hosts always draw the noise together")
    for key in THREE_HOST_SWITCHES:
        if getattr(terms.privacy, key) and len(names) != NOISES[SHARED_NOISE].hosts:
            raise ValueError(f"privacy.{key}|allowed only with three hosts: two hosts cannot check each other")
    if terms.noise.hosts and not len(names) == len(terms.hosts) == terms.noise.hosts:
        raise ValueError(
            f"hosts|privacy.noise = 'shared' needs the names of 2 or 3 different hosts; found {len(names)}. Three "
            "hosts draw noise that no host knows. With two hosts, each adds the full noise, or both draw one noise "
            "with draw = 'together'. Owners and the learner may be hosts"
        )


# Answers that are a sum of bounded shares of records over a public number, or a walk along such sums: a record that is
# held out adds 0.
SUM_QUESTIONS = {"gradient", "minibatch", "statistics", "leaf-sums", "network-gradient", "mixed-network-gradient"}
SUM_QUESTIONS |= {"joined-moments", "update", "corrected", "network-update", "corrected-network-update"}


def check_batches(terms: CheckableTerms) -> None:
    """Refuse (ValueError) batches without records, and secret draws whose amplification is not proved."""
    learning, privacy, batches = terms.learning, terms.privacy, terms.learning.batches or 1
    if privacy.clip_norm is not None and privacy.clip is None:
        raise ValueError("privacy.clip|required with privacy.clip_norm")
    for owner in terms.owners:
        if batches > training_records(owner.records, terms.model.holdout):
            raise ValueError(
                f"learning.batches|expected at most the number of training records of {owner.name!r}; every batch "
                "needs a record"
            )
    if not learning.poisson:
        return
    if batches < 2:
        raise ValueError(
            "learning.batches|expected at least 2 with sampling = 'poisson'; otherwise every record is drawn"
        )
    if privacy.records_per_person > 1:
        raise ValueError(
            "learning.sampling|expected 'partition' with records_per_person, because secret draws hide less if a "
            "person has several records"
        )
    if terms.noise.summed and privacy.shared_records > 1:
        raise ValueError(
            "learning.sampling|expected 'partition' with shared_records and shared noise, because several owners "
            "could draw the same record independently"
        )


def check_secret_draws(terms: CheckableTerms) -> None:
    """Refuse (ValueError) predictable batches if the noise is proved only for secret draws."""
    if not terms.learning.poisson:
        raise ValueError(
            f"learning.sampling|expected 'poisson' with {terms.learning.algorithm}, because the privacy proof covers "
            "secret draws, not fixed batches"
        )
    check_batches(terms)


def check_noisy_steps(terms: CheckableTerms) -> None:
    """Refuse (ValueError) settings for which local steps on a network, each with noise of its own, are not proved."""
    learning, privacy, algorithm = terms.learning, terms.privacy, terms.learning.algorithm
    whole = privacy.unit == OWNER_UNIT
    if terms.noise.summed:
        raise ValueError(
            f"privacy.noise|expected 'each-owner' with {algorithm} for networks, because an owner adds noise in every "
            "local step, but hosts draw noise only after the last step"
        )
    if privacy.records_per_person > 1:
        raise ValueError(
            f"privacy.records_per_person|expected 1 with {algorithm} for networks, because no privacy proof covers "
            "several records of a person"
        )
    if whole and learning.batches is not None:
        raise ValueError(
            "learning.batches|not allowed with unit = 'owner', because secret draws hide rows, not a table"
        )
    if (learning.batches is not None) is not learning.poisson:
        raise ValueError(
            f"learning.sampling|expected both batches and sampling = 'poisson', or neither, with {algorithm}. Every "
            "local step either draws its records in secret or uses all records"
        )
    if max([learning.local_steps or 1, *(owner.local_steps or 1 for owner in terms.owners)]) > MAX_NOISY_STEPS:
        raise ValueError(
            f"learning.local_steps|expected at most {MAX_NOISY_STEPS:,} for networks, because the owner's ledger stays "
            "locked until the owner has taken all local steps"
        )
    check_batches(terms)
    longest = max([owner.step for owner in terms.owners if owner.step is not None] + [float(learning.step)])
    if not longest * (learning.proximal or 0.0) <= 1:
        raise ValueError(
            f"learning.proximal|expected at most {1 / longest:g}, the inverse of the longest local step, because a "
            "larger value pulls a step beyond the starting point"
        )


def check_mixed_batches(terms: CheckableTerms) -> None:
    """Refuse (ValueError) settings for which answers that mix fixed batches under one noise are not proved."""
    learning, privacy, algorithm = terms.learning, terms.privacy, terms.learning.algorithm
    if learning.sampling != "partition":
        raise ValueError(
            f"learning.sampling|expected 'partition' with {algorithm}, because the privacy proof covers fixed batches, "
            "not secret draws"
        )
    if learning.horizon != (learning.epochs or 1) * (learning.batches or 1) or not learning.waits:
        raise ValueError(
            f"learning.horizon|expected epochs x batches with {algorithm}, and no learning.staleness, because the "
            "noise is calibrated for exactly this number of answers"
        )
    if terms.noise.summed:
        raise ValueError(
            f"privacy.noise|expected 'each-owner' with {algorithm}, because hosts draw noise for one round, and no "
            "other round can cancel this noise"
        )
    if privacy.mechanism != "gaussian":
        raise ValueError(
            f"privacy.mechanism|expected 'gaussian' with {algorithm}, because no other noise has a privacy proof"
        )
    if privacy.records_per_person > 1:
        raise ValueError(
            f"privacy.records_per_person|expected 1 with {algorithm}, because an answer mixes several batches and "
            "could contain several records of a person"
        )
    check_batches(terms)


def check_local_updates(terms: CheckableTerms) -> None:
    """Refuse (ValueError) local updates without a known bound on how far one record moves them."""
    model, algorithm = terms.model, terms.learning.algorithm
    if not MODELS[model.kind].local_updates:
        raise ValueError(
            f"learning.algorithm|{algorithm} is not available for {model.kind}, because no bound is known on the "
            "effect of one record on local steps"
        )
    if not model.smooth:
        raise ValueError(
            f"learning.algorithm|{algorithm} is not available for linear-svm. At the corner of the hinge loss, even a "
            "short local step may drive close points apart. One record may then affect local steps more than it "
            "affects a gradient"
        )
    if model.radius is None:
        raise ValueError(
            f"model.radius|expected a number with {algorithm}, because only a radius bounds the rounding errors of an "
            "owner's local steps"
        )
    if terms.noise.summed and terms.learning.rules.asks == "corrected":
        raise ValueError(
            f"privacy.noise|expected 'each-owner' with {algorithm}, because each question depends on the owner's "
            "earlier releases, and a sum hides these releases. With unreleased corrections, one record would affect "
            "later rounds, too"
        )
    if terms.noise.summed and terms.uneven:
        raise ValueError(
            "privacy.noise|expected 'each-owner' with owners.local_steps or owners.step, because a sum does not show "
            "how far each owner stepped"
        )


def check_moments(terms: CheckableTerms) -> None:
    """Refuse (ValueError) a model that second moments do not determine."""
    if not MODELS[terms.model.kind].squared:
        able = " and ".join(kind for kind, facts in MODELS.items() if facts.squared)
        raise ValueError(
            f"learning.algorithm|expected a gradient method, because second moments suffice only for {able}"
        )
    if terms.model.class_weight:
        raise ValueError(
            "model.class_weight|not allowed with this algorithm, because second moments give every record the "
            "same weight"
        )


CHECK_BY_QUESTION: Mapping[str, Callable[[CheckableTerms], None]] = {
    "minibatch": check_batches,
    "network-gradient": check_secret_draws,
    "mixed-network-gradient": check_mixed_batches,
    "network-update": check_noisy_steps,
    "corrected-network-update": check_noisy_steps,
    "statistics": check_moments,
    "update": check_local_updates,
    "corrected": check_local_updates,
}


def check_trees(terms: CheckableTerms) -> None:
    """Refuse (ValueError) trees too large for a file, and training that does not begin at the public leaf values."""
    model = terms.model
    if model.columns != "trees" or model.trees is None:
        return
    listed = len(model.categories.get(model.target, ())) if model.predicts == "classes" else 1
    if (why := model.trees.too_many(max(listed, 1))) is not None:
        raise ValueError(f"model.trees|{why}")
    if terms.learning.rules.asks not in ("gradient", "minibatch"):
        raise ValueError(
            "learning.algorithm|columns = 'trees' needs an algorithm that asks owners for gradients, such as "
            "'gradient-descent'"
        )
    if terms.learning.start is not None:
        raise ValueError(
            "learning.start|not allowed with columns = 'trees', because training begins at the public leaf values"
        )


def check_held_out_people(terms: CheckableTerms) -> None:
    """Refuse (ValueError) held-out people without a person column, or without a proved sensitivity."""
    if terms.model.holdout_by is None:
        return
    if terms.privacy.person is None and terms.join is None:  # a join's key names people, too
        raise ValueError("model.holdout_by|needs privacy.person, the column that identifies people")
    if terms.learning.rules.asks not in SUM_QUESTIONS:
        raise ValueError(
            f"model.holdout_by|not allowed with {terms.learning.algorithm}, because the sensitivity of its answers is "
            "not proved if people are held out. Remove the key to hold out rows, or use an algorithm such as "
            "'gradient-descent'"
        )


def check_question(terms: CheckableTerms) -> None:
    """Refuse (ValueError) terms under which their question has no proof."""
    check_trees(terms)
    check_held_out_people(terms)
    if (check := CHECK_BY_QUESTION.get(terms.learning.rules.asks)) is not None:
        check(terms)
