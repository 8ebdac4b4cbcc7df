"""An owner answers a query, having debited its ledger first. The only place where data meet a query."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd

from parley.data.sketch import TableDigest, digested_table
from parley.data.sources import Table, open_table
from parley.errors import DataError, GuaranteeError, UnknownTerms
from parley.owner.ledger import AnyLedger, Ledger, StudyLedger
from parley.owner.ledger.account import RHO_TOLERANCE, Account, Reservation
from parley.owner.other_books import OtherBooks, OwnerBooks, find_other_books, noting_table
from parley.privacy.accounting import series_rho
from parley.privacy.mechanisms import FastNoise, Noise, SafeNoise
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.privacy.sharing.ring import Shares
from parley.protocol.queries import Answer, Query, Tables
from parley.protocol.setup import Setup, resolve
from parley.protocol.stages import Part, Schedule, Stage, make_schedule, uses
from parley.protocol.task import task_of
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Agreement:
    """Terms that an owner's table was prepared for: the common setup, this owner's part of it, the prepared
    rows."""

    setup: Setup
    part: Part
    tables: Tables

    @property
    def hash(self) -> str:
        return self.setup.hash


@dataclass(frozen=True, eq=False)
class Contribution:
    """An owner's exact sum in grid units, and its shares: `words` never leave the owner; a study has no
    shares."""

    query: str
    noise: SharedNoise
    words: Words
    shares: Shares | None = None


class Owner:
    """One organisation with its private table.

    With a durable ledger its answers are releases: noise is exact (`SafeNoise`) and a query holds one parameter.
    Without one the owner takes part in studies only: noise is seeded NumPy noise, replicates are an axis, and nothing
    it says may leave the machine.

    Parameters
    ----------
    name
        As the terms have it.
    table
        A data frame, a file, or any `TableSource`.
    ledger
        A `Ledger`, which makes its answers releases.
    noise
        Where noise is drawn from; default: as above.

    Formal guarantee (durable ledger): everything this owner ever sends about its table, taken together, is lifetime-DP
    for replace-one adjacency at the level of persons, and what it sends under one agreement is (eps_l, delta)-DP: every
    answer is a mean whose sensitivity is enforced by clipping or by bounds (`queries`), with the noise of its stage
    (`setup.Part`), queries chosen adaptively. With records shared by kappa owners the noise is that of eps_l/kappa, and
    the debit of eps_l covers the other copies. All answers under one agreement are about one table.

    Examples
    --------
    >>> import pandas as pd
    >>> Owner("bank-a", pd.DataFrame({"rate": [7.5, 9.1]})).releases
    False
    """

    def __init__(self, name: str, table: Table, ledger: AnyLedger | None = None, noise: Noise | None = None) -> None:
        self.name = name
        self.ledger: AnyLedger = StudyLedger() if ledger is None else ledger
        self._digest: TableDigest | None = None  # of the table: studies have no use for it
        if self.releases:
            self.table, self._digest = digested_table(table)
        else:
            self.table = open_table(table)
        self.noise: Noise = noise if noise is not None else (SafeNoise() if self.releases else FastNoise())
        if self.releases and not self.noise.safe:
            raise GuaranteeError(
                f"{name}: an owner with a durable ledger releases answers, so the noise must be safe; omit the "
                "argument `noise`"
            )
        self._replicates: tuple[int, ...] = ()
        self._prepared: dict[str, Agreement] = {}
        self._accepted: set[str] = set()
        self._encoded: tuple[str, Words] = (
            "",
            np.empty(0, dtype=np.uint64),
        )  # the latest sum: asked again it need not be computed again

    @property
    def releases(self) -> bool:
        """Whether its answers may leave: they are debited durably and carry safe noise."""
        return self.ledger.durable

    @property
    def example(self) -> pd.DataFrame:
        """Its columns, for terms that list none."""
        return self.table.example

    def prepare(self, agreed: Terms | Setup) -> Agreement:
        """Return everything that acceptance would fix, checked against the table; nothing is reserved."""
        terms = agreed if isinstance(agreed, Terms) else agreed.terms
        if self.releases:
            terms.require_release()
        known = self._prepared.get(terms.hash)
        if known is None or _files_of(known.setup.terms) != _files_of(terms):
            self._require_foreign_sample(terms)
            setup = self.resolve(terms) if isinstance(agreed, Terms) else agreed
            self._prepared[terms.hash] = known = Agreement(setup, setup.part(self.name), self._tables(setup))
        return known

    def resolve(self, terms: Terms) -> Setup:
        """Return the setup of these terms, from its columns if they list none; a public sample is read once."""
        for known in self._prepared.values():
            before = known.setup.terms
            if _columns_of(before) == _columns_of(terms):
                return known.setup.under(terms)
        return resolve(terms, self.example)

    def accept(self, agreed: Terms | Setup, other_books: str | None = None, anyway: bool = False) -> Agreement:
        """Prepare the table for these terms and reserve their budget. Repeating it changes nothing; another table is
        refused. A table whose people another ledger of this account was noted for is refused (`OtherBooksError`)
        without `other_books`, the reason for a second one, which the ledger keeps. Where only some people are shared,
        `anyway` says that they are others."""
        agreement = self.prepare(agreed)
        terms, digest = agreement.setup.terms, self._digest
        if self.releases:
            agreement.part.require_sound_arithmetic()
        reserved = reservation(terms, self.name, agreement.setup.schedule)
        if digest is None:
            self.ledger.accept(reserved)
        elif not (isinstance(self.ledger, Ledger) and self.ledger.remembered):
            self.ledger.accept(reserved, digest.cells, digest.schema)
        else:
            books = OwnerBooks(self.name, self.table, digest.cells, terms, self.ledger)
            with noting_table(books, self.ledger, other_books, anyway) as reason:
                self.ledger.accept(reserved, digest.cells, digest.schema, reason)
        self._accepted.add(agreement.hash)
        return agreement

    def other_books(self, terms: Terms) -> list[OtherBooks]:
        """Return other ledgers of this account with people of its table, on top of which these terms would
        come."""
        if self._digest is None or not isinstance(self.ledger, Ledger):
            return []
        return find_other_books(OwnerBooks(self.name, self.table, self._digest.cells, terms, self.ledger))

    def reservation(self, terms: Terms) -> Reservation:
        """Return what accepting these terms sets aside."""
        return reservation(terms, self.name)

    def answer(self, query: Query) -> Answer:
        """Return the noisy answer, or raise a `Refusal` that spends nothing. All answers are kept: an in-process
        learner may start again at round 1."""
        return self.answer_with_account(query, prune=False)[0]

    def answer_with_account(self, query: Query, prune: bool = True) -> tuple[Answer, Account]:
        """Return the answer, and where the agreement stands afterwards. Check and bound; then add noise, and in one
        ledger transaction debit and record. Only what was recorded is returned. A value that is not finite, which no
        table can cause, would end here, before the ledger is written to. `prune`: the learner keeps its state, of long
        answers the latest stay."""
        agreement = self.agreement(query.terms_hash)
        stage = agreement.part.check(query, self._replicates)
        mechanism = stage.series.mechanism
        if isinstance(mechanism, SharedNoise):  # what its ledger holds of it is for hosts alone
            raise GuaranteeError(
                f"{self.name}: under these terms the owner sends shares instead of a released answer; call `contribute`"
            )

        what = query, agreement.tables, self._replicates, mechanism, self.noise
        cost, event = partial(agreement.part.cost, query.round), stage.event(query.round).to_dict()
        value, account = self.ledger.answer(query, cost, event, partial(stage.question.released, *what), prune)
        return Answer(query.id, self.name, stage.question.records, stage.question.sent(query, value)), account

    def contribute(self, query: Query) -> tuple[Contribution, Account]:
        """Return the bounded answer as a sum, for hosts that add one noise to everybody's; and where the agreement
        stands. Check and bound; then in one ledger transaction debit, and record what its shares follow from. Asked
        again, the answer is computed again and must come out the same (`ring.Shares`)."""
        agreement = self.agreement(query.terms_hash)
        stage = agreement.part.check(query, self._replicates)
        noise = stage.series.mechanism
        if not isinstance(noise, SharedNoise):
            raise GuaranteeError(
                f"{self.name}: under these terms each owner draws its own noise, and shares of an exact answer would "
                "have no noise; call `answer`"
            )
        key, hosts, fresh_shares = self.ledger.secret, agreement.setup.terms.noise.hosts, list[Shares]()
        bits = stage.question.shares_bits

        def release() -> Callable[[], Floats]:
            words = self._sum(query, agreement, noise)
            if not self.releases:
                return lambda: words.view(np.float64)  # a ledger stores words of eight bytes, whatever they mean

            def draw() -> Floats:
                fresh_shares[:] = [Shares.from_words(words, key, query.content, hosts, bits)]
                return fresh_shares[0].record.view(np.float64)

            return draw

        cost = partial(agreement.part.cost, query.round)
        stored, account = self.ledger.answer(query, cost, stage.series.event.to_dict(), release)
        record = stored.view(np.uint64)
        if not self.releases:
            return Contribution(query.id, noise, record), account
        words = self._sum(query, agreement, noise)
        fresh = bool(fresh_shares) and np.array_equal(fresh_shares[0].record, record)
        shares = fresh_shares[0] if fresh else Shares.from_record(record, words, key, query.content, hosts, bits)
        return Contribution(query.id, noise, words, shares), account

    def _sum(self, query: Query, agreement: Agreement, noise: SharedNoise) -> Words:
        """Return the bounded answer as a sum in grid units; a release keeps it until another question is
        asked."""
        content, words = self._encoded
        if content != query.content or not self.releases:
            stage, key = agreement.part.stage(query.round), self.ledger.secret
            # Computed again, the answer must be about the same rows: their draw follows from a secret and the question.
            seed = hmac.digest(key, b"draw/" + query.content.encode(), "sha256") if key else self._seed(stage)
            words = stage.question.shared_words(query, agreement.tables, self._replicates, seed, noise)
            self._encoded = query.content, words
        return words

    def _seed(self, stage: Stage) -> bytes:
        """Return the seed of a secret draw, for one answer."""
        return self.noise.seed() if stage.question.draws else b""

    def accepted(self, terms_hash: str) -> bool:
        """Return whether it is ready to answer under these terms."""
        return terms_hash in self._accepted

    def agreement(self, terms_hash: str) -> Agreement:
        """Return the agreement with this hash, or refuse."""
        if not self.accepted(terms_hash):
            raise UnknownTerms(
                f"{self.name}: this owner has not accepted these terms; accept them with Owner.accept or parley "
                "owner accept"
            )
        return self._prepared[terms_hash]

    def simulate(self, seed: np.random.SeedSequence | int, replicates: int) -> "Owner":
        """Return a copy for one study of `replicates` parallel runs: fresh ledger, seeded noise, same
        prepared rows."""
        if self.releases:
            raise GuaranteeError(
                f"{self.name}: an owner with a durable ledger does not take part in simulations; create the owner "
                "without a ledger"
            )
        own = self._in_memory if self.table.streams else self
        copy = Owner(self.name, own.table, noise=self.noise if self.noise.safe else FastNoise(seed))
        copy._replicates = (replicates,)
        copy._prepared = own._prepared  # the table is prepared once for all studies
        return copy

    @cached_property
    def _in_memory(self) -> "Owner":
        """The same owner, its prepared rows held in memory."""
        return Owner(self.name, self.table.gathered())

    def _tables(self, setup: Setup) -> Tables:
        """Return the prepared table; rows that other terms prepared alike are not prepared again."""
        terms = setup.terms
        same = _prepared_by(terms, self.name)
        for known in self._prepared.values():
            # The same object, not one like it: a public sample may have changed under its name, and bounds come from
            # the setup.
            if known.setup.preparation is setup.preparation and _prepared_by(known.setup.terms, self.name) == same:
                return known.tables
        expected = setup.task.features(terms, self.example)
        if expected is not None and expected != setup.preparation.features:
            raise DataError(
                f"{self.name}: the table's columns differ from the other owners' columns; list the common columns "
                "under model.features in the terms"
            )
        train, held_out = setup.preparation.designs(self.table, terms, self.name)
        return Tables(train, held_out) if self.releases else Tables(train.for_studies(), held_out.for_studies())

    def _require_foreign_sample(self, terms: Terms) -> None:
        if terms.model.public is not None and self.table.holds(Path(terms.model.public)):
            raise DataError(
                f"{self.name}: the public sample (model.public) is this owner's own table, a part or a copy of the "
                "table; use a sample without private rows"
            )


def _files_of(terms: Terms) -> tuple[str | None, str | None]:
    """Return where this party keeps what is public."""
    return terms.model.public, terms.model.preparation


def _columns_of(terms: Terms) -> tuple[object, ...]:
    """Return what decides how columns are read: cells as they are for column statistics, else prepared."""
    return terms.model, terms.privacy.person, terms.task


def _prepared_by(terms: Terms, name: str) -> tuple[object, ...]:
    """Return what decides how an owner's table is prepared."""
    return terms.model, terms.privacy.person, terms.privacy.records_per_person, terms.owner(name).records


