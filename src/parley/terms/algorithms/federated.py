"""What terms must say where owners take local steps: rules of federated averaging and its kin."""

from collections.abc import Mapping
from typing import Any, ClassVar

from parley.terms.algorithm_rules import AlgorithmRules
from parley.terms.sections import Learning

LOCAL_STEPS = 5  # where the terms do not say
LOCAL_KEYS: Mapping[str, str] = {
    "learning.local_steps": "how many steps owners take between two answers; others ask for gradients",
    "owners.local_steps": "owners take local steps there alone",
    "owners.step": "owners take local steps there alone",
}
PROXIMAL: Mapping[str, str] = {"learning.proximal": "the weight of the pull towards where a local update began"}


class FederatedRules(AlgorithmRules):
    """Owners answer with local updates: steps within a box, on a loss where it is known how far a record moves them."""

    asks: ClassVar[str] = "update"
    keys: ClassVar[Mapping[str, str]] = LOCAL_KEYS

    def usual(self, content: dict[str, Any]) -> dict[str, Any]:
        said = super().usual(content)
        return {**said, "local_steps": LOCAL_STEPS if said.get("local_steps") is None else said["local_steps"]}

    def check_learning(self, learning: Learning) -> None:
        if "learning.proximal" in self.keys and learning.proximal is None:
            raise ValueError(f"proximal|expected a number beside it: {self.keys['learning.proximal']}")
        if learning.horizon % self.rounds_a_step(learning):
            raise ValueError("horizon|expected an even number: a step takes two answers, a gradient and a local update")

    def clip_norm(self, norm: str) -> str:
        return "l2"

    def tells_heterogeneity(self, norm: str) -> bool:
        return norm == "l2"


class CorrectedRules(FederatedRules):
    """Each owner is asked a question of its own, corrected by what was heard of it so far."""

    asks: ClassVar[str] = "corrected"
    corrects_drift: ClassVar[bool] = True

    def tells_heterogeneity(self, norm: str) -> bool:
        return False
