"""What terms must say for private SGD: batches, epochs, and how records are drawn."""

from collections.abc import Mapping
from typing import Any, ClassVar

from parley.terms.algorithm_rules import AlgorithmRules
from parley.terms.sections import Learning

BATCHES = "others ask all records a round"


class PrivateSGDRules(AlgorithmRules):
    """A round asks a batch of the records, `batches` of which make an epoch; the clip may have a norm of its own."""

    asks: ClassVar[str] = "minibatch"
    keys: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            (f"learning.{key}" for key in ("batches", "epochs", "sampling", "optimiser", "batch_seed")), BATCHES
        ),
        "privacy.clip_norm": "the norm in which records are clipped",
    }

    def usual(self, content: dict[str, Any]) -> dict[str, Any]:
        """What follows from the keys that are there; what is wrong with them is said later."""
        said = super().usual({"horizon": None, **content})
        usual = {"sampling": "partition", "optimiser": "plain"}
        said |= {key: value for key, value in usual.items() if said.get(key) is None}
        seed = said.get("batch_seed")
        if type(seed) is int and seed == 0 and said["sampling"] == "partition":  # what is meant where it is left out
            del said["batch_seed"]
        batches, epochs, horizon = (said.get(key) for key in ("batches", "epochs", "horizon"))
        if horizon is None:
            del said["horizon"]
        if type(batches) is int and batches > 0:
            if type(epochs) is int and horizon is None:
                return {**said, "horizon": epochs * batches}
            if type(horizon) is int and epochs is None and horizon % batches == 0:
                return {**said, "epochs": horizon // batches}
        return said

    def check_learning(self, learning: Learning) -> None:
        """Refuse epochs that do not add up."""
        if learning.batches is None:
            raise ValueError("batches|expected a whole number beside private-sgd: how many batches make an epoch")
        if learning.epochs is None:
            raise ValueError(
                "epochs|expected a whole number beside private-sgd, or a horizon that is a multiple of batches"
            )
        if learning.horizon != learning.epochs * learning.batches:
            raise ValueError(
                f"horizon|expected epochs x batches = {learning.epochs * learning.batches}, or leave the key out"
            )
        if learning.optimiser == "adam" and learning.step == "auto":
            raise ValueError(
                "step|expected a number beside optimiser = 'adam': its steps are lengths in the parameters' own units"
            )
        if learning.poisson and learning.batch_seed is not None:
            raise ValueError("batch_seed|expected none beside sampling = 'poisson': owners draw in secret")

    def tells_heterogeneity(self, norm: str) -> bool:
        return True


ALGORITHM = PrivateSGDRules()
