"""An owner answers a query, having debited its ledger first. The only place where data meet a query."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from parley import objectives
from parley.account import Account, Reservation
from parley.accounting import Plan, exact, make_plan, mechanism_norm
from parley.data import Design, Preparation, fit_preparation
from parley.data.design import summation_slack
from parley.data.digest import digested_table
from parley.data.streamed import ParquetFolder, open_table
from parley.data.table import Table, holds
from parley.errors import DataError, GuaranteeError, Malformed, OutOfOrder, OutsideBox, TermsError, UnknownTerms
from parley.ledger import AnyLedger, StudyLedger
from parley.mechanisms import Bounded, FastNoise, Gaussian, Laplace, Noise, SafeNoise
from parley.mechanisms.bounded import require
from parley.objectives import MarginObjective, RecordBound
from parley.objectives.local_update import local_update
from parley.objectives.moments import bounded_moments, moments_bound, moments_sensitivity
from parley.objectives.score import bounded_score, score_sensitivity, target_interval
from parley.queries import Answer, GradientQuery, Query, ScoreQuery, StatisticsQuery, UpdateQuery
from parley.terms import Terms
from parley.validate import LARGEST, Floats


@dataclass(frozen=True, eq=False)
class Agreement:
    """Everything fixed when terms are accepted; nothing in it depends on a record's content except the designs."""

    terms: Terms
    hash: str
    preparation: Preparation
    public: Design | None
    objective: MarginObjective
    train: Design
    held_out: Design
    bound: RecordBound
    plan: Plan  # the noise, and what each round costs
    score: Laplace | None  # the noise of the one score, if one is agreed on

    def check(self, query: Query, worlds: tuple[int, ...]) -> None:
        """Refuse a query of the wrong kind, or a parameter out of place, before any record is touched."""
        if type(query.round) is not int or not isinstance(query.id, str) or not 1 <= len(query.id) <= 200:
            raise Malformed("query: expected a whole number as its round and 1 to 200 characters as its id")
        learning, scores = self.terms.learning, isinstance(query, ScoreQuery)
        if scores and self.score is None:
            raise Malformed("query: a score was asked for, and these terms agree on none (privacy.score_epsilon)")
        if self.score is not None and scores != (query.round > learning.horizon):
            turn = f"round {learning.horizon + 1} for the score" if scores else f"at most {learning.horizon} rounds of training"
            raise OutOfOrder(f"round {query.round} was asked: expected {turn}")
        asked = StatisticsQuery if learning.asks_statistics else UpdateQuery if learning.asks_updates else GradientQuery
        if not scores and not isinstance(query, asked):
            raise Malformed(f"query: expected the kind that the agreed algorithm asks, {learning.algorithm}")
        if isinstance(query, StatisticsQuery):
            return
        if isinstance(query, UpdateQuery) and (type(query.steps) is not int or query.steps != learning.local_steps):
            raise Malformed(f"steps: expected the agreed number of local steps, {learning.local_steps}")
        theta = query.start if isinstance(query, UpdateQuery) else query.theta
        expected = (*worlds, self.train.width)
        if not isinstance(theta, np.ndarray) or theta.dtype != np.float64 or theta.shape != expected:
            raise Malformed(f"theta: expected float64 numbers of shape {expected}")
        size = np.abs(theta).max()
        if not size <= LARGEST:
            raise Malformed(f"theta: expected finite numbers, at most {LARGEST:g} in size")
        radius = (
            None if scores else self.terms.model.radius
        )  # a score is bounded anywhere; an average may leave the box by a rounding
        if radius is not None and not size <= radius:
            raise OutsideBox(f"theta: expected every coordinate within the agreed box, at most {radius:g} in size")

    def bounded(self, query: Query, worlds: tuple[int, ...]) -> Bounded:
        """The exact answer to a checked query, with its sensitivity."""
        k = self.terms.privacy.records_per_person
        if isinstance(query, GradientQuery):
            return self.objective.gradient(self.train, query.theta, self.bound, k)
        if isinstance(query, UpdateQuery):
            local = local_update(self.terms, self.objective, self.preparation)
            return local.bounded(self.objective, self.train, query.start, self.bound, k)
        if isinstance(query, ScoreQuery):
            return bounded_score(self.preparation, self.held_out, query.theta, k)
        once = bounded_moments(self.train, self.bound, k)
        return replace(once, value=np.broadcast_to(once.value, (*worlds, len(once.value))).copy())

    def terms_of_release(self, query: Query) -> tuple[Laplace | Gaussian, Callable[[int], Fraction], int]:
        """The noise for a checked query, what k answers cost together if it is the k-th, and how many records its answer is a mean over.

        Formal guarantee: the k - 1 training answers before a score cost `plan.spent_after(k - 1)` at the terms' delta, the score costs
        its own epsilon, and the two add up (simple composition; held-out rows are other rows, but maybe the same people's).
        """
        if self.score is None or not isinstance(query, ScoreQuery):
            return self.plan.mechanism, self.plan.spent_after, len(self.train)
        return self.score, lambda answers: self.plan.spent_after(answers - 1) + self.terms.score_epsilon, len(self.held_out)


