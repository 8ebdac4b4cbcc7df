"""How good a study's models are: relative fitness and task metrics, computed from the private tables. Never part of a release."""

from dataclasses import dataclass

import numpy as np

from parley.data.design import pooled
from parley.learning.metrics import Metrics, task_metrics
from parley.objectives import optimum
from parley.owner import Agreement
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Quality:
    """What a study measured. Costs are in the target's own units."""

    path: Floats | None  # relative fitness after each recorded round [T, replicates]; None if the optimum's cost is zero
    cost: float
    optimal_cost: float
    optimal_theta: Floats
    metrics: Metrics
    optimal_metrics: Metrics


class Study:
    """Watches a run with the eyes of somebody who has all the tables."""

    def __init__(self, agreements: list[Agreement]) -> None:
        self._agreements = agreements
        total = sum(len(a.train) for a in agreements)
        self._shares = [len(a.train) / total for a in agreements]
        self._costs: list[Floats] = []

    def record(self, theta: Floats) -> None:
        """Note the cost of the models [replicates, p] after another round."""
        self._costs.append(self._cost(theta))

    def quality(self, theta: Floats) -> Quality:
        """The path so far, and the final models [replicates, p] beside the optimum."""
        first = self._agreements[0]
        designs = [a.train for a in self._agreements]
        same = ("optimum", first.objective, first.terms.model.radius, tuple(map(id, designs)))
        best = designs[0].derived(same, lambda: optimum(first.objective, designs, first.terms.model.radius))
        least = float(self._cost(best))
        held_out = pooled([a.held_out for a in self._agreements])
        unit = first.preparation.target_scale**2
        return Quality(
            path=np.array(self._costs) / least - 1 if least > 0 else None,
            cost=float(self._costs[-1].mean()) * unit,
            optimal_cost=least * unit,
            optimal_theta=best,
            metrics=task_metrics(first.preparation, held_out, theta),
            optimal_metrics=task_metrics(first.preparation, held_out, best),
        )

    def _cost(self, theta: Floats) -> Floats:
        parts = [share * a.objective.cost(a.train, theta) for share, a in zip(self._shares, self._agreements, strict=True)]
        return np.asarray(np.sum(parts, axis=0))
