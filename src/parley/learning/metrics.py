"""How good a model is at its task, on held-out rows. Relative fitness alone does not say (a poor optimum is fit for nothing)."""

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from parley.data import Design, Preparation
from parley.validate import Floats

ALERT_RATE = 0.01  # share of records that an analyst can look at

Metrics = dict[str, float | None]


def task_metrics(preparation: Preparation, held_out: Design, theta: Floats) -> Metrics:
    """The task's own metrics of each parameter [R, p] on the held-out rows, averaged over the replicates.

    Regression: `r2`, `mean_absolute_error`. Classification: `average_precision`, `auc`, `recall_at_1_percent` (found among the
    1 % of rows with the highest scores), `accuracy`. None where the rows do not define one (a single class, constant targets).
    """
    classifies = preparation.model.classifies
    names = ("average_precision", "auc", "recall_at_1_percent", "accuracy") if classifies else ("r2", "mean_absolute_error")
    if not len(held_out):
        return dict.fromkeys(names)
    evaluate = _classification if classifies else _regression
    rows = [evaluate(held_out.y, held_out.X @ t) for t in theta.reshape(-1, theta.shape[-1])]
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    if "mean_absolute_error" in means:
        means["mean_absolute_error"] *= preparation.target_scale  # in the target's own units
    return {name: means.get(name) for name in names}


def _regression(y: Floats, score: Floats) -> dict[str, float]:
    error, spread = y - score, y - y.mean()
    metrics = {"mean_absolute_error": float(np.abs(error).mean())}
    if spread.any():
        metrics["r2"] = 1 - float(error @ error) / float(spread @ spread)
    return metrics


def _classification(y: Floats, score: Floats) -> dict[str, float]:
    positive = y > 0
    metrics = {"accuracy": float(np.mean((score > 0) == positive))}
    if positive.any() and not positive.all():
        alerts = np.argpartition(-score, max(1, round(ALERT_RATE * len(y))) - 1)[: max(1, round(ALERT_RATE * len(y)))]
        metrics["recall_at_1_percent"] = float(positive[alerts].sum() / positive.sum())
        metrics["auc"] = float(roc_auc_score(positive, score))
        metrics["average_precision"] = float(average_precision_score(positive, score))
    return metrics
