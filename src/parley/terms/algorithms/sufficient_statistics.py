"""What terms must say for a model to be solved from second moments."""

from typing import ClassVar

from parley.terms.algorithm_rules import OneRelease
from parley.terms.catalogue import MODELS
from parley.terms.checkable import CheckableTerms


class SufficientStatisticsRules(OneRelease):
    asks: ClassVar[str] = "statistics"

    def check(self, terms: CheckableTerms) -> None:
        """Refuse (ValueError) a model that second moments do not fix."""
        super().check(terms)
        if not MODELS[terms.model.kind].squared:
            able = " and ".join(kind for kind, facts in MODELS.items() if facts.squared)
            raise ValueError(
                f"learning.algorithm|expected a gradient method: second moments say enough for {able} only"
            )
        if terms.model.class_weight:
            raise ValueError("model.class_weight|expected none beside second moments: every record counts once in them")


ALGORITHM = SufficientStatisticsRules()
