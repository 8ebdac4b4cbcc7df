"""Checks of rounds that ask some owners only or do not wait for all, and of answers used as they come."""

from typing import Any

from parley.terms.catalogue import AGGREGATION_RULES, PREDICTION
from parley.terms.keys import Section
from parley.terms.sections import CheckableTerms, training_records

MAX_SCHEDULED_ROUNDS = 1_000_000  # for which it is written down who is asked
MIN_AVAILABILITY = 1e-6  # below it hardly any round would end


def fewest_rounds(terms: CheckableTerms) -> int:
    """Return the least horizon that asks everybody as terms need: no stride is longer than the run."""
    rounds = max(owner.stride or 1 for owner in terms.owners)
    if terms.learning.participation is not None:
        rounds = -(-len(terms.owners) // terms.asked_a_round)
    return rounds * terms.learning.rounds_per_step


def check_stragglers(terms: CheckableTerms) -> None:
    """Refuse (ValueError) an unreachable quorum, and rounds that skip owners without one."""
    learning, owners = terms.learning, len(terms.owners)
    if learning.quorum is not None and learning.quorum > owners:
        raise ValueError(f"learning.quorum|expected at most the number of owners, {owners}")
    if learning.straggler != "skip":
        return
    if any((owner.stride or 1) > 1 for owner in terms.owners):
        raise ValueError(
            "learning.straggler|expected 'wait' or 'stop', because 'skip' needs a quorum, which strides cannot "
            "guarantee"
        )
    if learning.quorum is None:
        raise ValueError(
            "learning.quorum|expected a number with straggler = 'skip', the number of owners that a round needs"
        )


def check_availability(terms: CheckableTerms) -> None:
    """Refuse (ValueError) lost answers where rounds wait for them, or where nobody can foresee what they change."""
    if all(owner.availability is None for owner in terms.owners):
        return
    learning = terms.learning
    if min(owner.availability or 1.0 for owner in terms.owners) < MIN_AVAILABILITY:
        raise ValueError(f"owners.availability|expected at least {MIN_AVAILABILITY:g}")
    if not learning.waits:
        raise ValueError(
            "owners.availability|not allowed with learning.staleness, because the learner requests a lost answer "
            "again. To describe slow owners, set owners.answers, or --speeds in a simulation"
        )
    if learning.straggler != "skip":
        raise ValueError(
            "owners.availability|needs learning.straggler = 'skip' and a quorum. A round that waits receives every "
            "answer, because the learner requests a lost answer again"
        )
    if learning.participation is not None:
        raise ValueError("owners.availability|not allowed with learning.participation; use only one of these two keys")
    if terms.privacy.unit != "record":
        raise ValueError("privacy.unit|expected 'record' with owners.availability")
    if terms.aggregation is not None:
        raise ValueError(
            "aggregation|not allowed with owners.availability, because Parley cannot forecast a robust rule with "
            "missing answers"
        )


def check_participation(terms: CheckableTerms) -> None:
    """Refuse rounds that never ask some owner, or that are drawn in two ways."""
    learning, strides = terms.learning, [owner.stride for owner in terms.owners if owner.stride is not None]
    if learning.participation is None and not strides:
        return
    if learning.participation is not None and strides:
        raise ValueError("learning.participation|expected either participation or strides of the owners, not both")
    if learning.horizon > MAX_SCHEDULED_ROUNDS:
        raise ValueError(f"learning.horizon|expected at most {MAX_SCHEDULED_ROUNDS:,} with participation or strides")
    if strides and all((owner.stride or 1) > 1 for owner in terms.owners):
        raise ValueError(
            "owners.stride|expected at least one owner without a stride, or with stride 1, because every round must "
            "ask an owner"
        )
    if any(stride > learning.horizon for stride in strides):
        raise ValueError("owners.stride|expected at most learning.horizon; otherwise the owner would never be asked")
    if learning.participation is not None and terms.asked_a_round * (
        learning.horizon // learning.rounds_per_step
    ) < len(terms.owners):
        raise ValueError(
            "learning.participation|increase the share or the horizon, so that every owner is asked at least once"
        )
    if learning.quorum is not None and strides:
        raise ValueError("learning.quorum|not allowed with strides, because rounds ask different numbers of owners")
    if learning.quorum is not None and learning.quorum > terms.asked_a_round:
        raise ValueError(
            f"learning.quorum|expected at most the number of owners asked in a round, {terms.asked_a_round}"
        )


def steps_of(terms: CheckableTerms) -> int:
    """Return the most steps of a run: one a round, or one an answer if answers are used as they come."""
    return terms.learning.horizon if terms.learning.waits else all_answers(terms)


def all_answers(terms: CheckableTerms) -> int:
    """Return the most answers all owners give together."""
    return sum(part.answers or terms.learning.horizon for part in terms.owners)


def check_answers(terms: CheckableTerms) -> None:
    """Refuse (ValueError) `owners.answers` if rounds wait."""
    if terms.learning.waits and any(owner.answers is not None for owner in terms.owners):
        raise ValueError(
            "owners.answers|allowed only with learning.staleness, because without staleness, strides decide which "
            "rounds ask an owner"
        )


def check_asynchronous(terms: CheckableTerms) -> None:
    """Refuse (ValueError) asynchronous answers without a proof that the run ends where it should."""
    learning, given = terms.learning, [owner.answers for owner in terms.owners if owner.answers is not None]
    if (learning.staleness or 0) < len(terms.owners) - 1:
        raise ValueError(
            f"learning.staleness|expected at least {len(terms.owners) - 1}, the number of owners minus one. An answer "
            f"can be {len(terms.owners) - 1} steps old even if all owners are equally fast. A lower limit would "
            "discard answers that have already spent budget"
        )
    if learning.decay != 0:
        raise ValueError(
            "learning.decay|expected 0.0 with staleness, because steps of equal length give early and late answers "
            "the same weight"
        )
    if learning.momentum is not None:
        raise ValueError(
            "learning.momentum|not allowed with staleness, because answers of different ages have no common direction "
            "for momentum to follow"
        )
    if terms.noise.summed:
        raise ValueError(
            "privacy.noise|expected 'each-owner' with staleness, because shared noise needs all answers at once"
        )
    if learning.participation is not None or any(owner.stride is not None for owner in terms.owners):
        raise ValueError(
            "learning.staleness|not allowed with participation or strides, because owners.answers states how often "
            "each owner answers"
        )
    if any(answers > learning.horizon for answers in given):
        raise ValueError(
            "owners.answers|expected at most learning.horizon, the largest number of answers that an owner may give"
        )
    if all_answers(terms) > MAX_SCHEDULED_ROUNDS:
        raise ValueError(
            f"learning.horizon|with staleness, all owners together may give at most {MAX_SCHEDULED_ROUNDS:,} answers; "
            "reduce learning.horizon or owners.answers"
        )


def unless_plain(content: Any) -> Any:
    """Return the section as read; None for the plain mean, so that those terms keep their hash."""
    if isinstance(content, Section) or not isinstance(content, dict):
        return content
    given_keys = {key: value for key, value in content.items() if value is not None}
    return None if given_keys in ({}, {"rule": "mean"}) else given_keys


def fewest_answers(terms: CheckableTerms) -> int:
    """Return the least number of owners a round hears."""
    if any(owner.stride is not None for owner in terms.owners):
        return sum((owner.stride or 1) == 1 for owner in terms.owners)
    if terms.learning.straggler == "skip" and terms.learning.quorum is not None:
        return terms.learning.quorum
    return terms.asked_a_round


def check_aggregation(terms: CheckableTerms) -> None:
    """Refuse (ValueError) rules without single answers to one question, or without an honest majority."""
    section = terms.aggregation
    if section is None:
        return
    if (why := _no_single_answers(terms)) is not None:
        raise ValueError(f"aggregation|not allowed with {why}")
    facts, liars, owners_heard = AGGREGATION_RULES[section.rule], section.byzantine, fewest_answers(terms)
    if owners_heard < 2 * liars + facts.more:
        raise ValueError(
            "aggregation.byzantine|expected fewer lying owners, or more owners in total. A round has answers from "
            f"{owners_heard} owners, but {section.rule!r} needs at least {2 * liars + facts.more} answers if {liars} "
            "owners may lie"
        )
    rows = sorted(training_records(owner.records, terms.model.holdout) for owner in terms.owners)
    lying, honest = sum(rows[-liars:]), sum(rows[: owners_heard - liars])
    if facts.weighted and section.rule != "mean" and not lying < honest:
        raise ValueError(
            "aggregation.byzantine|expected fewer lying owners, or owners of more equal size. Lying owners can have "
            f"half of a round's records, and {section.rule!r} weights owners by their records"
        )


def _no_single_answers(terms: CheckableTerms) -> str | None:
    """Return why only the mean makes sense; None if other rules do."""
    learning = terms.learning
    if terms.noise.summed:
        return "privacy.noise = 'shared': only the sum is opened, and a sum does not show single answers"
    if terms.task != PREDICTION:
        return f"{learning.algorithm}: the owners' answers are added up, not compared"
    if not learning.waits:
        return (
            "learning.staleness: answers are used one by one as they arrive, and robust rules compare several answers"
        )
    if learning.topology is not None:
        return (
            "gossip: no centre receives all answers, and an owner's neighbours may be too few to outvote a lying "
            "neighbour"
        )
    if learning.rules.asks == "statistics":
        return (
            f"{learning.algorithm}: the model follows from the sum of all owners' second moments, and coordinate-wise "
            "medians of moments need not be the moments of any table"
        )
    if learning.rules.asks == "minimum":
        return f"{learning.algorithm}: nobody can outvote the only owner"
    if learning.rules.asks == "corrected" or terms.uneven:
        return "questions or local steps that differ between owners: their answers cannot be compared"
    return None
