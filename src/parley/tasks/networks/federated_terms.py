"""Terms of local steps on networks: the rules of federated algorithms where the model is a network."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from parley.terms.algorithms import LOCAL_KEYS, PROXIMAL_KEYS, FederatedRules, FedLinRules
from parley.terms.rules import AlgorithmRules
from parley.terms.sections import Learning


class NetworkFederatedRules(FederatedRules):
    """Every local step adds noise and is charged as a release; with `batches` it draws its records in secret."""

    asks: ClassVar[str] = "network-update"
    keys: ClassVar[Mapping[str, str]] = {
        **LOCAL_KEYS,
        "learning.batches": "a local step draws each record with probability 1/batches",
        "learning.sampling": "how local steps choose records",
        "learning.optimiser": "how the model follows from the owners' mean update",
        "learning.epochs": "refused below",
        "learning.top_k": "refused below",
    }

    def usual(self, content: dict[str, Any]) -> dict[str, Any]:
        said = super().usual(content)
        usual = {"optimiser": "plain"} | ({} if said.get("batches") is None else {"sampling": "poisson"})
        return said | {key: value for key, value in usual.items() if said.get(key) is None}

    def check_learning(self, learning: Learning) -> None:
        """Refuse keys of other algorithms, and steps without a number."""
        super().check_learning(learning)
        if learning.epochs is not None:
            raise ValueError(
                f"epochs|not allowed with {learning.algorithm}, which counts rounds; remove epochs, and set horizon to "
                "the number of rounds"
            )
        if learning.top_k is not None:
            raise ValueError("top_k|not allowed for networks, because owners send whole answers; remove top_k")
        if learning.step == "auto":
            raise ValueError("step|expected a number; 'auto' is not available for networks")

    def clip_norm(self, norm: str) -> str:
        return norm

    def tells_heterogeneity(self, norm: str) -> bool:
        return False


class NetworkFedProxRules(NetworkFederatedRules):
    """FedProx: local steps are pulled to where they began."""

    keys: ClassVar[Mapping[str, str]] = {**NetworkFederatedRules.keys, **PROXIMAL_KEYS}


class NetworkFedLinRules(NetworkFederatedRules):
    """FedLin: a step takes two answers, a gradient and then corrected local steps; more of them are shorter."""

    asks: ClassVar[str] = "corrected-network-update"
    corrects_drift: ClassVar[bool] = True

    def rounds_a_step(self, learning: Learning) -> int:
        return 2

    def local_step(self, step: float, steps: int, everybody: Iterable[int]) -> float:
        return FedLinRules.local_step(FedLinRules(), step, steps, everybody)


RULES: Mapping[str, AlgorithmRules] = {
    "federated-averaging": NetworkFederatedRules(),
    "fedprox": NetworkFedProxRules(),
    "fedlin": NetworkFedLinRules(),
}


class NetworkLearning(Learning):
    """`[learning]` of networks, where local steps have rules of their own."""

    model_task: ClassVar[str | None] = "networks"
