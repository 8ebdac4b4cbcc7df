"""What terms must say where a round asks some owners only, does not wait for all, or answers are used as they come."""

from parley.terms.checkable import CheckableTerms

MOST_ROUNDS = 1_000_000  # for which it is written down who is asked


def fewest_rounds(terms: CheckableTerms) -> int:
    """The least horizon with which everybody is asked as often as terms need: a stride is no longer than the run."""
    rounds = max(owner.stride or 1 for owner in terms.owners)
    if terms.learning.participation is not None:
        rounds = -(-len(terms.owners) // terms.asked_a_round)
    return rounds * terms.learning.pace


def check_stragglers(terms: CheckableTerms) -> None:
    """Refuse (ValueError) a quorum that nobody can reach, and rounds that skip owners without one."""
    learning, owners = terms.learning, len(terms.owners)
    if learning.quorum is not None and learning.quorum > owners:
        raise ValueError(f"learning.quorum|expected at most the number of owners, {owners}")
    if learning.straggler != "skip":
        return
    if any((owner.stride or 1) > 1 for owner in terms.owners):
        raise ValueError(
            "learning.straggler|expected 'wait' or 'stop': skip needs a quorum, which rounds of strides cannot promise"
        )
    if learning.quorum is None:
        raise ValueError(
            "learning.quorum|expected a number beside straggler = 'skip': how many owners a round needs at least"
        )


def check_participation(terms: CheckableTerms) -> None:
    """Refuse rounds that leave somebody out for ever, or are drawn in two ways."""
    learning, strides = terms.learning, [owner.stride for owner in terms.owners if owner.stride is not None]
    if learning.participation is None and not strides:
        return
    if learning.participation is not None and strides:
        raise ValueError("learning.participation|expected either this share or strides of the owners, not both")
    if learning.horizon > MOST_ROUNDS:
        raise ValueError(f"learning.horizon|expected at most {MOST_ROUNDS:,} beside participation or strides")
    if strides and all((owner.stride or 1) > 1 for owner in terms.owners):
        raise ValueError(
            "owners.stride|expected at least one owner without, or with 1: every round has to ask somebody"
        )
    if any(stride > learning.horizon for stride in strides):
        raise ValueError(
            "owners.stride|expected at most learning.horizon: an owner that is never asked has nothing to agree to"
        )
    if learning.participation is not None and terms.asked_a_round * (learning.horizon // learning.pace) < len(
        terms.owners
    ):
        raise ValueError(
            "learning.participation|expected a share, or a horizon, with which every owner is asked at least once"
        )
    if learning.quorum is not None and strides:
        raise ValueError("learning.quorum|expected none beside strides: rounds differ in how many owners they ask")
    if learning.quorum is not None and learning.quorum > terms.asked_a_round:
        raise ValueError(
            f"learning.quorum|expected at most the number of owners asked in a round, {terms.asked_a_round}"
        )


def steps_of(terms: CheckableTerms) -> int:
    """How many steps a run takes at most: one a round, or one an answer where answers are used as they come."""
    return terms.learning.horizon if terms.learning.waits else all_answers(terms)


def all_answers(terms: CheckableTerms) -> int:
    """How many answers all owners give together at most."""
    return sum(part.answers or terms.learning.horizon for part in terms.owners)


def check_answers(terms: CheckableTerms) -> None:
    """Refuse (ValueError) numbers of answers where every round asks."""
    if terms.learning.waits and any(owner.answers is not None for owner in terms.owners):
        raise ValueError(
            "owners.answers|expected only beside learning.staleness: elsewhere every round asks, as strides say"
        )


def check_asynchronous(terms: CheckableTerms) -> None:
    """Refuse (ValueError) answers that are used as they come where there is no proof that it ends where it should."""
    learning, given = terms.learning, [owner.answers for owner in terms.owners if owner.answers is not None]
    if (learning.staleness or 0) < len(terms.owners) - 1:
        raise ValueError(
            f"learning.staleness|expected at least {len(terms.owners) - 1}, one less than there are owners: "
            "everybody is at work on a question, so at equal speeds an answer is as many versions old, and some "
            "owner's would all be paid for and dropped"
        )
    if learning.decay != 0:
        raise ValueError(
            "learning.decay|expected 0.0 beside staleness: steps of one length, so that nobody counts by when it "
            "answers"
        )
    if learning.momentum is not None:
        raise ValueError(
            "learning.momentum|expected none beside staleness: answers of different ages have no common direction to "
            "keep"
        )
    if terms.noise.summed:
        raise ValueError(
            "privacy.noise|expected 'each-owner' beside staleness: one noise for all needs everybody's answer at once"
        )
    if learning.participation is not None or any(owner.stride is not None for owner in terms.owners):
        raise ValueError(
            "learning.staleness|expected neither participation nor strides beside it: owners.answers says how often "
            "each answers"
        )
    if any(answers > learning.horizon for answers in given):
        raise ValueError("owners.answers|expected at most learning.horizon: the most answers that any owner gives")
    if all_answers(terms) > MOST_ROUNDS:
        raise ValueError(
            f"learning.horizon|expected at most {MOST_ROUNDS:,} answers of all owners together beside staleness"
        )
