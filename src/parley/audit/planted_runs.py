"""Whole runs on a table with many canaries at once: what one run proves, or a few with other coins."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.audit.audited_unit import require_audited_unit
from parley.audit.black_box import check_confidence
from parley.audit.canary import CanarySearch
from parley.audit.one_run import Guesses, flipped
from parley.audit.planted import PlantedPairs
from parley.audit.run_tables import AuditedOwner, few_owners
from parley.errors import TermsError
from parley.learning.algorithms.algorithm import Asker
from parley.learning.algorithms.asynchronous import clocked, run_by_terms
from parley.learning.start import starting_point
from parley.network.exchange import Exchange, InProcess
from parley.protocol.queries import Answer, Query
from parley.protocol.setup import Setup, resolve
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION
from parley.validate import Floats, upper, whole


@dataclass(frozen=True)
class OneRunVerdict:
    """What is promised to a person in one owner's table, and what guessed coins prove, at least."""

    owner: str
    claimed_epsilon: float
    delta: float
    guesses: Guesses
    confidence: float
    runs: int  # each on a table of its own

    @property
    def lower_bound(self) -> float:
        """Of epsilon, proved at `confidence`."""
        return self.guesses.bound(self.delta, self.confidence)

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim."""
        return self.lower_bound <= self.claimed_epsilon

    def to_json(self) -> dict[str, Any]:
        """The verdict for programs."""
        coins = self.guesses.to_json(self.owner, self.claimed_epsilon, self.delta, self.confidence)
        return {**coins, "runs": self.runs, "holds": self.holds}


class Scored:
    """An exchange whose answers of one owner are added up by which coins they speak for."""

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
    """What a run of the agreed algorithm on one table with as many canaries as there are directions proves about this
    owner's training answers; `runs` of them, on tables by other coins, prove more.

    Formal guarantee: `one_run_bound`'s: the bound exceeds the true eps with probability at most 1 - confidence.
    """
    runs = whole(runs, "runs")
    check_confidence(terms.privacy.delta, confidence)
    planted = plant(few_owners(terms, name), name)
    rng = np.random.default_rng(seed)
    coins = [flipped(len(planted), rng) for _ in range(runs)]
    scores = [
        _scores(planted, AuditedOwner(name, planted.table(each)), own)
        for each, own in zip(coins, np.random.SeedSequence(seed).spawn(runs), strict=True)
    ]
    guesses, claimed = Guesses.of(np.concatenate(coins), np.concatenate(scores)), upper(terms.training_epsilon(name))
    return OneRunVerdict(name, claimed, terms.privacy.delta, guesses, confidence, runs)


def plant(terms: Terms, name: str, most: int | None = None) -> PlantedPairs:
    """The places of an owner's table, `most` at most, where its answers can be scored one by one."""
    require_audited_unit(terms)
    if terms.task != PREDICTION or terms.noise.summed:
        raise TermsError(
            "terms: expected some that predict a column, with each owner's own noise; coins are guessed from no others"
        )
    return PlantedPairs.find(resolve(terms), name, most)


def _scores(planted: PlantedPairs, owner: AuditedOwner, seed: np.random.SeedSequence) -> Floats:
    """What one run says of the coins in this owner's table."""
    setup, name = planted.setup, planted.name
    others = [
        AuditedOwner(part.name, CanarySearch(setup, part.name).empty_table)
        for part in setup.terms.owners
        if part.name != name
    ]
    heard = Scored(InProcess(_accepted(setup, [owner, *others], seed)), planted)
    algorithm = planted.search.algorithm
    exchange = heard if setup.schedule.waits else clocked(heard, setup.schedule)
    start = algorithm.start(starting_point(setup), (1,))
    run_by_terms(algorithm, exchange, setup.aggregation, Asker.of(setup), start)
    return heard.scores


def _accepted(setup: Setup, owners: list[AuditedOwner], seed: np.random.SeedSequence) -> list[Any]:
    """Copies for one study that have accepted the terms."""
    parties = [owner.simulate(own, 1) for owner, own in zip(owners, seed.spawn(len(owners)), strict=True)]
    for party in parties:
        party.accept(setup)
    return parties
