"""What noisy scores say: figures with standard errors. All of it is post-processing of a release (`score`), so it costs nothing more."""

import numpy as np

from parley.validate import Floats

CLEAR = 4.0  # standard errors by which a denominator must stand clear of zero: below, a ratio says nothing

Figures = dict[str, tuple[Floats, Floats]]  # (values, standard errors) [...] of noisy shares [..., d]; NaN where meaningless


def hit_figures(shares: Floats, deviation: float) -> Figures:
    """accuracy and balanced_accuracy from noisy shares [..., 2 C]: rows of each class told rightly, then those told wrongly.

    As for two classes, the noise in the sum of the shares, which is 1, is taken out first.

    >>> figures = hit_figures(np.array([0.4, 0.3, 0.1, 0.2]), 0.01)
    >>> [round(float(value), 4) for value, _ in figures.values()]
    [0.7, 0.7]
    """
    cells = shares.shape[-1]
    known = shares - (shares.sum(axis=-1, keepdims=True) - 1) / cells
    right, wrong = known[..., : cells // 2], known[..., cells // 2 :]
    recall, of_right, of_wrong = _ratio(right, wrong, deviation)
    slope = np.concatenate([of_right, of_wrong], axis=-1) / (cells // 2)
    ones = np.concatenate([np.ones_like(right), np.zeros_like(wrong)], axis=-1)
    figures = {}
    for name, value, g in (("accuracy", right.sum(axis=-1), ones), ("balanced_accuracy", recall.mean(axis=-1), slope)):
        error = deviation * np.sqrt(np.maximum(0.0, np.sum(g**2, axis=-1) - np.sum(g, axis=-1) ** 2 / cells))
        figures[name] = np.clip(value, 0.0, 1.0), error
    return figures


def two_class_figures(shares: Floats, deviation: float) -> Figures:
    """accuracy, balanced_accuracy, recall and precision from noisy shares [..., 4] of the confusion matrix.

    The four shares add up to 1, which everybody knows. So the noise in their sum is taken out first: an equal part of it from each, after
    which a figure with gradient g has the variance deviation^2 (|g|^2 - (sum g)^2/4) (the delta method). Accuracy gets half the
    variance that it would have.

    >>> figures = two_class_figures(np.array([0.3, 0.1, 0.2, 0.4]), 0.01)
    >>> [round(float(value), 4) for value, _ in figures.values()]
    [0.7, 0.7, 0.6, 0.75]
    """
    known = shares - (shares.sum(axis=-1, keepdims=True) - 1) / 4
    hit, alarm, miss, quiet = np.moveaxis(known, -1, 0)
    none = np.zeros_like(hit)
    recall, of_hit, of_miss = _ratio(hit, miss, deviation)
    rest, of_quiet, of_alarm = _ratio(quiet, alarm, deviation)
    precision, by_hit, by_alarm = _ratio(hit, alarm, deviation)
    gradients = {
        "accuracy": (hit + quiet, [none + 1, none, none, none + 1]),
        "balanced_accuracy": ((recall + rest) / 2, [of_hit / 2, of_alarm / 2, of_miss / 2, of_quiet / 2]),
        "recall": (recall, [of_hit, none, of_miss, none]),
        "precision": (precision, [by_hit, by_alarm, none, none]),
    }
    figures = {}
    for name, (value, parts) in gradients.items():
        g = np.stack(parts, axis=-1)
        error = deviation * np.sqrt(np.maximum(0.0, np.sum(g**2, axis=-1) - np.sum(g, axis=-1) ** 2 / 4))
        figures[name] = np.clip(value, 0.0, 1.0), error
    return figures


def _ratio(part: Floats, other: Floats, deviation: float) -> tuple[Floats, Floats, Floats]:
    """part/(part + other) and its derivatives by the two; NaN where the sum, whose standard error is `deviation`, is not clear of zero."""
    whole = part + other
    safe = np.where(whole > CLEAR * deviation, whole, np.nan)
    return part / safe, other / safe**2, -part / safe**2


def error_figures(shares: Floats, deviation: float, width: float) -> Figures:
    """mean_squared_error (in the target's own units) and r2 from noisy shares [..., 3]; `width` is that of the target's bounds.

    With r, a, b the mean of (residual/width)^2, of u and of u^2: the error is r width^2, and R2 = 1 - 4 r/v with v the variance of u. The
    noise in a makes a^2 too large by its variance, which is taken out: v = b - a^2 + deviation^2. Standard errors by the delta method.

    >>> figures = error_figures(np.array([0.01, 0.0, 0.16]), 0.0, 10.0)
    >>> [round(float(value), 4) for value, _ in figures.values()]
    [1.0, 0.75]
    """
    r, a, b = np.moveaxis(shares, -1, 0)
    r = np.where(r < 0, np.nan, r)  # the noise is larger than the error: to call it 0 would make a perfect model of it
    v = b - a**2 + deviation**2
    safe = np.where(v > CLEAR * deviation * np.sqrt(1 + 4 * a**2), v, np.nan)
    error = deviation * np.sqrt((4 / safe) ** 2 + (4 * r / safe**2) ** 2 * (1 + 4 * a**2))
    return {
        "mean_squared_error": (np.clip(r, 0.0, 1.0) * width**2, np.full_like(r, deviation * width**2)),
        "r2": (np.minimum(1.0, 1 - 4 * r / safe), error),
    }
