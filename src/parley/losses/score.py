"""Scores of a model on held-out rows: a few means of known sensitivity, which an owner may release once. m counts all
held-out rows, so the error of a number is too small by the share of rows without a target. Where people are held out,
the number of rows that count is private: sums are divided by the m that the terms expect, and released with it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.errors import TermsError
from parley.losses.loss import Poisson
from parley.losses.objective import EmpiricalRisk
from parley.privacy.mechanisms import Extent
from parley.validate import Floats

CLEAR_STANDARD_ERRORS = (
    4.0  # standard errors by which a denominator must stand clear of zero: below, a ratio says nothing
)

# (values, standard errors) [...] of noisy shares [..., d]; NaN where meaningless
Figures = dict[str, tuple[Floats, Floats]]


def hit_figures(shares: Floats, deviation: float, public: bool = True) -> Figures:
    """Return accuracy and balanced_accuracy from noisy shares [..., 2 C]: rows of each class predicted right, then
    wrong. The noise in the sum of the shares is removed first (`_cells`). `public`: whether the number of rows is.

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
    """Return accuracy, balanced_accuracy, recall and precision from noisy shares [..., 4] of the confusion matrix. The
    noise in their sum is removed first (`_cells`), which halves the variance of accuracy.

    >>> figures = two_class_figures(np.array([0.3, 0.1, 0.2, 0.4]), 0.01)
    >>> [round(float(value), 4) for value, _ in figures.values()]
    [0.7, 0.7, 0.6, 0.75]
    """
    known, each, spread = _cells(shares, deviation, public)
    hit, alarm, miss, quiet = np.moveaxis(known, -1, 0)
    none = np.zeros_like(hit)
    recall, of_hit, of_miss = _ratio(hit, miss, each[..., 0])
    specificity, of_quiet, of_alarm = _ratio(quiet, alarm, each[..., 0])
    precision, by_hit, by_alarm = _ratio(hit, alarm, each[..., 0])
    gradients = {
        "accuracy": (hit + quiet, [none + 1, none, none, none + 1]),
        "balanced_accuracy": ((recall + specificity) / 2, [of_hit / 2, of_alarm / 2, of_miss / 2, of_quiet / 2]),
        "recall": (recall, [of_hit, none, of_miss, none]),
        "precision": (precision, [by_hit, by_alarm, none, none]),
    }
    figures = {}
    for name, (value, parts) in gradients.items():
        g = np.stack(parts, axis=-1)
        figures[name] = np.clip(value, 0.0, 1.0), spread(g)
    return figures


def _cells(shares: Floats, deviation: float, public: bool = True) -> tuple[Floats, Floats, Callable[[Floats], Floats]]:
    """Return (shares of rows with a target [..., C], their deviation [..., 1], a figure's standard error by its
    gradient).

    If all rows have a target, shares add up to 1, and an equal part of the noise in their sum is removed from each. A
    figure with gradient g then has the variance deviation^2 (|g|^2 - (sum g)^2/C). If the sum is below 1 by more than
    noise explains, or the number of rows is private, shares are divided by the sum: the variance is deviation^2 |g -
    g.shares|^2/sum^2 (delta method), NaN if a private sum is not clear of zero.

    >>> [share.tolist() for share in _cells(np.array([[0.5, 0.5], [0.25, 0.25]]), 0.001)[0]]
    [[0.5, 0.5], [0.5, 0.5]]
    """
    count, total = shares.shape[-1], shares.sum(axis=-1, keepdims=True)
    clear = total > CLEAR_STANDARD_ERRORS * deviation * np.sqrt(count)
    is_scaled = (1 - total > CLEAR_STANDARD_ERRORS * deviation * np.sqrt(count)) & clear
    if not public:
        is_scaled, total = np.ones_like(clear), np.where(clear, total, np.nan)
    known = np.where(is_scaled, shares / np.where(is_scaled, total, 1.0), shares - (total - 1) / count)

    def spread(g: Floats) -> Floats:
        whole = np.sum(g**2, axis=-1) - np.sum(g, axis=-1) ** 2 / count
        part = np.sum(((g - np.sum(g * known, axis=-1, keepdims=True)) / np.where(is_scaled, total, 1.0)) ** 2, axis=-1)
        return np.asarray(deviation * np.sqrt(np.maximum(0.0, np.where(is_scaled[..., 0], part, whole))))

    return known, np.where(is_scaled, deviation / np.where(is_scaled, total, 1.0), deviation), spread


def _ratio(part: Floats, other: Floats, deviation: Floats) -> tuple[Floats, Floats, Floats]:
    """Return part/(part + other) and both derivatives; NaN if the sum, of standard error `deviation`, is near zero."""
    whole = part + other
    safe = np.where(whole > CLEAR_STANDARD_ERRORS * deviation, whole, np.nan)
    return part / safe, other / safe**2, -part / safe**2


