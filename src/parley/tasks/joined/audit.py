"""The audit of joined tables: what hosts and a learner can learn of one person, who is in one table, in several or all.

- Search: the pair of neighbouring sets of tables whose moments lie farthest apart (`neighbours`), beside the claim.
- Moments: the noise is drawn many times on top of that pair; the attacker sees the sum along its difference.
- Matches: the law of the counts that a host sees is summed up value by value.
- Hosts: three hosts in threads match tables at the clip, beyond it and with a key twice; and each attacks the noise.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.audit.agreement import CONTROL_FACTORS, HOST_DRAWS, control_name
from parley.audit.attacker import Rates, epsilon_by_size
from parley.audit.distinguishing import best_guess, proved_by_guesses, trade_off
from parley.audit.exact.enumeration import count_epsilon
from parley.audit.runs import LEAST_RUNS, MAX_RUNS, Verdict
from parley.audit.served.one_host import HostVerdict, audit_hosts, opened_match
from parley.errors import TermsError
from parley.learning.algorithms.algorithm import Progress
from parley.numerals import counted, percent
from parley.privacy.accounting.series import GaussianSeries
from parley.privacy.events import Adjacency
from parley.privacy.sharing.matching.key_order import RepeatedKeysError
from parley.privacy.sharing.matching.keyed_rows import KEY_WORDS, KeyedRows, count_common, joined_moments
from parley.privacy.sharing.matching.packed_rows import RefusedTableError
from parley.privacy.sharing.matching.row_values import LargeRowsError
from parley.report.sheet import BLANK_LINE, Grid, Line, Part, Sheet, lines
from parley.report.words.audit import SYNTHETIC_NOTE, host_rows
from parley.tasks.joined.neighbours import (
    RowPool,
    Searched,
    all_cases,
    hostile_table,
    row_beyond,
    search_pairs,
    squares,
)
from parley.tasks.joined.plan import JoinPlan, join_plan
from parley.terms import Terms
from parley.validate import Floats, printable, upper, whole

DEFAULT_PAIRS, LEAST_PAIRS = 10_000, 200
SEARCHED_NUMBERS = 2**30  # of all pairs together, where nobody says how many pairs: wide rows get fewer
DRAWN_NUMBERS = 2**26  # of noise in the runs on both tables, where nobody says how many runs
NUMBERS_AT_ONCE = 2**20
AUDIT_LIMITS = (
    "Matches and moments were attacked apart. The audit did not test timing, two hosts together, a host that departs "
    "from the protocol, or keys and shares on the network. A small lower bound on ε does not prove privacy."
)


def attack_moments(
    plan: JoinPlan, searched: Searched, runs: int, seed: np.random.SeedSequence, confidence: float, factor: float = 1.0
) -> Verdict:
    """Bound what the opened moments reveal about the pair found, from twice `runs` draws of the noise, each on one of
    the two by a fair coin. `factor`: times less noise, for a control.

    Formal guarantee: `proved_by_guesses` and `epsilon_by_size`, at half of 1 - confidence each. Noise is independent in
    each number, so those that do not move tell nothing.
    """
    law, seeds = plan.law, seed.spawn(6)
    places = np.flatnonzero(searched.apart)
    direction = searched.apart[places].astype(np.float64)
    length = float(np.linalg.norm(direction))
    direction = direction / length if length > 0 else direction

    def statistics(side: int, count: int, own: np.random.SeedSequence) -> Floats:
        rng = np.random.default_rng(own)
        drawn = [law.noise.drawn((piece, len(places)), rng).view(np.int64) for piece in _pieces(count, len(places))]
        return np.concatenate([each.astype(np.float64) @ direction for each in drawn]) + side * factor * length

    pilot, each, delta = max(LEAST_RUNS, runs // 4), (1 + confidence) / 2, upper(law.delta)
    chosen = statistics(0, pilot, seeds[0]), statistics(1, pilot, seeds[1])
    on_b = int(np.random.default_rng(seeds[2]).binomial(2 * runs, 0.5))
    counted = statistics(0, 2 * runs - on_b, seeds[3]), statistics(1, on_b, seeds[4])
    guess = best_guess(*chosen, delta, each)
    twice = [law.noise.drawn((LEAST_RUNS, law.noise.size), np.random.default_rng(s)) for s in seeds[5].spawn(2)]
    repeats = len(np.unique(np.concatenate(twice), axis=0)) < 2 * LEAST_RUNS
    claimed = upper(law.epsilon)
    series = GaussianSeries(law.noise, law.epsilon, law.delta, 1)
    return Verdict(
        owner="moments",
        claimed_epsilon=claimed,
        delta=delta,
        adjacency=Adjacency.REPLACE_ONE,
        lower_bound=math.inf if repeats else float(proved_by_guesses(*guess.right(*counted), 2 * runs, delta, each)),
        confidence=confidence,
        runs=runs,
        noise_repeats=repeats,
        like="moments",
        curve=trade_off(*counted),
        by_noise=float(epsilon_by_size(Rates.from_runs(chosen, counted, each), series, claimed, delta)),
    )


def _pieces(count: int, numbers: int) -> Iterator[int]:
    at_once = max(1, NUMBERS_AT_ONCE // max(numbers, 1))
    yield from (min(at_once, count - start) for start in range(0, count, at_once))


@dataclass(frozen=True)
class CountVerdict:
    """What the counts that a host sees are claimed to cost, and exactly what they cost at this delta, rounded down."""

    claimed_epsilon: float
    delta: float
    epsilon: float
    moved: int  # counts that one person moves at most

    @property
    def holds(self) -> bool:
        """Whether the counts cost no more than is claimed."""
        return self.epsilon <= self.claimed_epsilon

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley audit --json` prints."""
        return {**vars(self), "epsilon": self.epsilon if self.epsilon < math.inf else None, "holds": self.holds}


