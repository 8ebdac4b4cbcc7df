"""Whole runs under attack: the terms' own algorithm, noise and bookkeeping, on two tables that differ in one person."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from parley.audit.attacker import Attacker, Overheard
from parley.audit.audited_unit import require_audited_unit
from parley.audit.black_box import check_confidence
from parley.audit.canary import CanarySearch
from parley.audit.distinguishing import trade_off
from parley.audit.guessing import best_guess, proved_by_guesses
from parley.audit.present_rows import compressed
from parley.audit.verdict import Verdict
from parley.errors import TermsError
from parley.learning.algorithms.algorithm import Algorithm, Asker, Progress
from parley.learning.algorithms.asynchronous import clocked, run_by_terms
from parley.learning.start import starting_point
from parley.network.exchange import InProcess
from parley.network.exchange.simulated_sum import SimulatedSum
from parley.owner.owner import Owner
from parley.privacy.adjacency import Adjacency
from parley.protocol.queries import Tables
from parley.protocol.setup import Setup, resolve
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION
from parley.validate import Floats, upper, whole

NUMBERS = 2**18  # of answers that are drawn at once
FEWEST = 100  # runs
DECIMALS = 9  # of a statistic that count


class AuditedOwner(Owner):
    """An owner of a table that an audit made, of which hardly any row has a target."""

    def _tables(self, setup: Setup) -> Tables:
        tables = super()._tables(setup)
        return Tables(compressed(tables.train), compressed(tables.held_out))


@dataclass(frozen=True, eq=False)
class RunAudit:
    """One owner's answers in runs on either of two tables."""

    setup: Setup
    algorithm: Algorithm
    attacker: Attacker
    sides: tuple[Mapping[str, Owner], Mapping[str, Owner]]  # everybody, where the audited owner has table a or b

    @classmethod
    def make(cls, terms: Terms, name: str) -> "RunAudit":
        """The audit of this owner, on the pair of tables that is found for it."""
        setup = resolve(terms)
        search = CanarySearch(setup, name)
        pair = search.neighbours()
        others = {
            part.name: AuditedOwner(part.name, CanarySearch(setup, part.name).empty_table)
            for part in terms.owners
            if part.name != name
        }
        own = [AuditedOwner(name, table) for table in (pair.a, pair.b)]
        sides = [{part.name: others.get(part.name, owner) for part in terms.owners} for owner in own]
        a, b = (owner.prepare(setup).tables for owner in own)
        rest = {other: owner.prepare(setup).tables for other, owner in others.items()}
        return cls(setup, search.algorithm, Attacker(setup, name, a, b, rest), (sides[0], sides[1]))

    def statistics(self, side: int, runs: int, seed: np.random.SeedSequence, done: Callable[[int], None]) -> Floats:
        """By how much everything that was answered speaks for table b, in so many runs on one of the tables [runs].

        To nine decimals: studies draw fast noise, whose last digits tell what it was added to (`mechanisms.noise`).
        That is no fault of the terms, and no owner releases it.
        """
        return np.concatenate([np.round(heard.statistic, DECIMALS) for heard in self._heard(side, runs, seed, done)])

    def directed(self, runs: int, seed: np.random.SeedSequence) -> "RunAudit":
        """The same with an attacker that knows how far answers differ on average, where it needs that."""
        if not self.attacker.guesses:
            return self
        means = []
        for side, own in enumerate(seed.spawn(2)):
            heard = list(self._heard(side, runs, own, lambda count: None))
            means.append({number: np.mean([each.means[number] for each in heard], axis=0) for number in heard[0].means})
        found = {number: means[1][number] - means[0][number] for number in means[0]}
        return replace(self, attacker=replace(self.attacker, directions=found))

    def repeats(self, seed: np.random.SeedSequence) -> bool:
        """Whether the noise of one run is that of another, or of its neighbour in the same study, or the same in two
        rounds: the first, or one after the other."""
        one, two = (self._run(0, FEWEST, each, keeps=True).noises for each in seed.spawn(2))
        if _same(one[0], two[0]) or _same(one[0], np.broadcast_to(one[0][:1], one[0].shape)):
            return True
        return any(_same(after, one[0]) or _same(after, before) for before, after in pairwise(one))

    def _heard(
        self, side: int, runs: int, seed: np.random.SeedSequence, done: Callable[[int], None]
    ) -> Iterable[Overheard]:
        most = max(FEWEST, NUMBERS // self.setup.part(self.attacker.name).training.question.size)
        pieces = [most] * (runs // most) + ([runs % most] if runs % most else [])
        for piece, own in zip(pieces, seed.spawn(len(pieces)), strict=True):
            yield self._run(side, piece, own)
            done(piece)

    def _run(self, side: int, replicates: int, seed: np.random.SeedSequence, keeps: bool = False) -> Overheard:
        seeds = seed.spawn(len(self.sides[side]) + 1)
        parties = [o.simulate(s, replicates) for o, s in zip(self.sides[side].values(), seeds, strict=False)]
        for party in parties:
            party.accept(self.setup)
        inner = SimulatedSum(parties, seeds[-1]) if self.setup.terms.noise.summed else InProcess(parties)
        heard = Overheard(inner, self.attacker, replicates, keeps)
        exchange = heard if self.setup.schedule.waits else clocked(heard, self.setup.schedule)
        start = self.algorithm.start(starting_point(self.setup), (replicates,))
        run_by_terms(self.algorithm, exchange, self.setup.aggregation, Asker.of(self.setup), start)
        return heard


def _same(one: Floats, other: Floats) -> bool:
    """Whether two rounds' noise is the same but for roundings."""
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-6, atol=1e-9 * float(np.abs(one).max()))


def audit_owner(
    terms: Terms,
    name: str,
    runs: int,
    seed: int | None = None,
    confidence: float = 0.99,
    progress: Progress = lambda done, total: None,
) -> Verdict:
    """What twice so many runs prove about this owner's training answers, each on one of two neighbouring tables, by a
    fair coin: about `runs` on either.

    Tables are the audit's own: no record of anybody is read. An attacker sees every answer, asks each question twice,
    knows both tables (`Attacker`), and guesses the coin; how, is chosen on a quarter as many runs (`best_guess`).

    Formal guarantee (`proved_by_guesses`): the result exceeds the true eps with probability at most 1 - confidence. It
    is about the pair of tables that was found and about this attack; others may learn more, up to what is claimed.
    """
    require_audited_unit(terms)
    runs = whole(runs, "runs", least=FEWEST)
    delta = terms.privacy.delta
    check_confidence(delta, confidence)
    if terms.task != PREDICTION:
        raise TermsError(f"{terms.task}: expected terms that predict a column; runs of no others are audited")
    small = few_owners(terms, name)
    seeds = np.random.SeedSequence(seed).spawn(7)
    pilot = max(FEWEST, runs // 4)
    audit = RunAudit.make(small, name).directed(pilot, seeds[0])
    finished = 0

    def done(count: int) -> None:
        nonlocal finished
        finished += count
        progress(finished, 2 * (runs + pilot))

    repeats = audit.repeats(seeds[1])
    chosen = [audit.statistics(side, pilot, seeds[2 + side], done) for side in (0, 1)]
    guess = best_guess(chosen[0], chosen[1], delta, confidence)
    by_b = int(np.random.default_rng(seeds[6]).binomial(2 * runs, 0.5))
    counted = [
        audit.statistics(side, count, seeds[4 + side], done) for side, count in enumerate((2 * runs - by_b, by_b))
    ]
    proved = float(proved_by_guesses(*guess.right(counted[0], counted[1]), 2 * runs, delta, confidence))
    return Verdict(
        owner=name,
        claimed_epsilon=upper(terms.training_epsilon(name)),
        delta=delta,
        adjacency=Adjacency.REPLACE_ONE,
        lower_bound=float("inf") if repeats else proved,
        confidence=confidence,
        runs=runs,
        noise_repeats=repeats,
        like=name,
        curve=trade_off(counted[0], counted[1]),
    )


def few_owners(terms: Terms, name: str) -> Terms:
    """The terms with one owner in the place of all others: no answer of the audited one depends on how many they
    are, beyond the model that it is asked at."""
    others = [part for part in terms.owners if part.name != name]
    learning = terms.learning
    if len(others) < 2 or learning.topology is not None or learning.participation is not None:
        return terms
    together = {"records": sum(part.records for part in others), "epsilon": min(part.epsilon for part in others)}
    kept = [part.name for part in terms.owners if part.name in (name, others[0].name)]
    quorum = None if learning.quorum is None else {"quorum": min(learning.quorum, 2)}
    # what the learner makes of answers is no part of what they tell
    return terms.changed(learning=quorum, only=kept, owners={others[0].name: together}, aggregation={})
