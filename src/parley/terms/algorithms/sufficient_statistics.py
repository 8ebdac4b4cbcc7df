"""What terms must say for a model to be solved from second moments."""

from typing import ClassVar

from parley.terms.algorithm_rules import OneRelease


class SufficientStatisticsRules(OneRelease):
    """One release of second moments, from which the learner solves for the model."""

    asks: ClassVar[str] = "statistics"


ALGORITHM = SufficientStatisticsRules()
