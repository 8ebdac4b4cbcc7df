"""How good a model is on held-out rows, as a few means of known sensitivity: what an owner may release of it, once.

Classifiers: the four cells of the confusion matrix as shares of the rows. Regression: the mean squared residual, and mean and mean
square of the target, from which R2 follows. The target and the prediction are first mapped to [-1, 1] by the target's public bounds
(predictions beyond them are brought back, which never makes an error larger), so that one row counts for little whatever it holds.
"""

import numpy as np

from parley.data import Design, Preparation
from parley.errors import TermsError
from parley.mechanisms import Bounded, Extent
from parley.terms import Model
from parley.validate import Floats

CONFUSION = ("true positive", "false positive", "false negative", "true negative")
ERRORS = ("squared residual/range", "target", "squared target")  # the target u in [-1, 1]
REACH = 13 / 4  # how far one row moves the sums of `ERRORS` in L1


def score_size(model: Model) -> int:
    """How many numbers a score has."""
    return len(CONFUSION if model.classifies else ERRORS)


def score_sensitivity(model: Model, records: int, slack: float, records_per_person: int = 1) -> float:
    """How far one person can move the computed score of `records` held-out rows, in L1.

    Formal guarantee (classifiers): a row is in one cell, so replacing k rows moves at most 2 k/m of the shares.

    Formal guarantee (regression): a row adds (r, u, u^2) with r = ((p - u)/2)^2, u and p in [-1, 1]. Replace it by one with u', r'. Let
    |u| be the larger of |u| and |u'|, and u >= 0 (else negate both: nothing changes). Both residuals lie between 0 and ((1 + u)/2)^2, so
    they differ by at most that, and |u - u'| + |u^2 - u'^2| = (u - u')(1 + u + u') is largest at u' = -1/2, where it is (u + 1/2)^2 (for
    u < 1/2, at u' = -u, where it is 2 u <= 1). The sum grows with u: at most 1 + 9/4 = 13/4, reached at u = 1, p = -1, u' = p' = -1/2.
    So replacing k rows moves the means by at most 13 k/(4 m).

    Rounding: each of the two computed scores is off by at most `slack` times the sum of the absolute values, at most 1 or 3 (every row's
    three numbers are at most 1), which adds 2 or 6 slack.

    >>> score_sensitivity(Model(kind="linear-svm", target="y"), 200, slack=0.0)
    0.01
    """
    if model.classifies:
        return 2 * (records_per_person / records + slack)
    return REACH * records_per_person / records + 2 * len(ERRORS) * slack


def score_extent(model: Model, slack: float) -> Extent:
    """Where the computed score of any rows lies: shares that add up to 1, or means of numbers from 0 (the target: -1) to 1."""
    if model.classifies:
        return Extent(0.0, 1 + slack, 1 + slack, "l1")
    return Extent(np.array([0.0, -1 - slack, 0.0]), 1 + slack, len(ERRORS) * (1 + slack), "l1")


def target_interval(preparation: Preparation) -> tuple[float, float]:
    """The target's public bounds as prepared; refused where there are none."""
    low, high = preparation.target_interval
    if not (np.isfinite(preparation.target_bounds).all() and low < high):
        column = preparation.model.target
        raise TermsError(
            f"privacy.score_epsilon: expected public bounds of the target, model.bounds.{column} with low < high: without them one row "
            "could move a score at will"
        )
    return low, high


def bounded_score(preparation: Preparation, held_out: Design, theta: Floats, records_per_person: int = 1) -> Bounded:
    """The score of every parameter [..., p] on the held-out rows, with its sensitivity.

    Formal guarantee: see `score_sensitivity`; it holds for any theta.

    >>> from parley.data import fit_preparation
    >>> from parley.terms import Terms
    >>> preparation = fit_preparation(Terms.from_dict({
    ...     "model": {"kind": "linear-svm", "target": "y", "features": ["x"], "intercept": False, "holdout": 0.5}, "privacy": {"clip": 1.0},
    ...     "owners": [{"name": "a", "records": 8, "epsilon": 1.0}]}))[0]
    >>> rows = Design(np.array([[1.0], [1.0], [1.0], [-1.0]]), np.array([1.0, 1.0, -1.0, -1.0]), np.ones(4))
    >>> bounded_score(preparation, rows, np.array([2.0])).value
    array([0.5 , 0.25, 0.  , 0.25])
    """
    flat = np.ascontiguousarray(theta).reshape(-1, held_out.width)
    if preparation.model.classifies:
        total = held_out.sum(lambda block: _cells(block, flat))
    else:
        low, high = target_interval(preparation)
        total = held_out.sum(lambda block: _errors(block, flat, low, high))
    value = (total / len(held_out)).reshape(*theta.shape[:-1], total.shape[-1])
    sensitivity = score_sensitivity(preparation.model, len(held_out), held_out.summation_slack, records_per_person)
    return Bounded(value, sensitivity, "l1")


def _cells(block: Design, flat: Floats) -> Floats:
    """How many rows are in each cell of `CONFUSION` [R, 4]."""
    says, is_one = flat @ block.X.T > 0, block.y > 0
    hits, alarms, ones = np.count_nonzero(says & is_one, axis=1), np.count_nonzero(says, axis=1), np.count_nonzero(is_one)
    cells = np.stack([hits, alarms - hits, ones - hits, len(block) - ones - alarms + hits], axis=-1)
    return cells.astype(np.float64)


def _errors(block: Design, flat: Floats, low: float, high: float) -> Floats:
    """The sums of `ERRORS` over the rows [R, 3]."""

    def unit(values: Floats) -> Floats:
        # Clipped before, so that nothing overflows, and after, so that rounding lifts nothing above 1.
        return np.clip((2 * np.clip(values, low, high) - (low + high)) / (high - low), -1.0, 1.0)

    u = unit(block.y)
    residual = (unit(flat @ block.X.T) - u) / 2
    squared = np.einsum("ri,ri->r", residual, residual)
    return np.stack([squared, np.full_like(squared, u.sum()), np.full_like(squared, u @ u)], axis=-1)
