"""How many of an owner's records are learned from, and how many are kept for scoring; and what holding out people, not
rows, asks of terms."""

from parley.terms.checkable import CheckableTerms

# Answers that are a sum of bounded shares of records over a public number, or a walk along such sums: a record that is
# held out adds 0.
SUMS = {"gradient", "minibatch", "statistics", "leaf-sums", "network-gradient", "mixed-network-gradient"}
SUMS |= {"update", "corrected"}


def training_records(records: int, holdout: float) -> int:
    """How many of `records` rows remain when a share `holdout` is kept for scoring."""
    return records - held_out_records(records, holdout)


def held_out_records(records: int, holdout: float) -> int:
    """How many of `records` rows are kept for scoring."""
    return int(records * holdout)


def check_held_out_people(terms: CheckableTerms) -> None:
    """Refuse (ValueError) people to be held out where nobody is told apart, or the sensitivity is not proved."""
    if terms.model.holdout_by is None:
        return
    if terms.privacy.person is None:
        raise ValueError("model.holdout_by|expected privacy.person beside it: the column that tells people apart")
    if terms.learning.rules.asks not in SUMS:
        raise ValueError(
            f"model.holdout_by|expected none beside {terms.learning.algorithm}: how far its answer moves when somebody "
            "who is learned from is replaced by somebody held out is not proved; leave the key out to hold out rows, "
            "or take an algorithm such as 'gradient-descent'"
        )
