"""What terms must say for objective perturbation: one owner, its own noise, and a loss for which privacy is proved."""

from typing import ClassVar

from parley.terms.algorithm_rules import OneRelease
from parley.terms.catalogue import MODELS
from parley.terms.checkable import CheckableTerms


class ObjectivePerturbationRules(OneRelease):
    asks: ClassVar[str] = "minimum"
    clips_gradients: ClassVar[bool] = True
    one_owner: ClassVar[bool] = True

    def check(self, terms: CheckableTerms) -> None:
        """Refuse (ValueError) several owners, and models or noise for which nothing is proved."""
        super().check(terms)
        if not MODELS[terms.model.kind].perturbs:
            able = " or ".join(kind for kind, facts in MODELS.items() if facts.perturbs)
            raise ValueError(
                f"learning.algorithm|expected another than objective-perturbation for {terms.model.kind}: it is for "
                f"{able}"
            )
        if len(terms.owners) > 1:
            raise ValueError(
                "learning.algorithm|expected another than objective-perturbation for several owners: one owner "
                "minimises its own cost"
            )
        if terms.privacy.mechanism != "laplace" or terms.noise.summed:
            raise ValueError(
                "privacy.mechanism|expected 'laplace' and no shared noise beside objective-perturbation: it is pure"
            )


ALGORITHM = ObjectivePerturbationRules()
