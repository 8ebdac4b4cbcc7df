"""What terms must say for FedSplit: the strong convexity of its proximal steps."""

from collections.abc import Mapping
from typing import ClassVar

from parley.terms.algorithms.federated import LOCAL_KEYS, PROXIMAL, CorrectedRules


class FedSplitRules(CorrectedRules):
    keys: ClassVar[Mapping[str, str]] = {**LOCAL_KEYS, **PROXIMAL}


ALGORITHM = FedSplitRules()