class Owner:
    """One organisation with its private table.

    With a durable `ledger` its answers are releases: noise is exact (`SafeNoise`) and a query holds one parameter. Without one the
    owner takes part in studies only: noise is seeded NumPy noise, replicates are an axis, and nothing it says may leave the machine.

    Formal guarantee (durable ledger): everything this owner ever sends about its table, taken together, is lifetime-DP for
    replace-one adjacency at the level of persons, and what it sends under one agreement is (eps_l, delta)-DP: each of T answers is
    a mean gradient or the mean direction of a local walk (or the one answer the mean second moments) whose sensitivity is enforced
    by clipping or by bounds, with the noise of the agreement's plan (`accounting.plan`), queries chosen adaptively; where a score is
    agreed on, training has eps_l less the score's part, and the score's shares carry Laplace noise for that part. With records
    shared by kappa owners the noise is that of eps_l/kappa, and the debit of eps_l covers the other copies. All answers under one
    agreement are about one table.
    """

    def __init__(self, name: str, table: Table, ledger: AnyLedger | None = None, noise: Noise | None = None) -> None:
        self.name = name
        self.ledger: AnyLedger = StudyLedger() if ledger is None else ledger
        self._digest: bytes | None = None  # of the table: studies have no use for it
        if self.releases:
            self.table, self._digest = digested_table(table)
        else:
            self.table = open_table(table)
        self.source = None if isinstance(table, pd.DataFrame) else Path(table).resolve()
        self.noise: Noise = noise if noise is not None else (SafeNoise() if self.releases else FastNoise())
        if self.releases and not self.noise.safe:
            raise GuaranteeError(f"{name}: an owner with a durable ledger releases, so its noise must be safe; leave `noise` out")
        self._worlds: tuple[int, ...] = ()
        self._prepared: dict[str, Agreement] = {}
        self._accepted: set[str] = set()

    @property
    def releases(self) -> bool:
        """Whether its answers may leave: they are debited durably and carry safe noise."""
        return self.ledger.durable

    def prepare(self, terms: Terms) -> Agreement:
        """Everything that acceptance would fix, checked against the table; nothing is reserved."""
        known = self._prepared.get(terms.hash)
        if known is None or known.terms.model.public != terms.model.public:
            self._prepared[terms.hash] = known = self._prepare(terms)
        return known

    def accept(self, terms: Terms) -> Agreement:
        """Prepare the table for these terms and reserve their budget. Repeating it changes nothing; with another table it is refused."""
        agreement = self.prepare(terms)
        self.ledger.accept(self.reservation(agreement.terms), self._digest)
        self._accepted.add(agreement.hash)
        return agreement

    def reservation(self, terms: Terms) -> Reservation:
        """What accepting these terms sets aside."""
        return reservation(terms, self.name)

    def answer(self, query: Query) -> Answer:
        """The noisy answer, or a `Refusal` that spends nothing."""
        return self.settle(query)[0]

    def settle(self, query: Query) -> tuple[Answer, Account]:
        """The same, and where the agreement stands afterwards.

        Check and bound; then add noise, and in one ledger transaction debit and record. Only what was recorded is returned. A value that
        is not finite, which no table can cause, would end here, before the ledger is written to.
        """
        agreement = self.agreement(query.terms)
        agreement.check(query, self._worlds)
        mechanism, spent_after, records = agreement.terms_of_release(query)

        def release() -> Callable[[], Floats]:
            bounded = agreement.bounded(query, self._worlds)
            if self.releases:  # now rather than when the ledger is being written to; a study's mechanism does the same
                require(bounded, mechanism.norm, mechanism.sensitivity)
            return partial(mechanism.release, bounded, self.noise)

        value, account = self.ledger.answer(query, spent_after, mechanism.event.to_dict(), release)
        return Answer(query.id, self.name, records, value), account

    def accepted(self, terms_hash: str) -> bool:
        """Whether it is ready to answer under these terms."""
        return terms_hash in self._accepted

    def agreement(self, terms_hash: str) -> Agreement:
        """The agreement with this hash, or a refusal."""
        if not self.accepted(terms_hash):
            raise UnknownTerms(f"{self.name}: nobody here accepted these terms")
        return self._prepared[terms_hash]

    def rehearse(self, seed: np.random.SeedSequence | int, replicates: int) -> "Owner":
        """A copy for one study of `replicates` parallel runs: fresh study ledger, seeded noise, the table prepared once."""
        if self.releases:
            raise GuaranteeError(f"{self.name}: an owner with a durable ledger does not take part in studies")
        if isinstance(self.table, ParquetFolder):
            raise DataError(f"{self.name}: a folder of Parquet files is streamed, which is for releases; studies need one file")
        copy = object.__new__(Owner)
        copy.name, copy.table, copy.source = self.name, self.table, self.source
        copy._prepared, copy._accepted = self._prepared, set()  # the table is prepared once for all studies
        copy.ledger, copy._worlds, copy._digest = StudyLedger(), (replicates,), None
        copy.noise = self.noise if self.noise.safe else FastNoise(seed)
        return copy

    def _prepare(self, terms: Terms) -> Agreement:
        part, privacy = terms.owner(self.name), terms.privacy
        if terms.model.public is not None and self.source is not None and holds(self.source, Path(terms.model.public)):
            raise DataError(
                f"{self.name}: model.public is this owner's own table, part of it or a copy; a public sample must hold nobody's "
                "private rows"
            )
        same_table = (terms.model, privacy.person, privacy.records_per_person, part.records)
        for a in self._prepared.values():
            known = a.terms.privacy
            if same_table == (a.terms.model, known.person, known.records_per_person, a.terms.owner(self.name).records):
                preparation, public, train, held_out = a.preparation, a.public, a.train, a.held_out
                break
        else:
            preparation, public = fit_preparation(
                terms, self.table.example() if isinstance(self.table, ParquetFolder) else self.table
            )
            train, held_out = preparation.designs(self.table, terms, self.name)
        objective = objectives.make(terms.model)
        bound, plan = owner_plan(terms, self.name, preparation, objective)
        return Agreement(
            terms=terms,
            hash=terms.hash,
            preparation=preparation,
            public=public,
            objective=objective,
            train=train,
            held_out=held_out,
            bound=bound,
            plan=plan,
            score=score_noise(terms, self.name, preparation),
        )


