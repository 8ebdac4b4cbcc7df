"""The score that owners release: how good the finished model is on their held-out rows, from noisy shares, with
standard errors.

Everything here is post-processing of what was released (`losses/score.py`), so it costs nothing more. A standard error
says how far the noise alone may move a figure; that the held-out rows are a sample, and few perhaps, comes on top.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.errors import AbortedRound
from parley.losses.score import scoring
from parley.network.exchange import Exchange
from parley.protocol.aggregation import Aggregation
from parley.protocol.queries import ScoreQuery
from parley.protocol.setup import Setup
from parley.validate import Floats


@dataclass(frozen=True)
class Figure:
    """A released figure and how far the noise alone may have moved it (one standard error)."""

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Score:
    """What one owner (or all, pooled) released: noisy `shares` [replicates, d] with noise of this `deviation` in
    each."""

    name: str
    rows: int  # held out, public; where people are, so many are expected
    shares: Floats
    deviation: float
    # of the first replicate, whose model is the run's; None where the noise drowns it
    figures: dict[str, Figure | None]
    expected: bool = False  # whether `rows` are expected, not counted

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


def ask_scores(setup: Setup, aggregation: Aggregation, exchange: Exchange, theta: Floats) -> Scores | None:
    """Ask every owner how good the finished model theta [..., P] is on its held-out rows; None where no score is agreed
    on."""
    terms = setup.terms
    if terms.privacy.score_epsilon is None:
        return None
    query = ScoreQuery.ask(setup.hash, terms.learning.learner, terms.rounds, theta)
    try:
        answers = exchange.ask(dict.fromkeys(setup.schedule.names, query))
    except AbortedRound:
        return None  # it was paid for and never comes; the model is there all the same
    noise = aggregation.noise(setup, [name for answer in answers for name in answer.owners], stage=1)
    read = scoring(setup.preparation).figures

    def score(name: str, records: int, value: Floats, variance: float) -> Score:
        shares = value.reshape(-1, value.shape[-1])
        first = {key: (float(v[0]), float(e[0])) for key, (v, e) in read(shares, variance**0.5).items()}
        figures = {key: None if np.isnan(pair).any() else Figure(*pair) for key, pair in first.items()}
        return Score(name, records, shares, variance**0.5, figures, terms.model.holdout_by is not None)

    single = answers if all(len(answer.owners) == 1 for answer in answers) else []  # a sum says nothing of its owners
    owners = [score(a.owner, a.records, a.value, float(v)) for a, v in zip(single, noise.variances, strict=False)]
    return Scores(
        tuple(owners), score("all", int(noise.records.sum()), aggregation.pooled(answers), noise.all_together)
    )
