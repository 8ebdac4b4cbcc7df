"""What terms must say for the average of subgradient steps (Algorithm 2 of W)."""

from collections.abc import Mapping
from typing import ClassVar

from parley.terms.algorithm_rules import AlgorithmRules


class AveragedSubgradientRules(AlgorithmRules):
    average: ClassVar[str | None] = "all"
    keys: ClassVar[Mapping[str, str]] = {"learning.average": "which iterates make the model"}


ALGORITHM = AveragedSubgradientRules()