def error_figures(shares: Floats, deviation: float, width: float) -> Figures:
    """Return mean_squared_error (in the target's units) and r2 from noisy shares [..., 3]; `width` is of the target's
    bounds.

    Let r, a, b be the means of (residual/width)^2, u and u^2. The error is r width^2, and R2 = 1 - 4 r/v with v = b -
    a^2 + deviation^2, since noise makes a^2 too large by its variance. Standard errors use the delta method. A fourth
    share is a quarter of the number of rows; the others are then sums over c rows, c with four times the deviation. The
    error is r/c width^2, and v = b - (a^2 - deviation^2)/c; NaN if c is not clear of zero.

    >>> figures = error_figures(np.array([0.01, 0.0, 0.16]), 0.0, 10.0)
    >>> [round(float(value), 4) for value, _ in figures.values()]
    [1.0, 0.75]
    """
    r, a, b = np.moveaxis(shares[..., :3], -1, 0)
    c, count_deviations = (np.ones_like(r), 0.0) if shares.shape[-1] == 3 else (4 * shares[..., 3], 4.0)
    c = np.where(c > CLEAR_STANDARD_ERRORS * count_deviations * deviation, c, np.nan)
    r = np.where(r < 0, np.nan, r)  # the noise is larger than the error: to call it 0 would make a perfect model of it
    v, mean = b - a**2 / c + deviation**2 / c, a / c
    spread = 1 + 4 * mean**2 + count_deviations**2 * mean**4
    safe = np.where(v > CLEAR_STANDARD_ERRORS * deviation * np.sqrt(spread), v, np.nan)
    error = deviation * np.sqrt((4 / safe) ** 2 + (4 * r / safe**2) ** 2 * spread)
    error_deviation = deviation * width**2 * np.sqrt(1 + count_deviations**2 * (r / c) ** 2) / c
    return {
        "mean_squared_error": (np.clip(r / c, 0.0, 1.0) * width**2, error_deviation),
        "r2": (np.minimum(1.0, 1 - 4 * r / safe), error),
    }


ROW_COUNT_WEIGHT = 1 / 4  # by what the number of rows is multiplied where it is released beside sums over them
NUMBER_SENSITIVITY = 13 / 4  # how far one row moves the sums of squared residual, target and squared target in L1


class Scoring(ABC):
    """The score of one kind of task."""

    size: int  # how many numbers a score has

    @abstractmethod
    def sums(self, block: Design, scores: Floats) -> Floats:
        """Return what a block's rows add to the score [R, size], given the model's scores [R, n(, classes)]."""

    @abstractmethod
    def figures(self, shares: Floats, deviation: float) -> Figures:
        """Return values and standard errors from noisy shares [..., size]."""

    def sensitivity(self, records: int, slack: float, records_per_person: int = 1) -> float:
        """Return how far one person can move the computed score of `records` held-out rows, in L1.

        Formal guarantee: a row is in at most one cell, so replacing k of m rows moves the shares by at most 2 k/m.
        Rounding: each of the two computed scores is off by at most `slack` times the sum of the absolute values, which
        is at most 1.
        """
        return 2 * (records_per_person / records + slack)

    def extent(self, slack: float, most: float = 1.0) -> Extent:
        """Return where the computed score lies: shares that add up to at most `most`, the rows over the divisor of
        sums."""
        return Extent(0.0, most + slack, most + slack, "l1")

    def mean(self, objective: EmpiricalRisk, held_out: Summable, theta: Floats) -> Floats:
        """Return the score of every parameter [..., P] on the held-out rows [..., size]."""
        flat = np.ascontiguousarray(theta).reshape(-1, theta.shape[-1])
        total = held_out.sum(lambda block: self.sums(block, objective.scores(block.X, flat)))
        return np.asarray((total / held_out.divisor).reshape(*theta.shape[:-1], self.size))


@dataclass(frozen=True)
class TwoClassScoring(Scoring):
    """True and false positives, false and true negatives. `public`: whether the number of rows is.

    >>> rows = Design(np.array([[1.0], [1.0], [1.0], [-1.0]]), np.array([1.0, 1.0, -1.0, -1.0]), np.ones(4))
    >>> TwoClassScoring().sums(rows, 2 * rows.X.T) / 4
    array([[0.5 , 0.25, 0.  , 0.25]])
    """

    public: bool = True
    size = 4

    def sums(self, block: Design, scores: Floats) -> Floats:
        predicted_one, is_one = (scores > 0) & block.present, (block.y > 0) & block.present
        hits, alarms, ones = (
            np.count_nonzero(predicted_one & is_one, axis=1),
            np.count_nonzero(predicted_one, axis=1),
            np.count_nonzero(is_one),
        )
        rows = len(block) - block.untargeted
        cells = np.stack([hits, alarms - hits, ones - hits, rows - ones - alarms + hits], axis=-1)
        return cells.astype(np.float64)

    def figures(self, shares: Floats, deviation: float) -> Figures:
        return two_class_figures(shares, deviation, self.public)


