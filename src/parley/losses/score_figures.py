"""What noisy scores say: figures with standard errors. All of it is post-processing of a release (`score`), so it costs
nothing more."""

from collections.abc import Callable

import numpy as np

from parley.validate import Floats

CLEAR = 4.0  # standard errors by which a denominator must stand clear of zero: below, a ratio says nothing

# (values, standard errors) [...] of noisy shares [..., d]; NaN where meaningless
Figures = dict[str, tuple[Floats, Floats]]


def hit_figures(shares: Floats, deviation: float, public: bool = True) -> Figures:
    """accuracy and balanced_accuracy from noisy shares [..., 2 C]: rows of each class told rightly, then those told
    wrongly.

    As for two classes, the noise in the sum of the shares is taken out first (`_cells`); `public`: whether the number
    of rows is.

    >>> figures = hit_figures(np.array([0.4, 0.3, 0.1, 0.2]), 0.01)
    >>> [round(float(value), 4) for value, _ in figures.values()]
    [0.7, 0.7]
    """
    cells = shares.shape[-1]
    known, each, spread = _cells(shares, deviation, public)
    right, wrong = known[..., : cells // 2], known[..., cells // 2 :]
    recall, of_right, of_wrong = _ratio(right, wrong, each)
    gradient = np.concatenate([of_right, of_wrong], axis=-1) / (cells // 2)
    ones = np.concatenate([np.ones_like(right), np.zeros_like(wrong)], axis=-1)
    figures = {}
    for name, value, g in (
        ("accuracy", right.sum(axis=-1), ones),
        ("balanced_accuracy", recall.mean(axis=-1), gradient),
    ):
        figures[name] = np.clip(value, 0.0, 1.0), spread(g)
    return figures


def two_class_figures(shares: Floats, deviation: float, public: bool = True) -> Figures:
    """accuracy, balanced_accuracy, recall and precision from noisy shares [..., 4] of the confusion matrix.

    The noise in their sum is taken out first (`_cells`): accuracy gets half the variance that it would have.

    >>> figures = two_class_figures(np.array([0.3, 0.1, 0.2, 0.4]), 0.01)
    >>> [round(float(value), 4) for value, _ in figures.values()]
    [0.7, 0.7, 0.6, 0.75]
    """
    known, each, spread = _cells(shares, deviation, public)
    hit, alarm, miss, quiet = np.moveaxis(known, -1, 0)
    none = np.zeros_like(hit)
    recall, of_hit, of_miss = _ratio(hit, miss, each[..., 0])
    rest, of_quiet, of_alarm = _ratio(quiet, alarm, each[..., 0])
    precision, by_hit, by_alarm = _ratio(hit, alarm, each[..., 0])
    gradients = {
        "accuracy": (hit + quiet, [none + 1, none, none, none + 1]),
        "balanced_accuracy": ((recall + rest) / 2, [of_hit / 2, of_alarm / 2, of_miss / 2, of_quiet / 2]),
        "recall": (recall, [of_hit, none, of_miss, none]),
        "precision": (precision, [by_hit, by_alarm, none, none]),
    }
    figures = {}
    for name, (value, parts) in gradients.items():
        g = np.stack(parts, axis=-1)
        figures[name] = np.clip(value, 0.0, 1.0), spread(g)
    return figures


def _cells(shares: Floats, deviation: float, public: bool = True) -> tuple[Floats, Floats, Callable[[Floats], Floats]]:
    """(shares of the rows with a target [..., C], the deviation of each [..., 1], a figure's standard error by its
    gradient [..., C]).

    Where every row has a target the shares add up to 1, and the noise in their sum is taken out: an equal part of it
    from each, after which a figure with gradient g has the variance deviation^2 (|g|^2 - (sum g)^2/C). A sum so far
    below 1 that noise does not explain it says that some rows have none: then shares are those of the sum, and the
    variance is deviation^2 |g - g.shares|^2/sum^2 (the delta method). So it is always where the number of rows is not
    public; NaN where the sum is not clear of zero.

    >>> [share.tolist() for share in _cells(np.array([[0.5, 0.5], [0.25, 0.25]]), 0.001)[0]]
    [[0.5, 0.5], [0.5, 0.5]]
    """
    count, total = shares.shape[-1], shares.sum(axis=-1, keepdims=True)
    clear = total > CLEAR * deviation * np.sqrt(count)
    fewer = (1 - total > CLEAR * deviation * np.sqrt(count)) & clear
    if not public:
        fewer, total = np.ones_like(clear), np.where(clear, total, np.nan)
    known = np.where(fewer, shares / np.where(fewer, total, 1.0), shares - (total - 1) / count)

    def spread(g: Floats) -> Floats:
        whole = np.sum(g**2, axis=-1) - np.sum(g, axis=-1) ** 2 / count
        part = np.sum(((g - np.sum(g * known, axis=-1, keepdims=True)) / np.where(fewer, total, 1.0)) ** 2, axis=-1)
        return np.asarray(deviation * np.sqrt(np.maximum(0.0, np.where(fewer[..., 0], part, whole))))

    return known, np.where(fewer, deviation / np.where(fewer, total, 1.0), deviation), spread


def _ratio(part: Floats, other: Floats, deviation: Floats) -> tuple[Floats, Floats, Floats]:
    """part/(part + other) and its derivatives by the two; NaN where the sum, whose standard error is `deviation`, is
    not clear of zero."""
    whole = part + other
    safe = np.where(whole > CLEAR * deviation, whole, np.nan)
    return part / safe, other / safe**2, -part / safe**2


def error_figures(shares: Floats, deviation: float, width: float) -> Figures:
    """mean_squared_error (in the target's own units) and r2 from noisy shares [..., 3]; `width` is that of the target's
    bounds. With a fourth, a quarter of the number of rows, the others are sums over them.

    With r, a, b the mean of (residual/width)^2, of u and of u^2: the error is r width^2, and R2 = 1 - 4 r/v with v the
    variance of u. The noise in a makes a^2 too large by its variance, which is taken out: v = b - a^2 + deviation^2.
    Standard errors by the delta method. Of sums over c rows, c with four times the deviation: the error is r/c width^2,
    and v = b - (a^2 - deviation^2)/c; NaN where c is not clear of zero.

    >>> figures = error_figures(np.array([0.01, 0.0, 0.16]), 0.0, 10.0)
    >>> [round(float(value), 4) for value, _ in figures.values()]
    [1.0, 0.75]
    """
    r, a, b = np.moveaxis(shares[..., :3], -1, 0)
    c, loud = (np.ones_like(r), 0.0) if shares.shape[-1] == 3 else (4 * shares[..., 3], 4.0)
    c = np.where(c > CLEAR * loud * deviation, c, np.nan)
    r = np.where(r < 0, np.nan, r)  # the noise is larger than the error: to call it 0 would make a perfect model of it
    v, mean = b - a**2 / c + deviation**2 / c, a / c
    spread = 1 + 4 * mean**2 + loud**2 * mean**4
    safe = np.where(v > CLEAR * deviation * np.sqrt(spread), v, np.nan)
    error = deviation * np.sqrt((4 / safe) ** 2 + (4 * r / safe**2) ** 2 * spread)
    off = deviation * width**2 * np.sqrt(1 + loud**2 * (r / c) ** 2) / c
    return {
        "mean_squared_error": (np.clip(r / c, 0.0, 1.0) * width**2, off),
        "r2": (np.minimum(1.0, 1 - 4 * r / safe), error),
    }