def reservation(terms: Terms, name: str) -> Reservation:
    """What an owner of this name sets aside for these terms."""
    budget = exact(terms.owner(name).epsilon), Fraction(str(terms.privacy.delta))
    return Reservation(terms.hash, name, terms.learning.learner, *budget, terms.rounds, terms.learning.straggler == "skip")


def owner_plan(terms: Terms, name: str, preparation: Preparation, objective: MarginObjective) -> tuple[RecordBound, Plan]:
    """How an owner's answers are bounded and noised: a function of the terms and public knowledge alone."""
    privacy, rows = terms.privacy, terms.train_rows(name)
    norm, slack = mechanism_norm(privacy.mechanism), summation_slack(rows, preparation.width)
    statistics = terms.learning.asks_statistics
    sensitivity_of: Callable[[RecordBound, int, float, int], float] = moments_sensitivity if statistics else RecordBound.sensitivity
    if terms.learning.asks_updates:  # records are clipped in L2 whatever the noise: local steps are non-expansive there alone
        norm, sensitivity_of = "l2", local_update(terms, objective, preparation).sensitivity
    bound = moments_bound(preparation, terms, norm) if statistics else objective.record_bound(preparation, terms, norm)
    if bound is None:
        raise TermsError(
            "privacy.clip: expected a number, or bounds of every feature and the target (declared, or from a public sample): "
            "without either nothing limits what one record can do"
        )
    if not bound.value > 0:
        raise TermsError(
            "model.bounds: no feature can differ from 0 within its bounds, declared or the public sample's: nothing to learn"
        )
    budget = terms.training_epsilon(name), Fraction(str(privacy.delta))
    sensitivity = sensitivity_of(bound, rows, slack, privacy.records_per_person)
    return bound, make_plan(privacy.mechanism, *budget, terms.learning.horizon, sensitivity, privacy.shared_records)


def score_noise(terms: Terms, name: str, preparation: Preparation) -> Laplace | None:
    """The noise of an owner's score, always Laplace noise for `privacy.score_epsilon`; None where the terms agree on no score.

    Like the training noise it follows from the terms and public knowledge alone, so a learner knows how far to trust a score.
    """
    if terms.privacy.score_epsilon is None:
        return None
    if not terms.model.classifies:
        target_interval(preparation)  # refuses a target without public bounds
    privacy, rows = terms.privacy, terms.held_out_rows(name)
    sensitivity = score_sensitivity(terms.model, rows, summation_slack(rows, preparation.width), privacy.records_per_person)
    return Laplace.calibrate(terms.score_epsilon / privacy.shared_records, sensitivity)
