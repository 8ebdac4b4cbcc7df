"""Lower bounds on epsilon from one run: many coins at once (Steinke, Nasr and Jagielski 2023), in pairs.

At each of m places of a table a fair coin chooses which of two records stands there; answers tell places apart in
nearly orthogonal directions. An attacker who has seen everything released guesses some coins. Too many right guesses
show that the release reveals too much.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import qr

from parley.audit.attacker import AuditedOwner, with_one_other_owner
from parley.audit.canary import CanarySearch, cell_values, no_target, outcome_cells, present_rows, require_audited_unit
from parley.audit.distinguishing import check_confidence, rates
from parley.data import Design, Preparation
from parley.data.holdout import name_on_side
from parley.errors import SettingError, TermsError
from parley.learning.algorithms.algorithm import Asker
from parley.learning.algorithms.asynchronous import on_virtual_clock, run_by_terms
from parley.learning.start import starting_point
from parley.network.exchange import Exchange, InProcess
from parley.privacy.events import Adjacency
from parley.protocol.queries import Answer, Query, Tables
from parley.protocol.setup import Setup, resolve
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION
from parley.validate import Floats, upper, whole

Coins = NDArray[np.int64]  # of each place, -1 or 1: which of its two records stands there; as a guess, 0: none

GUESSED_SHARE = 0.5  # share of the places whose coins are guessed: those of which the answers say most


def one_run_bound(correct: int, guesses: int, places: int, delta: float = 0.0, confidence: float = 0.99) -> float:
    """Return the largest epsilon that this number of correct guesses proves, at `delta`; 0 if nothing is proved.

    Formal guarantee: let S be m = `places` independent fair coins, where coin i chooses which of two given records
    stands at place i. Let T in {-1, 0, 1}^m be any function of an (eps, delta)-DP (replace-one) release about that
    table. The result exceeds eps with probability at most 1 - confidence. The number of guesses (T_i is not 0) may
    depend on what was seen.

    Proof. Let q = e^eps/(1 + e^eps).

    1. Flipping coin i replaces one record, so given all other coins the laws of T for S_i = 1 and S_i = -1 are (eps,
      delta)-close. So are their mixtures P_1 and P_-1 over the coins after i, given those before.
    2. Given the coins before i, T has the law (P_1 + P_-1)/2, and given T = t, S_i = b has probability p_b(t) =
      P_b(t)/(P_1(t) + P_-1(t)). On average it exceeds q by E max(p_b(T) - q, 0) = (1 - q) sum over t of max(P_b(t) -
      e^eps P_-b(t), 0)/2 <= (1 - q) delta/2 <= delta/4. For the guess b = T_i this is at most the sum over both b,
      delta/2; without a guess there is none.
    3. Given T, draw the coins in order by independent uniform U_i: the guess at place i is right if U_i < p_i. Let B
      count the guesses with U_i < q and N those with q <= U_i < p_i. Right guesses are at most B + N. Given T, B is
      Binomial(r, q) for r guesses. By 2, N is at most m delta/2 on average, so by Markov's inequality N > j has
      probability at most m delta/(2 (j + 1)).
    4. j (`free_guesses`) depends only on m, delta and the confidence. Unless N > j, right guesses less j are at most B,
      and the bound grows with them. So for any r, the one-sided Clopper-Pearson bound on q at `correct` - j that fails
      with 1 - confidence - m delta/(2 (j + 1)) exceeds q with probability at most 1 - confidence; eps is q's log odds.

    >>> one_run_bound(50, 100, 200), round(one_run_bound(100, 100, 200), 2)
    (0.0, 3.05)
    >>> round(one_run_bound(6000, 6000, 12_000, delta=1e-5), 2)
    5.57
    """
    guesses, places = whole(guesses, "guesses", least=0), whole(places, "places")
    correct = whole(correct, "correct", least=0)
    check_confidence(delta, confidence)
    if not correct <= guesses <= places:
        raise SettingError(
            f"correct, guesses, places: expected correct <= guesses <= places, got {correct}, {guesses}, {places}"
        )
    free = free_guesses(places, delta, confidence)
    miss = 1 - confidence - places * delta / (2 * (free + 1))
    if not correct > free:
        return 0.0
    min_right_share = float(rates(correct - free, guesses, miss)[0]) * (1 - 1e-9)  # it comes from an iteration
    return max(math.log(min_right_share / (1 - min_right_share)), 0.0) if min_right_share > 0 else 0.0


def free_guesses(places: int, delta: float, confidence: float) -> int:
    """Return how many right guesses delta may give away, failing with at most half of 1 - confidence: the least j with
    places delta/(2 (j + 1)) <= (1 - confidence)/2.

    >>> free_guesses(200, 1e-6, 0.99), free_guesses(12_000, 1e-5, 0.99)
    (0, 11)
    """
    return max(math.ceil(places * delta / (1 - confidence)) - 1, 0)


def toss_coins(places: int, rng: np.random.Generator) -> Coins:
    """Toss a fair coin for each place [places]."""
    return rng.choice(np.array([-1, 1], dtype=np.int64), size=places)


def guess_coins(scores: Floats, share: float = GUESSED_SHARE) -> Coins:
    """Return the coins [places] that the share of scores largest in size point to; 0 elsewhere.

    >>> guess_coins(np.array([3.0, -2.0, 0.1, -0.2])).tolist()
    [1, -1, 0, 0]
    """
    kept = np.argsort(-np.abs(scores), kind="stable")[: math.ceil(share * len(scores))]
    found = np.zeros(len(scores), dtype=np.int64)
    found[kept] = np.where(scores[kept] >= 0, 1, -1)
    return found


@dataclass(frozen=True)
class Guesses:
    """How many coins were guessed, in all tables together, and how many correctly."""

    places: int
    made: int
    correct: int

    @classmethod
    def from_scores(cls, coins: Coins, scores: Floats) -> "Guesses":
        """Guess the coins of all tables from their scores; coins of other tables are coins of other places."""
        found = guess_coins(scores)
        return cls(len(coins), int(np.count_nonzero(found)), int(np.count_nonzero(found == coins)))

    def bound(self, delta: float, confidence: float) -> float:
        """Return the epsilon they prove (`one_run_bound`)."""
        return one_run_bound(self.correct, self.made, self.places, delta, confidence)

    def to_json(self, owner: str, claimed_epsilon: float, delta: float, confidence: float) -> dict[str, Any]:
        """Return the owner's claim, and what its coins prove, as JSON."""
        return {
            "name": owner,
            "claimed_epsilon": claimed_epsilon,
            "delta": delta,
            "adjacency": Adjacency.REPLACE_ONE,
            "lower_bound": self.bound(delta, confidence),
            "confidence": confidence,
            "places": self.places,
            "guesses": self.made,
            "correct": self.correct,
        }