def audit_counts(plan: JoinPlan) -> CountVerdict:
    """Compute what the numbers of matches reveal, for the worst of all cases of neighbouring tables."""
    law, delta = plan.match_plan.law, plan.join.delta
    row, keys = np.zeros(0, dtype=np.int64), np.arange(2 * KEY_WORDS, dtype=np.uint64).reshape(2, KEY_WORDS)
    parts = [row for _ in plan.owners]
    empty = [KeyedRows(keys[:0], np.zeros((0, 0), dtype=np.int64), 1) for _ in plan.owners]
    moves = set()
    for case in all_cases(len(plan.owners)):
        one, other = (count_common([table.keys for table in side]) for side in case.tables(parts, parts, empty, keys))
        moves.add(tuple(sorted(other[s] - one[s] for s in {*one, *other} if other[s] != one[s])))
    costs = [count_epsilon(law, each, delta) for each in moves]
    return CountVerdict(plan.join.epsilon, delta, max(costs), max(sum(map(abs, each)) for each in moves))


@dataclass(frozen=True)
class Probe:
    """Tables that three hosts in threads were given, and whether they did as they should."""

    tables: str
    expected: str
    holds: bool


def probe_hosts(plan: JoinPlan, pool: RowPool, rng: np.random.Generator) -> tuple[Probe, ...]:
    """Let three hosts match hostile tables: at the clip, one with a row just beyond it, one with a key twice."""
    tables = [hostile_table(shape, rng) for shape in pool.shapes]
    opened = opened_match(plan.match_plan, tables, rng)
    exact = joined_moments(tables, plan.law.unit).view(np.uint64)
    right = not isinstance(opened, RefusedTableError) and np.array_equal(opened, exact)
    probes = [
        Probe("rows that owners make of extreme cells", "within the clip", pool.kept),
        Probe("hostile rows at the clip", "matched, moments exact", right),
    ]
    for at, (table, shape, owner) in enumerate(zip(tables, pool.shapes, plan.owners, strict=True)):
        beyond, twice = table.values.copy(), table.keys.copy()
        beyond[0], twice[1] = row_beyond(shape, plan.law.clips[at]), twice[0]
        if squares(beyond)[0] > plan.law.clips[at] ** 2:
            answer = opened_match(
                plan.match_plan, [*tables[:at], replace(table, values=beyond), *tables[at + 1 :]], rng
            )
            refused = isinstance(answer, LargeRowsError) and answer.table == at
            probes.append(Probe(f"a row of {owner.name} beyond its clip", "refused", refused))
        answer = opened_match(plan.match_plan, [*tables[:at], replace(table, keys=twice), *tables[at + 1 :]], rng)
        refused = isinstance(answer, RepeatedKeysError) and answer.table == at
        probes.append(Probe(f"a key twice in the table of {owner.name}", "refused", refused))
    return tuple(probes)


