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
