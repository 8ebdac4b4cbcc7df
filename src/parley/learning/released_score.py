"""The score that owners release: how good the finished model is on their held-out rows, from noisy shares, with standard errors.

Everything here is post-processing of what was released (`objectives/score.py`), so it costs nothing more. A standard error says how far the
noise alone may move a figure; that the held-out rows are a sample, and few perhaps, comes on top.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.aggregation import mean_variance, weighted_mean
from parley.data import Preparation
from parley.exchange import Exchange
from parley.objectives.score import target_interval
from parley.owner import score_noise
from parley.queries import ScoreQuery
from parley.terms import Terms
from parley.validate import Floats

CLEAR = 4.0  # standard errors by which a denominator must stand clear of zero: below, a ratio says nothing

Figures = dict[str, tuple[Floats, Floats]]  # (values, standard errors) [...] of noisy shares [..., d]; NaN where meaningless


@dataclass(frozen=True)
class Figure:
    """A released figure and how far the noise alone may have moved it (one standard error)."""

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Score:
    """What one owner (or all, pooled) released: noisy `shares` [replicates, d] with noise of this `deviation` in each."""

    name: str
    rows: int  # held out, public
    shares: Floats
    deviation: float
    figures: dict[str, Figure | None]  # of the first replicate, whose model is the run's; None where the noise drowns it

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rows": self.rows,
            "figures": {name: None if figure is None else vars(figure) for name, figure in self.figures.items()},
        }


@dataclass(frozen=True, eq=False)
class Scores:
    """Every owner's score that came, in the order of the terms, and their mean weighted by held-out rows."""

    owners: tuple[Score, ...]
    pooled: Score

    def to_json(self) -> dict[str, Any]:
        """The object under `scores` in `parley train --json`."""
        return {"owners": [score.to_json() for score in self.owners], "pooled": self.pooled.to_json()}


def ask_scores(terms: Terms, terms_hash: str, preparation: Preparation, exchange: Exchange, theta: Floats) -> Scores | None:
    """Ask every owner how good the finished model theta [..., p] is on its held-out rows; None where no score is agreed on."""
    if terms.privacy.score_epsilon is None:
        return None
    answers = exchange.ask(ScoreQuery.ask(terms_hash, terms.learning.learner, terms.rounds, theta))
    noises = [score_noise(terms, a.owner, preparation) for a in answers]
    variances = np.array([noise.variance for noise in noises if noise is not None])
    rows = np.array([float(a.records) for a in answers])
    read = reader(preparation)

    def score(name: str, records: int, value: Floats, variance: float) -> Score:
        shares = value.reshape(-1, value.shape[-1])
        first = {key: (float(v[0]), float(e[0])) for key, (v, e) in read(shares, variance**0.5).items()}
        figures = {key: None if np.isnan(pair).any() else Figure(*pair) for key, pair in first.items()}
        return Score(name, records, shares, variance**0.5, figures)

    owners = [score(a.owner, a.records, a.value, float(v)) for a, v in zip(answers, variances, strict=True)]
    return Scores(tuple(owners), score("all", int(rows.sum()), weighted_mean(answers), mean_variance(rows, variances)))


def reader(preparation: Preparation) -> Callable[[Floats, float], Figures]:
    """What reads a model's figures from its noisy shares."""
    if preparation.model.classifies:
        return classification_figures
    low, high = target_interval(preparation)
    width = (high - low) * preparation.target_scale
    return lambda shares, deviation: regression_figures(shares, deviation, width)


def classification_figures(shares: Floats, deviation: float) -> Figures:
    """accuracy, balanced_accuracy, recall and precision from noisy shares [..., 4] of the confusion matrix.

    The four shares add up to 1, which everybody knows. So the noise in their sum is taken out first: an equal part of it from each, after
    which a figure with gradient g has the variance deviation^2 (|g|^2 - (sum g)^2/4) (the delta method). Accuracy gets half the
    variance that it would have.

    >>> figures = classification_figures(np.array([0.3, 0.1, 0.2, 0.4]), 0.01)
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


def regression_figures(shares: Floats, deviation: float, width: float) -> Figures:
    """mean_squared_error (in the target's own units) and r2 from noisy shares [..., 3]; `width` is that of the target's bounds.

    With r, a, b the mean of (residual/width)^2, of u and of u^2: the error is r width^2, and R2 = 1 - 4 r/v with v the variance of u. The
    noise in a makes a^2 too large by its variance, which is taken out: v = b - a^2 + deviation^2. Standard errors by the delta method.

    >>> figures = regression_figures(np.array([0.01, 0.0, 0.16]), 0.0, 10.0)
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
