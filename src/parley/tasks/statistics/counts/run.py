"""Asking owners for counts, and estimates from the answers, which are post-processing (T section 4.4, its remap). For a
single count, two-sided geometric noise and such a guess are optimal for every prior (Ghosh, Roughgarden and
Sundararajan 2009)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Algorithm, Asker, Progress, State
from parley.learning.deployed import Asked, ask_here
from parley.learning.start import starting_point
from parley.owner.owner import Owner
from parley.privacy.events import Adjacency
from parley.privacy.mechanisms.geometric import WholeGeometric
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.tasks.statistics.counts.question import CountsQuery
from parley.tasks.statistics.counts.terms import cell_names
from parley.terms import Terms
from parley.validate import Floats, Integers


@dataclass(frozen=True)
class Counts(Algorithm):
    """One round: theta becomes the combined shares; the state keeps every owner's own, where visible."""

    names: tuple[str, ...]

    @classmethod
    def make(cls, setup: Setup) -> Self:
        return cls(setup.objective, setup.terms.learning.horizon, None, setup.schedule.names)

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        theta = np.broadcast_to(origin, (*replicates, origin.shape[-1]))
        return State(1, theta, {"own": np.zeros((*replicates, len(self.names), origin.shape[-1]))})

    def query(self, state: State, asker: Asker) -> CountsQuery:
        return CountsQuery.ask(asker.terms_hash, asker.learner, state.round)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        own, place = state.memory["own"].copy(), {name: k for k, name in enumerate(self.names)}
        for answer in answers:
            if answer.owner in place:  # the sum of several owners shows no single one
                own[..., place[answer.owner], :] = answer.value
        return replace(state, round=state.round + 1, theta=combined, memory={"own": own})


Prior = Callable[[Integers], Floats]  # weights of counts
Rule = Literal["likeliest", "median", "mean"]  # the guess that is right most often, nearest, or nearest in squares

LAW_SCALES = 40.0  # scales within which a law is written down: beyond lies less than 10^-16 of it
MAX_ENUMERATED = 2**22  # numbers for which one is


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """The law of whole-number noise: `chances` of -reach to reach."""

    chances: Floats

    @property
    def reach(self) -> int:
        return len(self.chances) // 2

    def half_width(self, probability: float = 0.95) -> int:
        """Return the half-width that holds the noise with this probability."""
        within = self.chances[self.reach] + 2 * np.cumsum(self.chances[self.reach + 1 :])
        return 1 + int(np.searchsorted(within, probability)) if self.chances[self.reach] < probability else 0


