"""Asking owners how many records they have of some kind: what came out, and what it cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.learning.algorithms.algorithm import Progress
from parley.learning.asking import Asked, ask_here
from parley.learning.start import starting_point
from parley.owner.owner import Owner
from parley.privacy.adjacency import Adjacency
from parley.privacy.mechanisms.whole_geometric import WholeGeometric
from parley.protocol.setup import Setup
from parley.tasks.counts.algorithm import Counts
from parley.tasks.counts.readings import (
    NoiseLaw,
    Prior,
    binomial_prior,
    geometric_law,
    normal_law,
    remapped,
    require_rate,
    uniform_prior,
)
from parley.tasks.counts.terms import cell_names
from parley.terms import Terms
from parley.validate import Floats

CENTRAL = 0.95  # of intervals
WIDE = 2.2  # deviations within which so much of a normal or Laplace law lies


@dataclass(frozen=True)
class CellCount:
    """One cell: the noisy count as it was released, that number cut to what is possible, the best guess of it, and the
    ends within which the truth lies in 95 of 100 cases (each cell by itself)."""

    cell: str
    noisy: float
    cut: float
    guess: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class CountsResult:
    """What owners released about their records, and what it cost them."""

    asked: Terms
    records: int
    cells: tuple[CellCount, ...]
    owners: Mapping[str, tuple[float, ...]]  # each owner's own noisy counts; nobody's where one noise protects all
    deviation: float  # of the noise in a cell of all owners together
    rate: float | None  # what was believed beforehand: which share of the records a cell has; None: every count alike
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked
    released: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The object that `parley count --json` prints."""
        return {
            "title": self.asked.title,
            "column": self.asked.model.target,
            "records": self.records,
            "cells": [dict(vars(cell)) for cell in self.cells],
            "owners": {name: list(counts) for name, counts in self.owners.items()},
            "mechanism": self.asked.privacy.mechanism,
            "deviation": self.deviation,
            "rate": self.rate,
            "epsilon": {owner.name: float(self.asked.promised_epsilon(owner.name)) for owner in self.asked.owners},
            "delta": self.asked.privacy.delta,
            "adjacency": Adjacency.REPLACE_ONE,
            "spent": dict(self.spent),
            "released": self.released,
            "terms_hash": self.asked.hash,
            "seconds": self.seconds,
        }


def ask_counts(
    terms: Terms,
    owners: Sequence[Owner],
    rate: float | None = None,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
) -> CountsResult:
    """Ask owners on this machine for the counts of these terms.

    Owners with durable ledgers release: each must have accepted the terms. Owners without take part in a study.
    """
    require_rate(rate)
    asked = ask_here(terms, owners, lambda setup: (Counts.make(setup), starting_point(setup)), 1, seed, progress)
    return counts_result(asked, rate)


def counts_result(asked: Asked, rate: float | None = None) -> CountsResult:
    """What one round came to; `rate`: what is believed of every cell's share beforehand."""
    setup = asked.setup
    names, rows = cell_names(setup.terms.model), np.array([part.records for part in setup.terms.owners])
    records, width = int(rows.sum()), len(names)
    law, deviation = sum_law(setup)
    prior = uniform_prior if rate is None else binomial_prior(records, rate)
    noisy = _whole(asked.final.theta.reshape(width) * records)
    own = _whole(asked.final.memory["own"].reshape(-1, width) * rows[:, None])
    seen = {} if setup.terms.noise.summed else dict(zip(setup.schedule.names, map(tuple, own.tolist()), strict=True))
    cells = tuple(_cell(name, value, records, law, deviation, prior) for name, value in zip(names, noisy, strict=True))
    return CountsResult(setup.terms, records, cells, seen, deviation, rate, asked.spent, asked.released, asked.seconds)


def sum_law(setup: Setup) -> tuple[NoiseLaw | None, float]:
    """(the law of the noise in a count of all owners, None where it is too wide to be written down; its deviation)."""
    noises = [part.training.series.mechanism for part in setup.parts.values()]
    scales = [noise.scale for noise in noises if isinstance(noise, WholeGeometric)]
    deviation = setup.aggregation.noise(setup).all_together ** 0.5 * sum(part.records for part in setup.terms.owners)
    if len(scales) == len(noises):
        return geometric_law(scales), deviation
    if setup.terms.privacy.mechanism == "geometric":  # hosts' noise, of the same kind on a finer grid: read as rounded
        draws = setup.terms.noise.draws
        return geometric_law([deviation / (2 * draws) ** 0.5] * draws), deviation
    return normal_law(deviation), deviation


def _cell(name: str, noisy: float, records: int, law: NoiseLaw | None, deviation: float, prior: Prior) -> CellCount:
    def cut(value: float) -> float:
        return float(min(max(value, 0.0), records))

    reach = law.half_width(CENTRAL) if law is not None and noisy == round(noisy) else WIDE * deviation
    guess = cut(noisy) if law is None else remapped(noisy, records, law, prior)
    return CellCount(name, noisy, cut(noisy), guess, cut(noisy - reach), cut(noisy + reach))


def _whole(counts: Floats) -> Floats:
    """Counts that are whole but for the division by the records, as such."""
    near = np.rint(counts)
    return np.where(np.abs(counts - near) <= 1e-6, near, counts)
