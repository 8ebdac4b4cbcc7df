"""What terms can name - models, algorithms, mechanisms - and the few facts about each that checks of terms need.

Everything else about them lives where it is computed: `objectives/`, `learning/`, `mechanisms/`. A new one is a line here and a file there.
"""

from dataclasses import dataclass
from typing import Literal

Task = Literal["number", "two classes", "classes"]


@dataclass(frozen=True)
class ModelFacts:
    """`task`: what the target is; `penalty`: the usual weight of g1; `smooth`: whether the slope of its loss has no jumps."""

    task: Task
    penalty: float = 0.0
    smooth: bool = True


@dataclass(frozen=True)
class AlgorithmFacts:
    """`asks`: the kind of question, as `queries.KINDS` names it.

    `solves`: one answer of everybody is enough, so there is one round and no step, and the task must be a number. `walks`: owners take
    `local_steps` of their own, within a box, on a smooth loss. `unit_step`: the power of T by which the step of the first round is
    shorter than the terms' `step`.
    """

    asks: str
    solves: bool = False
    walks: bool = False
    unit_step: int = 0


@dataclass(frozen=True)
class MechanismFacts:
    """`approximate`: whether its guarantee needs a delta above 0."""

    approximate: bool


MODELS = {
    "linear-regression": ModelFacts("number"),
    "linear-svm": ModelFacts("two classes", penalty=1.0, smooth=False),
    "logistic-regression": ModelFacts("two classes"),
    "softmax-regression": ModelFacts("classes"),
}

ALGORITHMS = {
    "averaged-subgradient": AlgorithmFacts("gradient"),
    "gradient-descent": AlgorithmFacts("gradient", unit_step=2),
    "federated-averaging": AlgorithmFacts("update", walks=True),
    "sufficient-statistics": AlgorithmFacts("statistics", solves=True),
}

MECHANISMS = {
    "laplace": MechanismFacts(approximate=False),
    "gaussian": MechanismFacts(approximate=True),
}