@dataclass(frozen=True)
class JoinedAudit:
    """What was found about a person in joined tables, and what would have been noticed."""

    title: str
    terms_hash: str
    epsilon: float  # claimed, of the moments and the counts together
    delta: float
    searched: Searched
    moments: Verdict
    counts: CountVerdict
    hosts: tuple[HostVerdict, ...]
    probes: tuple[Probe, ...]
    controls: Mapping[int, bool]  # whether noise for so many times the budget was caught, by the same attack
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts any claim."""
        apart = self.moments.holds and self.counts.holds and not self.searched.violations
        return apart and all(each.holds for found in (self.hosts, self.probes) for each in found)

    @property
    def noticed(self) -> int | None:
        """The least excess among the controls that was caught, or None."""
        return next((factor for factor, caught in self.controls.items() if caught), None)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley audit --json` prints."""
        return {
            "title": self.title,
            "terms_hash": self.terms_hash,
            "holds": self.holds,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "search": self.searched.to_json(),
            "moments": self.moments.to_json(),
            "matches": self.counts.to_json(),
            "hosts": [verdict.to_json() for verdict in self.hosts],
            "probes": [vars(probe) for probe in self.probes],
            "mutants": {control_name(factor): caught for factor, caught in self.controls.items()},
            "seconds": self.seconds,
        }


