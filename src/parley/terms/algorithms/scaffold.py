"""What terms must say for SCAFFOLD: what its control variates are made of."""

from collections.abc import Mapping
from typing import ClassVar

from parley.terms.algorithms.federated import LOCAL_KEYS, CorrectedRules
from parley.terms.sections import Learning


class ScaffoldRules(CorrectedRules):
    """Where control variates are gradients, a step takes two answers: a gradient, then a local update."""

    keys: ClassVar[Mapping[str, str]] = {**LOCAL_KEYS, "learning.variates": "what its control variates are made of"}
    unsaid: ClassVar[Mapping[str, str]] = {"variates": "walks"}

    def rounds_a_step(self, learning: Learning) -> int:
        return 2 if learning.variates == "gradients" else 1


ALGORITHM = ScaffoldRules()
