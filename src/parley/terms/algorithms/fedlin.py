"""What terms must say for FedLin: rounds in pairs."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from parley.terms.algorithms.federated import LOCAL_KEYS, CorrectedRules
from parley.terms.sections import Learning


class FedLinRules(CorrectedRules):
    """A step takes two answers, a gradient and a local update.

    Who takes more local steps takes shorter ones, so that all go equally far.
    """

    keys: ClassVar[Mapping[str, str]] = {
        **LOCAL_KEYS,
        "learning.top_k": "of a released gradient so many numbers travel; what others answer is not cut before its "
        "noise",
    }

    def rounds_a_step(self, learning: Learning) -> int:
        return 2

    def local_step(self, step: float, steps: int, everybody: Iterable[int]) -> float:
        return step * (min(everybody) / steps)


ALGORITHM = FedLinRules()
