"""What terms must say that ask how columns are spread, before anything is learned."""

from typing import ClassVar

from parley.terms import Terms
from parley.terms.catalogue import ALL_MECHANISMS
from parley.terms.rules import AlgorithmRules, Rules

ROUNDS = 2  # how large values are, then how they are spread within that


class ColumnStatisticsRules(Rules):
    """Two rounds that ask everybody; nothing is learned, held out or scored."""

    def check(self, terms: Terms) -> None:
        learning, privacy = terms.learning, terms.privacy
        if learning.horizon != ROUNDS or learning.step != "auto" or learning.straggler == "skip":
            raise ValueError(
                f"learning.algorithm|expected horizon = {ROUNDS}, no step and nobody skipped beside 'scales'"
            )
        if privacy.score_epsilon is not None or privacy.scale_epsilon is not None or terms.model.holdout > 0:
            raise ValueError("learning.algorithm|expected no score_epsilon, scale_epsilon or holdout beside 'scales'")
        if ALL_MECHANISMS[privacy.mechanism].grid:
            raise ValueError("privacy.mechanism|expected 'laplace' or 'gaussian' beside 'scales'")
        if learning.participation is not None or any(owner.stride is not None for owner in terms.owners):
            raise ValueError(
                "learning.algorithm|expected everybody in both rounds of 'scales': no participation and no strides"
            )


class ScalesRules(AlgorithmRules):
    asks: ClassVar[str] = "scales"
    rounds: ClassVar[int] = ROUNDS


RULES = ColumnStatisticsRules()
ALGORITHM = ScalesRules()
