"""What terms must say where some owners may lie: rules that outvote them need single answers to one question, and a
majority of honest owners."""

from typing import Any

from parley.terms.catalogue import AGGREGATION_RULES, PREDICTION
from parley.terms.checkable import CheckableTerms
from parley.terms.holdout import training_records
from parley.terms.keys import Section


def unless_plain(content: Any) -> Any:
    """The section as it was read; None where it asks for the plain mean, so that those terms keep their hash."""
    if isinstance(content, Section) or not isinstance(content, dict):
        return content
    said = {key: value for key, value in content.items() if value is not None}
    return None if said in ({}, {"rule": "mean"}) else said


def fewest_answers(terms: CheckableTerms) -> int:
    """How many owners a round hears at least."""
    if any(owner.stride is not None for owner in terms.owners):
        return sum((owner.stride or 1) == 1 for owner in terms.owners)
    if terms.learning.straggler == "skip" and terms.learning.quorum is not None:
        return terms.learning.quorum
    return terms.asked_a_round


def check_aggregation(terms: CheckableTerms) -> None:
    """Refuse (ValueError) rules where there are no single answers to one question, or no majority of honest ones."""
    section = terms.aggregation
    if section is None:
        return
    if (why := _no_single_answers(terms)) is not None:
        raise ValueError(f"aggregation|expected none beside {why}")
    facts, liars, heard = AGGREGATION_RULES[section.rule], section.byzantine, fewest_answers(terms)
    if heard < 2 * liars + facts.more:
        raise ValueError(
            f"aggregation.byzantine|expected fewer, or more owners: a round hears {heard} of them, and where {liars} "
            f"may lie {section.rule!r} needs at least {2 * liars + facts.more}"
        )
    rows = sorted(training_records(owner.records, terms.model.holdout) for owner in terms.owners)
    lying, honest = sum(rows[-liars:]), sum(rows[: heard - liars])
    if facts.weighted and section.rule != "mean" and not lying < honest:
        raise ValueError(
            f"aggregation.byzantine|expected fewer, or owners more equal in size: those that may lie can hold half of "
            f"the records that a round hears, and {section.rule!r} counts owners by their records"
        )


def _no_single_answers(terms: CheckableTerms) -> str | None:
    """Where no rule but the mean makes sense, and why; None: it does."""
    learning = terms.learning
    if terms.noise.summed:
        return "privacy.noise = 'shared': only the sum is opened, and a sum does not show who said what"
    if terms.task != PREDICTION:
        return f"{learning.algorithm}: what its owners answer is added up, not compared"
    if not learning.waits:
        return "learning.staleness: answers are used one by one as they come, and one answer has no middle"
    if learning.topology is not None:
        return "gossip: there is no centre that hears everybody, and neighbours may be too few to outvote one"
    if learning.rules.asks == "statistics":
        return (
            f"{learning.algorithm}: a model is solved from the sum of everybody's second moments, and the middle of "
            "several owners' moments, number by number, need not be the moments of anything"
        )
    if learning.rules.asks == "minimum":
        return f"{learning.algorithm}: there is one owner, whom nobody can outvote"
    if learning.rules.asks == "corrected" or terms.uneven:
        return (
            "owners that are asked questions of their own, or take local steps of their own: their answers have no "
            "common middle"
        )
    return None