def reservation(terms: Terms, name: str, schedule: Schedule | None = None) -> Reservation:
    """Return what an owner of this name sets aside for these terms."""
    budget = terms.promised_epsilon(name), Fraction(str(terms.privacy.delta))
    schedule = make_schedule(terms) if schedule is None else schedule
    last = terms.rounds if terms.privacy.score_epsilon is not None else schedule.rounds_of(name)[-1]
    # a round may be aborted before it is heard of
    gaps = terms.learning.straggler == "skip" or not schedule.everybody or terms.noise.aborts
    rho = _rho(terms, name, uses(terms.learning, schedule.rounds_of(name)))
    return Reservation(terms.hash, name, terms.learning.learner, *budget, last, gaps, rho)


def _rho(terms: Terms, name: str, answers: int) -> Fraction | None:
    """Return at least what training and score cost together as zCDP (`setup.Part` has their noise), with a margin.
    Laplace noise in every local step costs less than this says, which counts answers. None with secret draws, for a
    mechanism without one, or where delta includes a probability of failure (hosts' noise of finitely many bits, names).
    """
    privacy = terms.privacy
    if terms.noise.approximate or terms.learning.poisson or task_of(terms).noise_may_fail(terms):
        return None
    kappa, delta = privacy.shared_records, Fraction(str(privacy.delta))
    training = series_rho(privacy.mechanism, terms.training_epsilon(name), delta, answers, kappa)
    score = (
        Fraction(0)
        if privacy.score_epsilon is None
        else series_rho("laplace", terms.score_epsilon, Fraction(0), 1, kappa)
    )
    return None if training is None or score is None else (training + score) * (1 + 2 * RHO_TOLERANCE)
