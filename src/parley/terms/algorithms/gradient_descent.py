"""What terms must say for gradient descent (Algorithm 1 of W), in rounds or with answers that are used as they come."""

from collections.abc import Mapping
from typing import ClassVar

from parley.terms.algorithm_rules import AlgorithmRules
from parley.terms.asynchronous import check_asynchronous
from parley.terms.checkable import CheckableTerms
from parley.terms.sections import Learning


class GradientDescentRules(AlgorithmRules):
    """As published its step falls with the square of the horizon; a `decay` says otherwise."""

    average: ClassVar[str | None] = "last"
    keys: ClassVar[Mapping[str, str]] = {
        "learning.average": "which iterates make the model",
        "learning.decay": "steps shrink with this power of the round",
        "learning.momentum": "how much of the last step is kept in the next",
        "learning.staleness": "answers are used as they come with 'gradient-descent' alone. Statistics are asked once, "
        "local updates and corrections need everybody's answers to one question, batches a common round",
    }

    def check(self, terms: CheckableTerms) -> None:
        if not terms.learning.waits:
            check_asynchronous(terms)

    def step_unit(self, learning: Learning, horizon: int) -> float:
        return 1.0 if learning.decay is not None else float(horizon**2)


ALGORITHM = GradientDescentRules()
