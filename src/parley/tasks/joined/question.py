"""What an owner of joined tables is asked, once: its whole table, in shares that hosts match with the other owners'."""

from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import ClassVar, Never, Self

from parley.data.preparation import Preparation
from parley.data.sources import Table
from parley.errors import GuaranteeError
from parley.privacy.accounting.series import GaussianSeries
from parley.privacy.events import MatchedEvent
from parley.privacy.mechanisms import Bounded, Extent
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.privacy.sharing.matching.packed_rows import pack_rows
from parley.privacy.sharing.ring import Keystream
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, Tables
from parley.tasks.joined.plan import JoinPlan, join_plan
from parley.tasks.joined.tables import PeopleTable, people_table
from parley.tasks.records import WholeTable
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class JoinedPreparation(Preparation):
    """The preparation of the columns of all owners, which fits each owner's table to its own part of a row."""

    plan: JoinPlan = field(kw_only=True)

    @classmethod
    def from_terms(cls, terms: Terms) -> Self:
        """Return the preparation that terms and public knowledge fix."""
        plan = join_plan(terms)
        return cls(**{each.name: getattr(plan.whole, each.name) for each in fields(plan.whole)}, plan=plan)

    def under(self, terms: Terms) -> "JoinedPreparation":
        """Return the preparation by other terms: the plan holds their grid, noise, clips and keys."""
        return self if terms.hash == self.plan.terms.hash else JoinedPreparation.from_terms(terms)

    def designs(self, table: Table, terms: Terms, name: str) -> tuple["PeopleRows", "PeopleRows"]:
        """Return the owner's people as records to learn from; who is held out takes part as nobody."""
        rows = PeopleRows(people_table(self.plan, name, table))
        return rows, rows.empty()


@dataclass(frozen=True, eq=False)
class PeopleRows(WholeTable):
    """An owner's prepared rows, one a person; None: no rows."""

    called: ClassVar[str] = "joined tables"

    people: PeopleTable | None

    def __len__(self) -> int:
        return 0 if self.people is None else len(self.people.people)

    @property
    def width(self) -> int:
        return 0 if self.people is None else self.people.columns.width

    @property
    def untargeted(self) -> int:
        return 0 if self.people is None else int((~self.people.present).sum())

    def empty(self) -> "PeopleRows":
        """Return no rows."""
        return PeopleRows(None)


@dataclass(frozen=True, eq=False)
class JoinedQuery(Query):
    """The sum of z z' over the people whom all tables hold (`law`), as an upper triangle."""

    kind: ClassVar[str] = "joined-moments"


@dataclass(frozen=True)
class JoinedSeries(GaussianSeries):
    """One release: the moments with normal noise, and the number of matches, which hosts see, with dummies.

    Formal guarantee: epsilon and delta of both parts add up to those of the terms.
    """

    match_epsilon: float = 0.0
    match_delta: float = 0.0

    @property
    def event(self) -> MatchedEvent:
        multiplier = self.mechanism.event.multiplier
        return MatchedEvent(multiplier, match_epsilon=self.match_epsilon, match_delta=self.match_delta)


@dataclass(frozen=True, eq=False)
class JoinedQuestion(Question):
    """An owner's table, shared bit by bit with three hosts.

    Formal guarantee: what the hosts open has the sensitivity of `law.joined_sensitivity`, whatever any owner shares:
    the hosts refuse a row beyond its owner's clip and a key that comes twice. Hosts see sizes and a number of matches
    with dummies (`sharing.matching.match`). Keys of rows that take no part follow from the ledger's secret, so the
    table that is shared is the same when the question is asked again.
    """

    asks = JoinedQuery

    plan: JoinPlan
    owner: str

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        plan = plan_of(context)
        law, records = plan.law, context.terms.owner(owner).records
        largest = (1 << law.digits) / law.unit
        return cls(
            parameters=context.parameters,
            records=records,
            size=law.noise.size,
            norm="l2",
            sensitivity=law.noise.sensitivity / records,
            extent=Extent(-(largest**2), largest**2, law.noise.sensitivity, "l2"),
            bound=None,
            plan=plan,
            owner=owner,
        )

    @property
    def draws(self) -> bool:
        return True

    @property
    def shares_bits(self) -> bool:
        return True

    @property
    def public_numbers(self) -> dict[str, float]:
        law = self.plan.law
        return {"unit": float(law.unit), "moved": float(law.moved)} | {
            f"clip of {name}": float(clip)
            for name, clip in zip((each.name for each in self.plan.owners), law.clips, strict=True)
        }

    def shared_series(self, epsilon: Fraction, delta: Fraction) -> JoinedSeries:
        noise, join = self.plan.law.noise.over(self.records), self.plan.join
        return JoinedSeries(noise, epsilon, delta, 1, match_epsilon=join.epsilon, match_delta=join.delta)

    def shared_words(
        self, query: Query, tables: Tables, replicates: tuple[int, ...], seed: bytes, noise: SharedNoise
    ) -> Words:
        people, law = tables.train, self.plan.law
        if not isinstance(people, PeopleRows) or people.people is None:
            raise GuaranteeError("join: expected an owner's people")
        clip, words = self.plan.clip(self.owner), Keystream(seed).words
        keyed = people.people.keyed(law, clip, query.terms_hash, words)
        return pack_rows(keyed).reshape(-1)

    def exact(self, query: Query, tables: Tables) -> Never:
        raise GuaranteeError("join: one owner alone has no answer; hosts match the tables of all owners")

    def bounded(self, query: Query, tables: Tables, replicates: tuple[int, ...] = (), seed: bytes = b"") -> Bounded:
        return self.exact(query, tables)

    def words(self) -> str:
        return f"{self.size:,} sums of products of two columns, over the people whom all tables hold"


def plan_of(context: Context) -> JoinPlan:
    """Return the plan of resolved terms."""
    if not isinstance(context.preparation, JoinedPreparation):
        raise GuaranteeError("join: expected the preparation of joined tables")
    return context.preparation.plan


def opened_sums(value: Floats, records: int, unit: int) -> Floats:
    """Return the opened sums in squared grid steps, from the mean that an answer holds."""
    return value * (records * unit**2)