Row = dict[str, object]
Pair = tuple[Row, Row]  # the record for the coin -1, and that for 1

MAX_TRIED_PAIRS = 4096  # pairs that are looked at, at most
FIRST_PAIR_PREFERENCE = 1e-3  # by how much of its distance the first pair is preferred to the last
# of the largest distance: pairs that add less than this in a direction of their own are left out
LEAST_OWN_DISTANCE = 0.5


@dataclass(frozen=True, eq=False)
class PlantedPairs:
    """Places of one owner's table, with two records each; a place is one person, and nobody else has a target."""

    setup: Setup
    name: str
    pairs: tuple[Pair, ...]
    _latest: dict[object, tuple[Floats, Floats]] = field(default_factory=dict, repr=False)

    @classmethod
    def find(cls, setup: Setup, name: str, most: int | None = None) -> "PlantedPairs":
        """Return as many pairs of extreme rows, at most `most`, as there are directions in which answers move alone.
        Each pair picked is the farthest apart once earlier directions are removed."""
        tried = cls(setup, name, _sample_pairs(list(candidate_pairs(setup.preparation))))
        differences = tried._apart(tried.search.asked[1], (), anywhere=True)
        # of pairs that are equally far the first, on every machine
        first = np.linspace(1, 1 - FIRST_PAIR_PREFERENCE, len(tried))[:, None]
        _, triangular, order = qr((first * differences).T, mode="economic", pivoting=True)
        remaining_distances = np.abs(np.diag(triangular))
        if not remaining_distances[0] > 0:
            raise TermsError(f"{name}: no row changes this owner's answers, so there is nothing to audit")
        max_places = tried._records // tried._copies
        count = min(
            int(np.count_nonzero(remaining_distances >= LEAST_OWN_DISTANCE * remaining_distances[0])),
            max_places,
            max_places if most is None else most,
        )
        return cls(setup, name, tuple(tried.pairs[place] for place in order[:count]))

    def __len__(self) -> int:
        return len(self.pairs)

    def table(self, coins: Coins) -> pd.DataFrame:
        """Write the owner's table for these coins as an analyst would."""
        terms, preparation = self.setup.terms, self.setup.preparation
        records, person = terms.owner(self.name).records, terms.privacy.person
        usual = {**self.pairs[0][0], **no_target(preparation)}
        model = terms.model
        trained = np.arange(records)  # whether a row counts follows from its name where people are held out
        if model.holdout_by is None:
            trained = np.flatnonzero(preparation.trained_on(records))
        places = trained[: len(self) * self._copies].reshape(len(self), self._copies)
        columns: dict[str, NDArray[np.generic]] = {}
        for column, cell in usual.items():
            cells = np.full(records, cell, dtype=np.float64 if isinstance(cell, float) else object)
            for place, pair, coin in zip(places, self.pairs, coins, strict=True):
                cells[place] = pair[int(coin > 0)][column]
            columns[column] = cells
        if person is not None:
            people = np.array([f"person {place}" for place in range(records)], dtype=object)
            canaries = [f"canary {place}" for place in range(len(self))]
            if model.holdout_by is not None:
                canaries = [name_on_side(model, name, held_out=False) for name in canaries]
            people[places] = np.array(canaries, dtype=object)[:, None]
            columns[person] = people
        return pd.DataFrame(columns)

    def speaks(self, query: Query, value: Floats, replicates: tuple[int, ...] = ()) -> Floats:
        """Score how much an answer [size] speaks for the coin 1 at each place [m], by the claimed law of its noise. The
        likelihood ratio treats every other place as if it held both records by halves, which does not matter where
        directions do not meet."""
        middle, differences = self._expected(query, replicates)
        noise = self.setup.part(self.name).stage(query.round).series.mechanism
        off, half = value.reshape(-1) - middle, differences / 2
        if noise.norm == "l1":
            return np.asarray((np.abs(off + half) - np.abs(off - half)).sum(axis=1) / noise.noise_scale)
        return np.asarray(differences @ off / noise.noise_scale**2)

    @cached_property
    def search(self) -> CanarySearch:
        """The search that knows which question is asked at the start of a run."""
        return CanarySearch(self.setup, self.name)

    def _expected(self, query: Query, replicates: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return (the mean exact answer of all coins -1 and all coins 1 [size], how far each place moves it [m, size]).
        The latest question's result is kept."""
        arrays = tuple((name, array.tobytes()) for name, array in query.arrays.items())
        key = (query.round if self.search.asked[0].batched else 0, arrays, tuple(query.counts.items()))
        if key not in self._latest:
            all_places = np.arange(len(self))
            ends = [self._exact(query, all_places, side, replicates) for side in (0, 1)]
            self._latest.clear()
            self._latest[key] = (ends[0] + ends[1]) / 2, self._apart(query, replicates)
        return self._latest[key]

    def _apart(self, query: Query, replicates: tuple[int, ...], anywhere: bool = False) -> Floats:
        """Return how far each place, alone with a target, moves the answer [m, size]; `anywhere`: in any batch."""
        low, high = (
            np.array([self._exact(query, np.array([place]), side, replicates, anywhere) for place in range(len(self))])
            for side in (0, 1)
        )
        return np.asarray(high - low)

    def _exact(
        self, query: Query, kept: NDArray[np.int64], side: int, replicates: tuple[int, ...], anywhere: bool = False
    ) -> Floats:
        """Return the exact answer (mean over secret draws) if only these places have a target, by the same coin."""
        copies, question = self._copies, self.search.asked[0]
        rows = self._prepared[side].where(np.repeat(kept, copies))
        places = (kept[:, None] * copies + np.arange(copies)).reshape(-1) % self._records
        table = present_rows(rows, places, self.setup.terms.train_places(self.name), self._records)
        if question.draws or (anywhere and question.batched):
            return self.setup.risk.mean_gradient(table, query.arrays["theta"], question.bound).reshape(-1)
        return question.bounded(query, Tables(table, table), replicates).value.reshape(-1)

    @cached_property
    def _prepared(self) -> tuple[Design, Design]:
        low, high = (
            self.setup.preparation.design(pd.DataFrame([pair[side] for pair in self.pairs]), self.name)
            for side in (0, 1)
        )
        return low, high

    @property
    def _records(self) -> int:
        return self.search.asked[0].records

    @property
    def _copies(self) -> int:
        return min(self.setup.terms.privacy.records_per_person, self._records)


def candidate_pairs(preparation: Preparation) -> Iterator[Pair]:
    """Yield pairs of rows that differ in the target or one column; at most one column is at an end, others midway."""
    columns = {column: cell_values(preparation, column) for column in preparation.features}
    middle: Row = {column: values[-1] for column, values in columns.items()}
    targets = outcome_cells(preparation)
    ends = [[{**middle, column: values[end]} for end in (0, 1)] for column, values in columns.items()]
    for row in (middle, *(row for pair in ends for row in pair)):
        for one, other in pairwise(targets):
            yield {**row, **one}, {**row, **other}
    for low, high in ends:
        for target in targets:
            yield {**low, **target}, {**high, **target}


def _sample_pairs(pairs: list[Pair]) -> tuple[Pair, ...]:
    """Return a fixed random choice of at most `MAX_TRIED_PAIRS` pairs."""
    kept = np.random.default_rng(0).permutation(len(pairs))[:MAX_TRIED_PAIRS]
    return tuple(pairs[place] for place in np.sort(kept))


@dataclass(frozen=True)
class OneRunVerdict:
    """What one owner promises a person, and what guessed coins prove at least."""

    owner: str
    claimed_epsilon: float
    delta: float
    guesses: Guesses
    confidence: float
    runs: int  # each on a table of its own

    @property
    def lower_bound(self) -> float:
        """The epsilon proved at `confidence`."""
        return self.guesses.bound(self.delta, self.confidence)

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim."""
        return self.lower_bound <= self.claimed_epsilon

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        coins = self.guesses.to_json(self.owner, self.claimed_epsilon, self.delta, self.confidence)
        return {**coins, "runs": self.runs, "holds": self.holds}


class Scored:
    """An exchange that adds up how much one owner's answers speak for each coin."""

    def __init__(self, exchange: Exchange, planted: PlantedPairs) -> None:
        self._exchange, self._planted = exchange, planted
        self.scores: Floats = np.zeros(len(planted))

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        answers = self._exchange.ask(questions)
        name = self._planted.name
        for each in answers:
            if each.owner == name:
                self.scores += self._planted.speaks(questions[name], each.value, (1,))
        return answers


def audit_one_run(
    terms: Terms, name: str, runs: int = 1, seed: int | None = None, confidence: float = 0.99
) -> OneRunVerdict:
    """Bound what an owner's training answers cost by `runs` runs of the agreed algorithm, each on a table with as many
    canaries as there are directions and with new coins.

    Formal guarantee: as for `one_run_bound`, the bound exceeds the true eps with probability at most 1 - confidence.
    """
    runs = whole(runs, "runs")
    check_confidence(terms.privacy.delta, confidence)
    planted = plant(with_one_other_owner(terms, name), name)
    rng = np.random.default_rng(seed)
    coins = [toss_coins(len(planted), rng) for _ in range(runs)]
    scores = [
        _scores(planted, AuditedOwner(name, planted.table(each)), own)
        for each, own in zip(coins, np.random.SeedSequence(seed).spawn(runs), strict=True)
    ]
    guesses, claimed = (
        Guesses.from_scores(np.concatenate(coins), np.concatenate(scores)),
        upper(terms.training_epsilon(name)),
    )
    return OneRunVerdict(name, claimed, terms.privacy.delta, guesses, confidence, runs)


def plant(terms: Terms, name: str, most: int | None = None) -> PlantedPairs:
    """Place as many pairs as can be scored one by one, at most `most`, in an owner's table."""
    require_audited_unit(terms)
    if terms.task != PREDICTION or terms.noise.summed:
        raise TermsError("terms: expected terms that predict a column, with privacy.noise = 'each-owner'")
    return PlantedPairs.find(resolve(terms), name, most)


def _scores(planted: PlantedPairs, owner: AuditedOwner, seed: np.random.SeedSequence) -> Floats:
    setup, name = planted.setup, planted.name
    others = [
        AuditedOwner(part.name, CanarySearch(setup, part.name).empty_table)
        for part in setup.terms.owners
        if part.name != name
    ]
    scored = Scored(InProcess(_accepted(setup, [owner, *others], seed)), planted)
    algorithm = planted.search.algorithm
    exchange = scored if setup.schedule.waits else on_virtual_clock(scored, setup.schedule)
    start = algorithm.start(starting_point(setup), (1,))
    run_by_terms(algorithm, exchange, setup.aggregation, Asker.from_setup(setup), start)
    return scored.scores


def _accepted(setup: Setup, owners: list[AuditedOwner], seed: np.random.SeedSequence) -> list[Any]:
    parties = [owner.simulate(own, 1) for owner, own in zip(owners, seed.spawn(len(owners)), strict=True)]
    for party in parties:
        party.accept(setup)
    return parties