def audit_joined(
    terms: Terms,
    runs: int | None = None,
    seed: int | None = None,
    pairs: int | None = None,
    confidence: float = 0.99,
    progress: Progress = lambda done, total: None,
    says: Callable[[str], None] = lambda label: None,
) -> JoinedAudit:
    """Search, attack and probe as this file says. All verdicts hold together at `confidence`; the search, the counts
    and the probes are exact. `runs`: of the moments, with either set of tables; `pairs`: of the search."""
    terms.require_release()
    began, plan = time.perf_counter(), join_plan(terms)
    seeds = np.random.SeedSequence(seed).spawn(4 + len(CONTROL_FACTORS))
    rng, size = np.random.default_rng(seeds[0]), plan.law.noise.size
    runs = None if runs is None else whole(runs, "runs", least=LEAST_RUNS)
    usual = min(DEFAULT_PAIRS, max(LEAST_PAIRS, SEARCHED_NUMBERS // size))
    pool = RowPool.of_plan(plan, rng)
    says("searching for the person who moves the moments most")
    searched = search_pairs(plan, pool, whole(usual if pairs is None else pairs, "tries", least=1), rng, progress)
    says("attacking the moments")
    numbers = max(1, int(np.count_nonzero(searched.apart)))
    runs = min(MAX_RUNS, max(LEAST_RUNS, DRAWN_NUMBERS // (3 * numbers))) if runs is None else runs
    each = 1 - (1 - confidence) / (1 + len(terms.hosts))
    moments = replace(attack_moments(plan, searched, runs, seeds[1], each), confidence=confidence)
    controls = _controls(plan, searched, runs, seeds[4:], each)
    says("probing the hosts, and attacking what each of them sees")
    probes = probe_hosts(plan, pool, np.random.default_rng(seeds[2]))
    hosts = audit_hosts(terms, HOST_DRAWS, int(seeds[3].generate_state(1)[0]), each)
    claimed = upper(terms.common_epsilon), terms.privacy.delta
    took = time.perf_counter() - began
    return JoinedAudit(
        terms.title, terms.hash, *claimed, searched, moments, audit_counts(plan), hosts, probes, controls, took
    )


def _controls(
    plan: JoinPlan, searched: Searched, runs: int, seeds: Sequence[np.random.SeedSequence], confidence: float
) -> dict[int, bool]:
    """Return by factor whether noise for that many times the budget was caught, up to the first that was."""
    found = {}
    for factor, seed in zip(CONTROL_FACTORS, seeds, strict=True):
        louder = {part.name: {"epsilon": factor * part.epsilon} for part in plan.terms.owners}
        try:
            law = join_plan(plan.terms.changed(owners=louder)).law
        except TermsError:
            continue
        less = plan.law.noise.event.multiplier / law.noise.event.multiplier
        found[factor] = not attack_moments(plan, searched, runs, seed, confidence, less).holds
        if found[factor]:
            break
    return found


def run_audit(
    terms: Terms,
    runs: int | None,
    seed: int | None,
    pairs: int | None,
    progress: Progress = lambda done, total: None,
    says: Callable[[str], None] = lambda label: None,
) -> tuple[Sheet, bool]:
    """Return the report of `parley audit`, and whether nothing reveals more than is promised."""
    found = audit_joined(terms, runs, seed, pairs, progress=progress, says=says)
    shown: list[Part] = [
        Grid(audit_rows(found), found.title or "Owners"),
        BLANK_LINE,
        Grid(search_rows(found), "Search for the worst person"),
        BLANK_LINE,
        Grid(host_rows(found.hosts)),
        BLANK_LINE,
        Grid(probe_rows(found), "Tables that three hosts were given"),
        BLANK_LINE,
        *lines(audit_sentences(found)),
        *lines([f"{SYNTHETIC_NOTE} {AUDIT_LIMITS}"], "dim", folded=True),
        Line(f"terms {terms.hash[:16]}…   {found.seconds:.1f} s", "dim"),
    ]
    return Sheet(found.to_json(), shown, inside=False), found.holds


def audit_rows(found: JoinedAudit) -> list[list[str]]:
    """Return a table of what is seen, by whom, what it is claimed to cost and what was proved."""
    rows = [["seen", "ε (replace-one)", "δ", "proved ε", "assuming claimed noise", "holds"]]
    for name, verdict, proved, noise in (
        ("matches, by hosts", found.counts, found.counts.epsilon, None),
        ("moments, by learner", found.moments, found.moments.lower_bound, found.moments.by_noise),
    ):
        shown = "–" if noise is None else _below(noise)
        holds = "yes" if verdict.holds else "NO"
        rows.append([name, f"{verdict.claimed_epsilon:g}", f"{verdict.delta:g}", _below(proved), shown, holds])
    return rows


def _below(epsilon: float) -> str:
    return f"{math.floor(epsilon * 1e3) / 1e3:.3f}" if math.isfinite(epsilon) else "any"


def search_rows(found: JoinedAudit) -> list[list[str]]:
    """Return a table of what the search found."""
    searched = found.searched
    holds = "NO" if searched.violations else "yes"
    cells = [f"{searched.pairs:,}", percent(searched.share), f"{searched.violations:,}", holds]
    return [["pairs of neighbouring tables", "largest share of claimed move", "violations", "holds"], cells]


def probe_rows(found: JoinedAudit) -> list[list[str]]:
    """Return a table of what hosts did with hostile tables."""
    rows = [[printable(each.tables, 80), each.expected, "yes" if each.holds else "NO"] for each in found.probes]
    return [["tables", "expected", "holds"], *rows]


def audit_sentences(found: JoinedAudit) -> list[str]:
    """Say what was found, and which faults could have gone unnoticed."""
    moments, counts = found.moments, found.counts
    first = "No attack revealed more than the terms allow."
    if not found.holds:
        first = f"Broken: {'; '.join(_faults(found))}."
    moved = counted(counts.moved, "number of matches", "numbers of matches")
    sentences = [
        first,
        f"One person changes at most {moved}. Their proved ε is exact: it sums over all dummies. After "
        f"{2 * moments.runs:,} draws of the noise, the true ε of the moments is at least their proved ε, at "
        f"{moments.confidence:.0%} confidence for all rows together. Matches and moments together are claimed to cost "
        f"ε = {found.epsilon:g} and δ = {found.delta:g}.",
    ]
    missed = [control_name(factor) for factor, caught in found.controls.items() if not caught]
    if found.noticed is not None:
        more = f", but not {' or '.join(missed)}" if missed else ""
        sentences.append(
            f"Would the audit notice a fault? The attack caught {control_name(found.noticed)}{more}. Moments that leak "
            f"less than ε = {found.noticed * moments.claimed_epsilon:g} may go unnoticed."
        )
    elif missed:
        sentences.append(
            f"Would the audit notice a fault? The attack did not detect {' or '.join(missed)}. More runs give the "
            "attack more power."
        )
    times = math.ceil(100 / found.searched.share) / 100 if found.searched.share > 0 else math.inf
    sentences.append(f"A claimed move of the moments that is up to {times:g} times too small may go unnoticed.")
    return sentences


def _faults(found: JoinedAudit) -> list[str]:
    """Return what broke, a clause each."""
    searched, moments = found.searched, found.moments
    broken = [
        (searched.violations > 0, "a person moves the moments further than the noise covers"),
        (moments.noise_repeats, "the same noise occurred twice"),
        (not moments.holds, "the moments reveal more than the terms allow"),
        (not found.counts.holds, "the numbers of matches reveal more than the terms allow"),
        (not all(each.holds for each in found.hosts), "a host that works with the learner sees too much"),
        (not all(each.holds for each in found.probes), "hosts did not treat a hostile table as expected"),
    ]
    return [clause for seen, clause in broken if seen]