def geometric_law(scales: Sequence[float]) -> NoiseLaw | None:
    """Return the law of a sum of independent two-sided geometric numbers of these scales; None if it is too wide to
    tabulate.

    >>> geometric_law([1.0]).chances.sum().round(12)
    np.float64(1.0)
    """
    reach = int(LAW_SCALES * max(scales) + 10 * np.sqrt(2 * np.sum(np.square(scales)))) + 20
    if reach > MAX_ENUMERATED:
        return None
    size = 2 * reach + 1
    q = np.exp(-1 / np.asarray(scales, dtype=np.float64))
    angle = 2 * np.pi * np.arange(size // 2 + 1) / size
    each, how_many = np.unique(q, return_counts=True)
    spectrum = np.ones(len(angle))
    for ratio, count in zip(each.tolist(), how_many.tolist(), strict=True):
        spectrum *= ((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(angle) + ratio**2)) ** count
    return NoiseLaw(np.maximum(np.fft.fftshift(np.fft.irfft(spectrum, size)), 0.0))


def normal_law(deviation: float) -> NoiseLaw | None:
    """Return the law of normal noise rounded to whole numbers; None if it is too wide to tabulate."""
    reach = int(10 * deviation) + 2
    if reach > MAX_ENUMERATED:
        return None
    ends = (np.arange(-reach, reach + 2) - 0.5) / deviation
    return NoiseLaw(np.diff(ndtr(ends)))


def uniform_prior(counts: Integers) -> Floats:
    """Return equal weights for all counts."""
    return np.ones(len(counts))


def require_rate(rate: float | None) -> None:
    """Refuse a rate that is not between 0 and 1; None means no prior belief."""
    if rate is not None and not 0 < rate < 1:
        raise SettingError(f"rate = {rate!r}: expected a number between 0 and 1")


def binomial_prior(records: int, rate: float) -> Prior:
    """Return the prior by which every record is counted with this probability, independently."""
    require_rate(rate)
    return lambda counts: np.asarray(binom.pmf(counts, records, rate))


def remapped(answer: float, records: int, law: NoiseLaw, prior: Prior = uniform_prior, rule: Rule = "median") -> float:
    """Return the best guess of a count from 0 to `records` that was reported as `answer`.

    >>> law = geometric_law([2.0])
    >>> remapped(-3.0, 100, law, rule="likeliest"), remapped(50.0, 100, law)
    (0.0, 50.0)
    """
    seen = round(answer)
    low, high = max(0, seen - law.reach), min(records, seen + law.reach)
    if low > high:
        return float(min(max(seen, 0), records))
    counts = np.arange(low, high + 1)
    weights = law.chances[seen - counts + law.reach] * prior(counts)
    total = weights.sum()
    if not total > 0:  # so far from what was believed that no number is left of it
        return float(min(max(seen, 0), records))
    if rule == "mean":
        return float(counts @ weights / total)
    if rule == "likeliest":
        return float(counts[int(np.argmax(weights))])
    return float(counts[int(np.searchsorted(np.cumsum(weights), total / 2))])


INTERVAL_SHARE = 0.95  # of intervals
INTERVAL_DEVIATIONS = 2.2  # deviations within which so much of a normal or Laplace law lies


@dataclass(frozen=True)
class CellCount:
    """One cell: released noisy count, the same cut to possible values, best guess, and its own 95% interval."""

    cell: str
    noisy: float
    cut: float
    guess: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class CountsResult:
    """The released counts, and their cost."""

    asked: Terms
    records: int
    cells: tuple[CellCount, ...]
    owners: Mapping[str, tuple[float, ...]]  # each owner's own noisy counts; nobody's where one noise protects all
    deviation: float  # of the noise in a cell of all owners together
    medians: bool  # whether guesses are medians; else the noise is too wide to tabulate, and they are the cut counts
    rate: float | None  # what was believed beforehand: which share of the records a cell has; None: every count alike
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked
    released: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley count --json` prints."""
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
    """Ask owners on this machine for the counts of these terms. Owners with durable ledgers release: each must have
    accepted the terms. Owners without take part in a study."""
    require_rate(rate)
    answers = ask_here(terms, owners, lambda setup: (Counts.make(setup), starting_point(setup)), 1, seed, progress)
    return counts_result(answers, rate)


def counts_result(answers: Asked, rate: float | None = None) -> CountsResult:
    """Return the result of one round; `rate` is the prior share of every cell."""
    setup = answers.setup
    names, rows = cell_names(setup.terms.model), np.array([part.records for part in setup.terms.owners])
    records, width = int(rows.sum()), len(names)
    law, deviation = sum_law(setup)
    prior = uniform_prior if rate is None else binomial_prior(records, rate)
    noisy = _round_counts(answers.final.theta.reshape(width) * records)
    own = _round_counts(answers.final.memory["own"].reshape(-1, width) * rows[:, None])
    seen = {} if setup.terms.noise.summed else dict(zip(setup.schedule.names, map(tuple, own.tolist()), strict=True))
    cells = tuple(_cell(name, value, records, law, deviation, prior) for name, value in zip(names, noisy, strict=True))
    return CountsResult(
        setup.terms,
        records,
        cells,
        seen,
        deviation,
        law is not None,
        rate,
        answers.spent,
        answers.released,
        answers.seconds,
    )


def sum_law(setup: Setup) -> tuple[NoiseLaw | None, float]:
    """Return (the law of the noise in a count of all owners, or None if too wide; its deviation)."""
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

    reach = (
        law.half_width(INTERVAL_SHARE) if law is not None and noisy == round(noisy) else INTERVAL_DEVIATIONS * deviation
    )
    guess = cut(noisy) if law is None else remapped(noisy, records, law, prior)
    return CellCount(name, noisy, cut(noisy), guess, cut(noisy - reach), cut(noisy + reach))


def _round_counts(counts: Floats) -> Floats:
    """Round counts that differ from whole numbers only by the division."""
    near = np.rint(counts)
    return np.where(np.abs(counts - near) <= 1e-6, near, counts)
