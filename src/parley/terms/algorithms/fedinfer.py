"""What terms must say for federated inference: second moments in one round or several, with trust in owners."""

from collections.abc import Mapping
from typing import ClassVar

from parley.terms.algorithms.sufficient_statistics import SufficientStatisticsRules
from parley.terms.checkable import CheckableTerms


class FedInferRules(SufficientStatisticsRules):
    keys: ClassVar[Mapping[str, str]] = {"owners.trust": "others weigh owners by their records"}
    repeatable: ClassVar[bool] = True

    def check(self, terms: CheckableTerms) -> None:
        """Refuse (ValueError) weights of owners whose own answers nobody sees, too."""
        super().check(terms)
        some = terms.learning.participation is not None or terms.learning.straggler == "skip"
        told_apart = any(owner.trust is not None or owner.stride is not None for owner in terms.owners)
        if terms.noise.summed and (some or told_apart):
            raise ValueError(
                "privacy.noise|expected 'each-owner' beside trust, strides, participation or skip: nobody can tell "
                "whose answers a sum has"
            )


ALGORITHM = FedInferRules()