@dataclass(frozen=True)
class ClassesScoring(Scoring):
    """The rows of each class predicted right, then those predicted wrong.

    >>> rows = Design(np.eye(3), np.array([0.0, 1.0, 1.0]), np.ones(3))
    >>> ClassesScoring(3).sums(rows, rows.X[None])
    array([[1., 1., 0., 0., 1., 0.]])
    """

    classes: int
    public: bool = True

    @property
    def size(self) -> int:  # type: ignore[override]
        return 2 * self.classes

    def sums(self, block: Design, scores: Floats) -> Floats:
        right = scores.argmax(axis=-1) == block.y
        member = (np.arange(self.classes)[:, None] == block.y) & block.present
        hits = (right[:, None, :] & member).sum(axis=-1)
        return np.concatenate([hits, member.sum(axis=-1) - hits], axis=-1).astype(np.float64)

    def figures(self, shares: Floats, deviation: float) -> Figures:
        return hit_figures(shares, deviation, self.public)


@dataclass(frozen=True)
class NumberScoring(Scoring):
    """(residual/range)^2, u and u^2 of targets u in [-1, 1], and if it is not `public` the number of rows times
    `ROW_COUNT_WEIGHT`. `low` and `high` are the target's bounds as prepared, `unit` its scale. Clipping predictions to
    them enlarges no error."""

    low: float
    high: float
    unit: float
    public: bool = True

    @property
    def size(self) -> int:  # type: ignore[override]
        return 3 if self.public else 4

    def sums(self, block: Design, scores: Floats) -> Floats:
        u = np.where(block.present, self._within(block.y), 0.0)
        residual = np.where(block.present, (self._within(scores) - u) / 2, 0.0)
        squared = np.einsum("ri,ri->r", residual, residual)
        alike = [u.sum(), u @ u, *([] if self.public else [ROW_COUNT_WEIGHT * np.count_nonzero(block.present)])]
        return np.stack([squared, *(np.full_like(squared, each) for each in alike)], axis=-1)

    def sensitivity(self, records: int, slack: float, records_per_person: int = 1) -> float:
        """Return how far one person can move the computed score of `records` held-out rows, in L1.

        Formal guarantee: replacing k rows moves the means by at most 13 k/(4 m). Rounding: as for shares, of `size`
        numbers of at most 1 a row. A row adds (r, u, u^2) with r = ((p - u)/2)^2, u and p in [-1, 1]. Replace it by one
        with u', r', and let |u| >= |u'| (else swap them), u >= 0 (else negate both). Both residuals lie between 0 and
        ((1 + u)/2)^2, so they differ by at most that. |u - u'| + |u^2 - u'^2| = (u - u')(1 + u + u') is largest at u' =
        -1/2, where it is (u + 1/2)^2 (for u < 1/2, at u' = -u, where it is 2 u <= 1). The sum grows with u: at most 1 +
        9/4 = 13/4, reached at u = 1, p = -1, u' = p' = -1/2. A row without a target adds (0, 0, 0), at most 3 away.
        With the number of rows, two rows that count add the same 1/4 to it, and (r, u, u^2, 1/4) is at most 3 + 1/4 =
        13/4 away from a row that does not count (without a target, or about somebody trained on).
        """
        return NUMBER_SENSITIVITY * records_per_person / records + 2 * self.size * slack

    def extent(self, slack: float, most: float = 1.0) -> Extent:
        """Return where the computed score lies: means of numbers from 0 (the target: -1) to 1."""
        low = np.zeros(self.size)
        low[1] = -most - slack
        return Extent(low, most + slack, self.size * (most + slack), "l1")

    def figures(self, shares: Floats, deviation: float) -> Figures:
        return error_figures(shares, deviation, (self.high - self.low) * self.unit)

    def _within(self, values: Floats) -> Floats:
        # Clipped before, so that nothing overflows, and after, so that rounding lifts nothing above 1.
        low, high = self.low, self.high
        return np.clip((2 * np.clip(values, low, high) - (low + high)) / (high - low), -1.0, 1.0)


@dataclass(frozen=True)
class CountScoring(NumberScoring):
    """The same for counts and expected counts: rates times the weights of their exposures (`data.targets`)."""

    loss: Poisson = field(kw_only=True)

    def sums(self, block: Design, scores: Floats) -> Floats:
        expected = self.loss.rate(np.array(scores)) * block.weight
        return super().sums(replace(block, y=block.y * block.weight), expected)


def scoring(preparation: Preparation) -> Scoring:
    """Return how models of these terms are scored; refuse a target without public bounds."""
    public = preparation.model.holdout_by is None
    if preparation.model.predicts == "count":
        return CountScoring(*preparation.target_bounds, 1.0, public, loss=Poisson.within(preparation))
    if preparation.model.predicts == "two classes":
        return TwoClassScoring(public)
    if preparation.model.predicts == "classes":
        return ClassesScoring(len(preparation.classes), public)
    low, high = preparation.target_interval
    if not (np.isfinite(preparation.target_bounds).all() and low < high):
        column = preparation.model.target
        raise TermsError(
            f"privacy.score_epsilon: expected public bounds of the target (model.bounds.{column}, low < high). Without "
            "bounds, one row could change a score arbitrarily"
        )
    return NumberScoring(low, high, preparation.target_scale, public)
