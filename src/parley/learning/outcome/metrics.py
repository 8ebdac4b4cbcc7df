"""Quality of a model at its task, on held-out rows. Relative fitness does not show it: the optimum may be poor."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation
from parley.data.design import pooled
from parley.errors import NoOptimumError
from parley.losses import EmpiricalRisk
from parley.losses.loss import Poisson
from parley.owner.owner import Agreement
from parley.terms.catalogue import Predicts
from parley.validate import Floats

ALERT_RATE = 0.01  # share of records that an analyst can look at

Metrics = dict[str, float | None]
AverageFunction = Callable[
    ..., Any
]  # of the replicates' figures: their mean, or where noise has no variance their median


def no_target_sentence(owner: str) -> str:
    """Say that an owner has nothing to score with, and what to do."""
    return (
        f"{owner}: none of this owner's held-out rows has a target, so no row can be scored; add targets to the "
        "owner's data, or score with another owner"
    )


def task_metrics(
    objective: EmpiricalRisk,
    preparation: Preparation,
    held_out: Design,
    theta: Floats,
    middle: AverageFunction = np.mean,
) -> Metrics:
    """Return the task's metrics on the held-out rows: the mean, or another `middle`, over the parameters [R, P].

    - A number: `r2`, `mean_absolute_error`.
    - A count: `d2` (share of the deviance explained), `mean_deviance` (Poisson's, per record).
    - A time: `concordance` (Harrell's), `log_loss` (per subject).
    - Two classes: `average_precision`, `auc`, `recall_at_1_percent` (found among the 1 % with the highest scores),
      `accuracy`.
    - Several classes: `accuracy`, `balanced_accuracy` (mean recall), `log_loss`, `auc` (each class against the rest,
      mean).

    None where the rows do not define one (a single class, constant targets).
    """
    names, evaluate = _EVALUATORS[preparation.model.predicts]
    held_out = held_out.targeted()
    if not len(held_out):
        return dict.fromkeys(names)
    rows = [evaluate(objective, held_out, t) for t in theta.reshape(-1, theta.shape[-1])]
    averages = {name: float(middle([row[name] for row in rows])) for name in rows[0]}
    if "mean_absolute_error" in averages:
        averages["mean_absolute_error"] *= preparation.target_scale  # in the target's own units
    return {name: averages.get(name) for name in names}


def metrics_of(predicts: Predicts, y: Floats, score: Floats) -> Metrics:
    """Return the metrics of any model's scores for these targets; numbers in their own units."""
    evaluate = {"two classes": _two_classes, "classes": _classes}.get(predicts, _number)
    found: Mapping[str, float] = evaluate(y, score) if len(y) else {}
    return {name: found.get(name) for name in _EVALUATORS[predicts][0]}


def _scored(
    evaluate: Callable[[Floats, Floats], dict[str, float]], objective: EmpiricalRisk, rows: Design, theta: Floats
) -> dict[str, float]:
    return evaluate(rows.y, objective.scores(rows.X, theta))


def _number(y: Floats, score: Floats) -> dict[str, float]:
    error, spread = y - score, y - y.mean()
    metrics = {"mean_absolute_error": float(np.abs(error).mean())}
    if spread.any():
        metrics["r2"] = 1 - float(error @ error) / float(spread @ spread)
    return metrics


def _count(objective: EmpiricalRisk, rows: Design, theta: Floats) -> dict[str, float]:
    """Return mean deviance and D2. Losses are half the deviance; the baseline is the best single rate for all rows."""
    deviance, usual = 2 * objective.record_losses(rows, theta).mean(), rows.weight @ rows.y / rows.weight.sum()
    if not usual > 0:
        return {"mean_deviance": float(deviance)}
    same = 2 * Poisson().loss(np.full(len(rows), np.log(usual)), rows.y) @ rows.weight / len(rows)
    return {"mean_deviance": float(deviance)} | ({"d2": float(1 - deviance / same)} if same > 0 else {})


def _survival(objective: EmpiricalRisk, rows: Design, theta: Floats) -> dict[str, float]:
    """Return log loss and concordance. Periods share coefficients, so the first period's log-odds order subjects."""
    happened = rows.y % 2 == 1
    found = concordance(np.floor(rows.y / 2) + happened, happened, objective.scores(rows.X, theta)[:, 0])
    return {"log_loss": float(objective.record_losses(rows, theta).mean())} | (
        {} if found is None else {"concordance": found}
    )


def _two_classes(y: Floats, score: Floats) -> dict[str, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score  # slow to import

    positive = y > 0
    metrics = {"accuracy": float(np.mean((score > 0) == positive))}
    if positive.any() and not positive.all():
        alerts = np.argpartition(-score, max(1, round(ALERT_RATE * len(y))) - 1)[: max(1, round(ALERT_RATE * len(y)))]
        metrics["recall_at_1_percent"] = float(positive[alerts].sum() / positive.sum())
        metrics["auc"] = float(roc_auc_score(positive, score))
        metrics["average_precision"] = float(average_precision_score(positive, score))
    return metrics


def _classes(y: Floats, scores: Floats) -> dict[str, float]:
    from sklearn.metrics import roc_auc_score

    places, present = y.astype(int), np.unique(y.astype(int))
    right = scores.argmax(axis=1) == places
    above = scores - scores.max(axis=1, keepdims=True)
    log_p = above - np.log(np.exp(above).sum(axis=1, keepdims=True))
    metrics = {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(np.mean([right[places == c].mean() for c in present])),
        "log_loss": -float(log_p[np.arange(len(y)), places].mean()),
    }
    if len(present) > 1:
        metrics["auc"] = float(np.mean([roc_auc_score(places == c, log_p[:, c]) for c in present]))
    return metrics


_EVALUATORS: dict[str, tuple[tuple[str, ...], Callable[[EmpiricalRisk, Design, Floats], dict[str, float]]]] = {
    "number": (("r2", "mean_absolute_error"), partial(_scored, _number)),
    "count": (("d2", "mean_deviance"), _count),
    "survival": (("concordance", "log_loss"), _survival),
    "two classes": (("average_precision", "auc", "recall_at_1_percent", "accuracy"), partial(_scored, _two_classes)),
    "classes": (("accuracy", "balanced_accuracy", "log_loss", "auc"), partial(_scored, _classes)),
}


def concordance(time: Floats, happened: NDArray[np.bool_], risk: Floats) -> float | None:
    """Return the share of comparable pairs in which the earlier event has the higher risk; ties count half, None
    without pairs.

    A pair is comparable if one had the event, and the other was watched longer, or as long without the event.

    >>> concordance(np.array([1.0, 2.0, 2.0]), np.array([True, True, False]), np.array([3.0, 1.0, 1.0]))
    0.8333333333333334
    """
    right, pairs = 0.0, 0
    for moment in np.unique(time[happened]):
        first = risk[happened & (time == moment)]
        later = np.sort(risk[(time > moment) | (~happened & (time == moment))])
        below, up_to = (np.searchsorted(later, first, side=side).sum() for side in ("left", "right"))
        right, pairs = right + (below + up_to) / 2, pairs + len(first) * len(later)
    return float(right / pairs) if pairs else None


NO_OPTIMUM = "this kind of model has no best one without privacy to compare with"


@dataclass(frozen=True, eq=False)
class Quality:
    """Figures of a study. Costs (in the target's own units) and metrics are means over replicates, or medians if the
    noise has no variance."""

    path: Floats | None  # relative fitness after each recorded round [T, replicates]; None where it is not defined
    cost: float
    optimal_cost: float | None  # None: the objective has no optimum to compare with
    optimal_theta: Floats | None
    metrics: Metrics
    optimal_metrics: Metrics
    undefined: str | None = None  # why relative fitness is not defined


class Study:
    """Measures a run with access to all tables."""

    def __init__(self, agreements: Sequence[Agreement]) -> None:
        self._setup = agreements[0].setup
        self._designs = [a.tables.train.in_memory() for a in agreements]
        self._held_out = [a.tables.held_out.in_memory() for a in agreements]
        total = sum(design.divisor for design in self._designs)
        self._shares = [design.divisor / total for design in self._designs]
        self._costs: list[Floats] = []

    def record(self, theta: Floats) -> None:
        """Record the cost of the models [replicates, P] after a round."""
        self._costs.append(self._cost(theta))

    def quality(self, theta: Floats) -> Quality:
        """Return the path so far, and the final models [replicates, P] compared with the optimum."""
        preparation, objective = self._setup.preparation, self._setup.risk
        best, undefined = self._optimum()
        optimal_cost = None if best is None else float(self._cost(best))
        if optimal_cost is not None and not optimal_cost > 0:
            undefined = "the best model without privacy has no cost, and relative fitness is measured in it"
        held_out, unit = pooled(self._held_out), preparation.target_scale**2
        middle: AverageFunction = np.median if self._setup.terms.studied else np.mean
        return Quality(
            path=None if optimal_cost is None or undefined is not None else np.array(self._costs) / optimal_cost - 1,
            cost=float(middle(self._costs[-1])) * unit,
            optimal_cost=None if optimal_cost is None else optimal_cost * unit,
            optimal_theta=best,
            metrics=task_metrics(objective, preparation, held_out, theta, middle),
            optimal_metrics={} if best is None else task_metrics(objective, preparation, held_out, best),
            undefined=undefined,
        )

    def _optimum(self) -> tuple[Floats | None, str | None]:
        """Return the best model without privacy, or why there is none; cached with the first table."""
        objective, radius, designs = self._setup.risk, self._setup.limits.radius, self._designs
        cached = designs[0].derived(("optimum", objective, radius), lambda: _Found([], None))
        if len(cached.designs) != len(designs) or any(a is not b for a, b in zip(cached.designs, designs, strict=True)):
            cached.designs, cached.theta, cached.missing = designs, None, None
            try:
                cached.theta = objective.optimum(designs, radius, start=objective.start(self._setup.preparation))
                cached.missing = NO_OPTIMUM if cached.theta is None else None
            except NoOptimumError as error:  # what was trained is no worse for it
                cached.missing = str(error)
        return cached.theta, cached.missing

    def _cost(self, theta: Floats) -> Floats:
        parts = [share * self._setup.risk.cost(d, theta) for share, d in zip(self._shares, self._designs, strict=True)]
        return np.asarray(np.sum(parts, axis=0))


@dataclass
class _Found:
    designs: list[Design]
    theta: Floats | None
    missing: str | None = None
