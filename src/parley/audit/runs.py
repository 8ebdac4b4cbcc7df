"""Attacks on whole runs, with the terms' algorithm, noise and bookkeeping, on two tables that differ in one person."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from parley.audit.attacker import Attacker, Overheard, Rates, RunTables, epsilon_by_size, with_one_other_owner
from parley.audit.canary import require_audited_owner
from parley.audit.distinguishing import best_guess, check_confidence, proved_by_guesses, trade_off
from parley.learning.algorithms.algorithm import Algorithm, Asker, Progress
from parley.learning.algorithms.asynchronous import on_virtual_clock, run_by_terms
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.start import starting_point
from parley.network.exchange import InProcess
from parley.network.exchange.in_process import SimulatedSum
from parley.owner.owner import Owner
from parley.privacy.events import Adjacency
from parley.protocol.queries import ScoreQuery
from parley.protocol.setup import Setup
from parley.terms import Terms
from parley.validate import Floats, upper, whole


@dataclass(frozen=True)
class Verdict:
    """What one owner promises a person, and what an attacker who sees all answers was shown to learn at least."""

    owner: str
    claimed_epsilon: float  # of its training answers, all together
    delta: float
    adjacency: Adjacency
    lower_bound: float  # proved at `confidence`; infinite where noise repeats
    confidence: float
    runs: int  # by either table, on average; those beside that chose how to guess
    noise_repeats: bool  # whether two runs had the same noise, which then hides nobody
    like: str  # the owner whose runs were looked at: one with the same promise, maybe itself
    # (false alarms, misses) of the attack
    curve: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    by_noise: float = 0.0  # the epsilon of noise so small that what was seen is possible (`attacker`)
    records: int = 0  # of the tables

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim. It proves nothing beyond that."""
        return max(self.lower_bound, self.by_noise) <= self.claimed_epsilon

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley audit --json` prints for an owner."""
        return {
            "name": self.owner,
            "claimed_epsilon": self.claimed_epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "lower_bound": self.lower_bound if math.isfinite(self.lower_bound) else None,
            "by_noise": self.by_noise,
            "confidence": self.confidence,
            "runs": self.runs,
            "records": self.records,
            "noise_repeats": self.noise_repeats,
            "holds": self.holds,
            "like": self.like,
        }


NUMBERS_AT_ONCE = 2**18  # of answers that are drawn at once
LEAST_RUNS, MAX_RUNS = 100, 100_000  # runs by either table
USUAL_SECONDS = 60.0  # that all runs about one owner take, where nobody says how many
STATISTIC_DECIMALS = 9  # of a statistic that count


@dataclass(frozen=True, eq=False)
class RunAudit:
    """One owner's answers in runs on either of two tables."""

    setup: Setup
    algorithm: Algorithm
    attacker: Attacker
    sides: tuple[Mapping[str, Owner], Mapping[str, Owner]]  # everybody, where the audited owner has table a or b
    stage: int = 0  # of what is asked: training, or the score

    @classmethod
    def make(cls, terms: Terms, name: str, stage: int = 0) -> "RunAudit":
        """Audit this owner on the pair of tables that is found for it."""
        found = RunTables.find(terms, name, stage)
        setup, names = found.setup, [part.name for part in terms.owners]
        sides = [{each: found.others.get(each, owner) for each in names} for owner in found.own]
        a, b = (owner.prepare(setup).tables for owner in found.own)
        other_tables = {other: owner.prepare(setup).tables for other, owner in found.others.items()}
        attacker = Attacker(setup, name, a, b, other_tables, stage)
        return cls(setup, make_algorithm(setup), attacker, (sides[0], sides[1]), stage)

    def statistics(self, side: int, runs: int, seed: np.random.SeedSequence, done: Callable[[int], None]) -> Floats:
        """Return how much all answers speak for table b, in `runs` runs on one of the tables [runs]. It is rounded:
        studies draw fast noise, whose last digits reveal what it was added to (`mechanisms.noise`). Owners never
        release it."""
        return np.concatenate(
            [
                np.round(overheard.statistic, STATISTIC_DECIMALS)
                for overheard in self._overhear_runs(side, runs, seed, done)
            ]
        )

    def directed(self, runs: int, seed: np.random.SeedSequence) -> "RunAudit":
        """Return the audit with an attacker that knows the mean difference of answers, if it needs that."""
        if not self.attacker.guesses:
            return self
        means, queries = [], []
        for side, own in enumerate(seed.spawn(2)):
            overheard = list(self._overhear_runs(side, runs, own, lambda count: None))
            means.append(
                {number: np.mean([each.means[number] for each in overheard], axis=0) for number in overheard[0].means}
            )
            queries.append(overheard[0].asked)
        return replace(self, attacker=self.attacker.directed(means[0], means[1], queries[0]))

    def repeats(self, seed: np.random.SeedSequence) -> bool:
        """Return whether noise repeats: in another run, a neighbour in the study, or the first or previous round."""
        many = LEAST_RUNS if self.algorithm.parallel else 1
        one, two = (self._run(0, many, each, keeps=True).noises for each in seed.spawn(2))
        if _noise_equal(one[0], two[0]) or (
            many > 1 and _noise_equal(one[0], np.broadcast_to(one[0][:1], one[0].shape))
        ):
            return True
        return any(_noise_equal(after, one[0]) or _noise_equal(after, before) for before, after in pairwise(one))

    def affordable(self, seed: np.random.SeedSequence) -> int:
        """Return how many runs by either table take about `USUAL_SECONDS` here, the pilot's quarter included."""
        (many, took), piece = (1, USUAL_SECONDS), min(LEAST_RUNS, self._piece)
        while piece <= self._piece:
            began = time.perf_counter()
            self._run(0, piece, seed.spawn(1)[0])
            many, took = piece, time.perf_counter() - began
            if took > USUAL_SECONDS / 100 or piece == self._piece:
                break
            piece = min(10 * piece, self._piece)
        return int(min(max(USUAL_SECONDS / took * many / 2.5, LEAST_RUNS), MAX_RUNS))

    @property
    def _piece(self) -> int:
        """The number of runs done at once."""
        size = self.setup.part(self.attacker.name).stages[self.stage].question.size
        return max(LEAST_RUNS, NUMBERS_AT_ONCE // size) if self.algorithm.parallel else 1

    def _overhear_runs(
        self, side: int, runs: int, seed: np.random.SeedSequence, done: Callable[[int], None]
    ) -> Iterable[Overheard]:
        runs_at_once = self._piece
        pieces = [runs_at_once] * (runs // runs_at_once) + ([runs % runs_at_once] if runs % runs_at_once else [])
        for piece, own in zip(pieces, seed.spawn(len(pieces)), strict=True):
            yield self._run(side, piece, own)
            done(piece)

    def _run(self, side: int, replicates: int, seed: np.random.SeedSequence, keeps: bool = False) -> Overheard:
        seeds = seed.spawn(len(self.sides[side]) + 1)
        parties = [o.simulate(s, replicates) for o, s in zip(self.sides[side].values(), seeds, strict=False)]
        for party in parties:
            party.accept(self.setup)
        inner = SimulatedSum(parties, seeds[-1]) if self.setup.terms.noise.summed else InProcess(parties)
        overheard = Overheard(inner, self.attacker, replicates, keeps)
        asker = Asker.from_setup(self.setup)
        exchange = overheard if self.setup.schedule.waits else on_virtual_clock(overheard, self.setup.schedule)
        start = self.algorithm.start(starting_point(self.setup), (replicates,))
        final = run_by_terms(self.algorithm, exchange, self.setup.aggregation, asker, start)
        if self.stage:
            number = self.setup.part(self.attacker.name).stages[self.stage].rounds[0]
            score = ScoreQuery.ask(asker.terms_hash, asker.learner, number, self.algorithm.model(final))
            overheard.ask(dict.fromkeys(self.sides[side], score))
        return overheard


def _noise_equal(one: Floats, other: Floats) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-6, atol=1e-9 * float(np.abs(one).max()))


def audit_owner(
    terms: Terms,
    name: str,
    runs: int | None,
    seed: int | None = None,
    confidence: float = 0.99,
    progress: Progress = lambda done, total: None,
    stage: int = 0,
) -> Verdict:
    """Bound what this owner's training answers (stage 1: its score) cost, from twice `runs` runs, each on one of two
    neighbouring tables by a fair coin. Without `runs`: as many as take a minute, at most `MAX_RUNS`.

    Nobody's records are read. The attacker sees every answer, asks each question twice, knows both tables (`Attacker`),
    and guesses the coin by a rule chosen on a quarter as many runs (`best_guess`).

    Formal guarantee (`proved_by_guesses`, `epsilon_by_size`): the probability that either result exceeds the true eps
    is at most 1 - confidence, for the second if noise has the claimed law. This is about this pair of tables and this
    attack; others may learn more, up to what is claimed.
    """
    require_audited_owner(terms)
    runs = None if runs is None else whole(runs, "runs", least=LEAST_RUNS)
    delta = terms.privacy.delta
    check_confidence(delta, confidence)
    reduced_terms = with_one_other_owner(terms, name)
    seeds = np.random.SeedSequence(seed).spawn(7)
    audit, finished = RunAudit.make(reduced_terms, name, stage), 0
    repeats = audit.repeats(seeds[1])
    runs = audit.affordable(seeds[1]) if runs is None else runs
    pilot = max(LEAST_RUNS, runs // 4)
    audit = audit.directed(pilot, seeds[0])

    def done(count: int) -> None:
        nonlocal finished
        finished += count
        progress(finished, 2 * (runs + pilot))

    chosen = [audit.statistics(side, pilot, seeds[2 + side], done) for side in (0, 1)]
    each = (1 + confidence) / 2
    guess = best_guess(chosen[0], chosen[1], delta, each)
    runs_on_b = int(np.random.default_rng(seeds[6]).binomial(2 * runs, 0.5))
    counted = [
        audit.statistics(side, count, seeds[4 + side], done)
        for side, count in enumerate((2 * runs - runs_on_b, runs_on_b))
    ]
    proved = float(proved_by_guesses(*guess.right(counted[0], counted[1]), 2 * runs, delta, each))
    claimed = upper(terms.score_epsilon if stage else terms.training_epsilon(name))
    series = audit.setup.part(name).stages[stage].series
    attacker_rates = Rates.from_runs((chosen[0], chosen[1]), (counted[0], counted[1]), each)
    return Verdict(
        owner=name,
        claimed_epsilon=claimed,
        delta=delta,
        adjacency=Adjacency.REPLACE_ONE,
        lower_bound=float("inf") if repeats else proved,
        confidence=confidence,
        runs=runs,
        noise_repeats=repeats,
        like=name,
        curve=trade_off(counted[0], counted[1]),
        by_noise=epsilon_by_size(attacker_rates, series, claimed, delta),
        records=audit.setup.terms.owner(name).records,
    )
