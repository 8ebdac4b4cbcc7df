"""How good a study's models are: relative fitness and task metrics, computed from the private tables. Never part of a
release."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.data import Design
from parley.data.design import pooled
from parley.errors import NoOptimumError
from parley.learning.outcome.metrics import Metrics, Middle, task_metrics
from parley.owner.owner import Agreement
from parley.validate import Floats

NO_OPTIMUM = "this kind of model has no best one without privacy to compare with"


@dataclass(frozen=True, eq=False)
class Quality:
    """What a study measured. Costs are in the target's own units. Cost and metrics are means over the replicates, or
    medians where the noise has no variance: means of such runs do not settle."""

    path: Floats | None  # relative fitness after each recorded round [T, replicates]; None where it is not defined
    cost: float
    optimal_cost: float | None  # None: the objective has no optimum to compare with
    optimal_theta: Floats | None
    metrics: Metrics
    optimal_metrics: Metrics
    undefined: str | None = None  # why relative fitness is not defined


class Study:
    """Watches a run with the eyes of somebody who has all the tables."""

    def __init__(self, agreements: Sequence[Agreement]) -> None:
        self._setup = agreements[0].setup
        self._designs = [a.tables.train.in_memory() for a in agreements]
        self._held_out = [a.tables.held_out.in_memory() for a in agreements]
        total = sum(design.divisor for design in self._designs)
        self._shares = [design.divisor / total for design in self._designs]
        self._costs: list[Floats] = []

    def record(self, theta: Floats) -> None:
        """Note the cost of the models [replicates, P] after another round."""
        self._costs.append(self._cost(theta))

    def quality(self, theta: Floats) -> Quality:
        """The path so far, and the final models [replicates, P] beside the optimum."""
        preparation, objective = self._setup.preparation, self._setup.risk
        best, undefined = self._optimum()
        least = None if best is None else float(self._cost(best))
        if least is not None and not least > 0:
            undefined = "the best model without privacy has no cost, and relative fitness is measured in it"
        held_out, unit = pooled(self._held_out), preparation.target_scale**2
        middle: Middle = np.median if self._setup.terms.studied else np.mean
        return Quality(
            path=None if least is None or undefined is not None else np.array(self._costs) / least - 1,
            cost=float(middle(self._costs[-1])) * unit,
            optimal_cost=None if least is None else least * unit,
            optimal_theta=best,
            metrics=task_metrics(objective, preparation, held_out, theta, middle),
            optimal_metrics={} if best is None else task_metrics(objective, preparation, held_out, best),
            undefined=undefined,
        )

    def _optimum(self) -> tuple[Floats | None, str | None]:
        """The best model without privacy, or why there is none. Found once for the same tables: it is kept with the
        first, beside the others themselves, not their places in memory."""
        objective, radius, designs = self._setup.risk, self._setup.limits.radius, self._designs
        found = designs[0].derived(("optimum", objective, radius), lambda: _Found([], None))
        if len(found.designs) != len(designs) or any(a is not b for a, b in zip(found.designs, designs, strict=True)):
            found.designs, found.theta, found.missing = designs, None, None
            try:
                found.theta = objective.optimum(designs, radius, start=objective.start(self._setup.preparation))
                found.missing = NO_OPTIMUM if found.theta is None else None
            except NoOptimumError as error:  # what was trained is no worse for it
                found.missing = str(error)
        return found.theta, found.missing

    def _cost(self, theta: Floats) -> Floats:
        parts = [share * self._setup.risk.cost(d, theta) for share, d in zip(self._shares, self._designs, strict=True)]
        return np.asarray(np.sum(parts, axis=0))


@dataclass
class _Found:
    """An optimum, or why there is none, and the tables it belongs to."""

    designs: list[Design]
    theta: Floats | None
    missing: str | None = None
