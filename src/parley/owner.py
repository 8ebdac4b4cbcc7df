"""An owner answers a query, having debited its ledger first. The only place where data meet a query."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from parley import objectives
from parley.accounting import exact, per_round
from parley.data import Design, Preparation, fit_preparation, read_table
from parley.data.table import Table
from parley.errors import GuaranteeError, Malformed, OutsideBox, TermsError, UnknownTerms
from parley.ledger import AnyLedger, StudyLedger
from parley.mechanisms import FastNoise, Laplace, Noise, SafeNoise
from parley.objectives import MarginObjective, RecordBound
from parley.queries import Answer, GradientQuery
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
    cost: Fraction  # debited for each answer
    mechanism: Laplace

    def check(self, query: GradientQuery, worlds: tuple[int, ...]) -> None:
        """Refuse a parameter of the wrong kind or place before any record is touched."""
        theta = query.theta
        expected = (*worlds, self.train.width)
        if not isinstance(theta, np.ndarray) or theta.dtype != np.float64 or theta.shape != expected:
            raise Malformed(f"theta: expected float64 numbers of shape {expected}")
        if not np.abs(theta).max() <= LARGEST:
            raise Malformed(f"theta: expected finite numbers, at most {LARGEST:g} in size")
        radius = self.terms.model.radius
        if radius is not None and not np.abs(theta).max() <= radius:
            raise OutsideBox(f"theta: expected every coordinate within the agreed box, at most {radius:g} in size")


class Owner:
    """One organisation with its private table.

    With a durable `ledger` its answers are releases: noise is OpenDP's and a query holds one parameter. Without one the owner takes
    part in studies only: noise is seeded NumPy noise, replicates are an axis, and nothing it says may leave the machine.

    Formal guarantee (durable ledger): everything this owner ever sends about its table, taken together, is lifetime-DP for
    replace-one adjacency at the level of persons, and what it sends under one agreement is eps_l-DP: each of T answers is
    a mean gradient whose sensitivity is enforced by clipping or by bounds, with Laplace noise for eps_l/(kappa T); pure costs
    add up, adaptively chosen queries included; the debit of eps_l/T covers the kappa - 1 other copies of a shared record.
    """

    def __init__(self, name: str, table: Table, ledger: AnyLedger | None = None, noise: Noise | None = None) -> None:
        self.name = name
        self.table = read_table(table)
        self.ledger: AnyLedger = StudyLedger() if ledger is None else ledger
        self.noise: Noise = noise if noise is not None else (SafeNoise() if self.releases else FastNoise())
        if self.releases and not self.noise.safe:
            raise GuaranteeError(f"{name}: an owner with a durable ledger releases, so its noise must be safe; leave `noise` out")
        self._worlds: tuple[int, ...] = ()
        self._agreements: dict[str, Agreement] = {}

    @property
    def releases(self) -> bool:
        """Whether its answers may leave: they are debited durably and carry safe noise."""
        return self.ledger.durable

    def accept(self, terms: Terms) -> Agreement:
        """Prepare the table for these terms and reserve their budget. Repeating it changes nothing."""
        agreement = self._agreements.get(terms.hash)
        if agreement is None:
            agreement = self._prepare(terms)
            self._agreements[terms.hash] = agreement
        part = terms.owner(self.name)
        self.ledger.accept(agreement.hash, terms.learning.learner, exact(part.epsilon), terms.learning.horizon)
        return agreement

    def answer(self, query: GradientQuery) -> Answer:
        """The noisy mean gradient, or a `Refusal` that spends nothing.

        Check, then - inside one ledger transaction - bound, add noise, record; only what was recorded is returned.
        """
        agreement = self.agreement(query.terms)
        agreement.check(query, self._worlds)
        k = agreement.terms.privacy.records_per_person

        def release() -> Floats:
            bounded = agreement.objective.gradient(agreement.train, query.theta, agreement.bound, k)
            return agreement.mechanism.release(bounded, self.noise)

        value = self.ledger.answer(query, agreement.cost, agreement.mechanism.event, release)
        return Answer(query.id, self.name, len(agreement.train), value)

    def agreement(self, terms_hash: str) -> Agreement:
        """The agreement with this hash, or a refusal."""
        if terms_hash not in self._agreements:
            raise UnknownTerms(f"{self.name}: nobody here accepted these terms")
        return self._agreements[terms_hash]

    def rehearse(self, seed: np.random.SeedSequence | int, replicates: int) -> "Owner":
        """A copy for one study of `replicates` parallel runs: fresh study ledger, seeded noise, the table prepared once."""
        if self.releases:
            raise GuaranteeError(f"{self.name}: an owner with a durable ledger does not take part in studies")
        copy = object.__new__(Owner)
        copy.name, copy.table, copy._agreements = self.name, self.table, self._agreements
        copy.ledger, copy._worlds = StudyLedger(), (replicates,)
        copy.noise = self.noise if self.noise.safe else FastNoise(seed)
        return copy

    def _prepare(self, terms: Terms) -> Agreement:
        part, learning, privacy = terms.owner(self.name), terms.learning, terms.privacy
        same_data = [
            a
            for a in self._agreements.values()
            if a.terms.model == terms.model
            and a.terms.privacy.person == privacy.person
            and a.terms.privacy.records_per_person == privacy.records_per_person
        ]
        if same_data and len(same_data[0].train) == terms.train_rows(self.name):
            known = same_data[0]
            preparation, public, train, held_out = known.preparation, known.public, known.train, known.held_out
        else:
            preparation, public = fit_preparation(terms, self.table)
            train, held_out = preparation.designs(self.table, terms, self.name)
        objective = objectives.make(terms.model)
        bound = objective.record_bound(preparation, terms, Laplace.norm)
        if bound is None:
            raise TermsError(
                "privacy.clip: expected a number, or bounds of every feature and the target (declared, or from a public sample): "
                "without either nothing limits what one record can do"
            )
        epsilon = exact(part.epsilon)
        sensitivity = bound.sensitivity(len(train), train.summation_slack, privacy.records_per_person)
        return Agreement(
            terms=terms,
            hash=terms.hash,
            preparation=preparation,
            public=public,
            objective=objective,
            train=train,
            held_out=held_out,
            bound=bound,
            cost=per_round(epsilon, learning.horizon),
            mechanism=Laplace.calibrate(per_round(epsilon, learning.horizon) / privacy.shared_records, sensitivity),
        )
