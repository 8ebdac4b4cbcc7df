"""What terms must say where answers are used as they come (`learning.staleness`), and how many an owner gives then."""

from parley.terms.checkable import CheckableTerms
from parley.terms.participation import MOST_ROUNDS


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
