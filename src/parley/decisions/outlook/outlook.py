"""Should we learn together? The outlook that every command reads: what joining means for each owner, and the verdicts,
from draws of everything unknown beforehand (`gains`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from parley.decisions.knowledge.baselines import AloneModel
from parley.decisions.knowledge.privacy_cost import joining_price
from parley.decisions.outlook.gains import Gains
from parley.decisions.planning.noise_terms import each_owner_terms, shared_terms
from parley.errors import SettingError
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.protocol.aggregation import Members
from parley.terms import Terms
from parley.validate import Floats

Verdict = Literal["join", "stay", "unsure"]

SURE_SHARE = 0.9  # share of draws in which it does, to join; in as many it does not, to stay
# of what a single training's chance moves a gain, for verdicts: as the mean of four trainings scatters
SINGLE_TRAINING_SHARE = 0.5
INTERVAL_QUANTILES = (0.05, 0.95)  # of an interval
MAX_LOG_NOISE_FACTOR = 18.0  # logarithm: how many times as loud, or as quiet, noise is looked at
BISECTION_STEPS = 14
INSIDE_WIDENING = 1.25  # an interval from inside than its draws: found on simulated consortia
MAX_DROPPED_SINGLY = 16  # owners that are dropped one at a time; of more, a share at a time


@dataclass(frozen=True)
class Interval:
    """A mean with an interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class OwnerOutlook:
    """One owner's expected test costs for its own customers, in the target's own units."""

    name: str
    records: int
    alone: float  # the best by itself: the public fit, own rows, trees of them
    together: float  # the joint model as it is
    personal: float  # the joint model, corrected by own rows
    gain: Interval  # alone less personal, 90 %
    verdict: Verdict
    together_interval: Interval  # 90 %
    price: float = 0.0  # what joining must save to be worth its privacy cost, where the terms state both
    alone_model: AloneModel = "linear"

    def to_json(self) -> dict[str, Any]:
        """Return one of `owners` in every command's --json."""
        gain = {"gain": self.gain.mean, "gain_low": self.gain.low, "gain_high": self.gain.high}
        costs = {"alone": self.alone, "together": self.together, "personal": self.personal}
        return {"name": self.name, **costs, **gain, "verdict": self.verdict}


@dataclass(frozen=True)
class Consortium:
    """The verdict for all owners, and the members that remain without those who should stay out."""

    verdict: Verdict
    members: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return `consortium` in every command's --json."""
        return {"verdict": self.verdict, "members": list(self.members)}


@dataclass(frozen=True, eq=False)
class Outlook:
    """The consequences of joining by these terms, under equally likely laws."""

    terms: Terms
    laws: tuple[Gains, ...]
    members: Members  # who learns together [N]
    prices: Floats  # what joining must save each owner to be worth its privacy cost [N]
    inside: str | None = None  # the owner whose private rows were seen: never stored, logged, sent or decided by
    least: float = LEAST_GAIN  # share of the cost alone that joining must save, beyond its price, to count
    corrected: bool = True  # whether members correct the joint model by own rows; else they use it as it is

    @classmethod
    def from_laws(cls, terms: Terms, laws: Sequence[Gains], inside: str | None = None) -> "Outlook":
        """Make the outlook of all owners of these terms."""
        prices = [joining_price(terms, part.name) or 0.0 for part in terms.owners]
        return cls(terms, tuple(laws), np.ones(len(terms.owners), bool), np.array(prices), inside)

    @property
    def names(self) -> list[str]:
        return [part.name for part in self.terms.owners]

    @cached_property
    def alone(self) -> Floats:
        """Costs of the best model by itself, in draws [N, D]."""
        return np.concatenate([law.alone for law in self.laws], axis=1)

    @cached_property
    def together(self) -> Floats:
        """Costs of the joint model on each owner's customers, in draws [N, D]."""
        return np.concatenate([law.together for law in self.laws], axis=1)

    @cached_property
    def personal(self) -> Floats:
        """Costs of the personal model, in draws [N, D]."""
        if not self.corrected:
            return self.together
        return np.concatenate([law.personal for law in self.laws], axis=1)

    @property
    def gain(self) -> Floats:
        """The saving by joining, in draws [N, D]; widened for inside views, whose draws scatter too little."""
        gain = np.asarray(self.alone - self.personal)
        if self.inside is None:
            return gain
        middle = gain.mean(axis=1, keepdims=True)
        return np.asarray(middle + INSIDE_WIDENING * (gain - middle))

    @property
    def expected_gain(self) -> Floats:
        """The average saving, the same for owners that are alike [N]."""
        return self._alike(self.gain.mean(axis=1))

    @property
    def net(self) -> Floats:
        """The saving beyond the privacy cost, in draws [N, D]."""
        return np.asarray(self.gain - self.prices[:, None])

    @cached_property
    def chances(self) -> Floats:
        """The share of draws in which joining is worth it [N], on average over four trainings: no decision should rest
        on a single training's rows and noise."""
        beyond = self.net - self.least * self.alone
        sizes = np.concatenate([np.full(law.alone.shape[1] // law.draws, law.draws) for law in self.laws])
        means = np.add.reduceat(beyond, np.cumsum(sizes) - sizes, axis=1) / sizes
        expected = np.repeat(means, sizes, axis=1)
        return self._alike((expected + SINGLE_TRAINING_SHARE * (beyond - expected) > 0).mean(axis=1))

    @property
    def verdicts(self) -> list[Verdict]:
        """Join if joining is worth it in nearly all draws, stay if in hardly any."""
        return ["join" if c >= SURE_SHARE else "stay" if 1 - c >= SURE_SHARE else "unsure" for c in self.chances]

    @cached_property
    def owners(self) -> tuple[OwnerOutlook, ...]:
        """The outlook of each owner."""
        gains, together = self._intervals(self.gain), self._intervals(self.together)
        alone, personal = (self._alike(each.mean(axis=1)) for each in (self.alone, self.personal))
        trees = np.mean([law.by_trees for law in self.laws], axis=0) > 0.5
        return tuple(
            OwnerOutlook(
                name=part.name,
                records=part.records,
                alone=float(alone[place]),
                together=together[place].mean,
                personal=float(personal[place]),
                gain=gains[place],
                verdict=verdict,
                together_interval=together[place],
                price=float(self.prices[place]),
                alone_model="boosted trees" if trees[place] else "linear",
            )
            for place, (part, verdict) in enumerate(zip(self.terms.owners, self.verdicts, strict=True))
        )

    @cached_property
    def consortium(self) -> Consortium:
        """The consortium left after owners who should stay are dropped. Before all are advised to stay, owners are
        dropped one at a time, the worst first, and groups of like owners are tried."""
        left = _settled(self, self.members)
        for start in _others(self) if left.sum() < 2 else ():
            left = _settled(self, start)
            if left.sum() >= 2:
                break
        if left.sum() < 2:
            return Consortium("stay", ())
        restricted = self._of(left)
        sure = all(verdict == "join" for verdict, inside in zip(restricted.verdicts, left, strict=True) if inside)
        names = tuple(name for name, chosen in zip(self.names, left, strict=True) if chosen)
        return Consortium("join" if sure else "unsure", names)

    def at(
        self,
        epsilon: float | Mapping[str, float] | None = None,
        noise: Literal["each_owner", "shared"] | None = None,
        members: Sequence[str] | None = None,
        owners: float | None = None,
        terms: Terms | None = None,
    ) -> "Outlook":
        """Return the outlook with other budgets, noise drawn elsewhere, some members, this number of like owners, or
        terms that differ in owners' numbers and in where noise is drawn; cheaply."""
        changed_terms = self.terms if terms is None else terms
        if noise is not None:
            changed_terms = each_owner_terms(changed_terms) if noise == "each_owner" else shared_terms(changed_terms)
        if epsilon is not None:
            each = dict.fromkeys(self.names, epsilon) if isinstance(epsilon, (int, float)) else epsilon
            changed_terms = changed_terms.changed(owners={name: {"epsilon": value} for name, value in each.items()})
        outlook = self if changed_terms is self.terms else self._under(changed_terms)
        if owners is not None:
            outlook = replace(outlook, laws=tuple(law.among(owners / len(self.names)) for law in outlook.laws))
        if members is None:
            return outlook
        unknown = set(members) - set(self.names)
        if unknown:
            raise SettingError(f"members: expected names of owners in the terms, got {', '.join(sorted(unknown))}")
        return outlook._of(np.array([name in members for name in self.names]))

    def bearable(self, surely: bool = False) -> Floats:
        """Return how many times its variance noise may have until joining is not worth it in half of the draws
        (`surely`: in nearly all) [N]; 0 if it never is."""

        def holds(logarithm: Floats) -> Members:
            laws = [law.at(law.pilot.combined_variance() * np.exp(logarithm)[:, None]) for law in self.laws]
            return np.asarray(replace(self, laws=tuple(laws)).chances >= (SURE_SHARE if surely else 0.5))

        low, high = (np.full(len(self.prices), end) for end in (-MAX_LOG_NOISE_FACTOR, MAX_LOG_NOISE_FACTOR))
        worth = holds(low)
        for _ in range(BISECTION_STEPS):
            middle = (low + high) / 2
            holding = holds(middle)
            low, high = np.where(holding, middle, low), np.where(holding, high, middle)
        return np.where(worth, np.exp(low), 0.0)

    def louder(self, times: float) -> "Outlook":
        """Return the outlook with `times` the combined answer's variance."""
        return replace(self, laws=tuple(law.at(law.pilot.combined_variance() * times) for law in self.laws))

    def to_json(self) -> dict[str, Any]:
        """Return the outlook's part of every command's --json."""
        rows = zip(self.owners, self.members, strict=True)
        return {
            "owners": [owner.to_json() for owner, member in rows if member],
            "consortium": self.consortium.to_json(),
        }

    def _alike(self, values: Floats) -> Floats:
        """Average a figure [N] over owners with the same rows and price."""
        if self.inside is not None:
            return np.asarray(values)
        parts = np.array([[part.records, price] for part, price in zip(self.terms.owners, self.prices, strict=True)])
        _, kind = np.unique(np.column_stack([parts, self.members]), axis=0, return_inverse=True)
        return np.asarray((np.bincount(kind, values) / np.bincount(kind))[kind])

    def _intervals(self, draws: Floats) -> list[Interval]:
        ends = (draws.mean(axis=1), *np.quantile(draws, INTERVAL_QUANTILES, axis=1))
        return [Interval(*map(float, each)) for each in zip(*map(self._alike, ends), strict=True)]

    def _of(self, members: Members) -> "Outlook":
        if np.array_equal(members, self.members):
            return self
        return replace(self, laws=tuple(law.for_members(members) for law in self.laws), members=members)

    def _under(self, terms: Terms) -> "Outlook":
        there = Outlook.from_laws(terms, [law.under(law.pilot.under(terms)) for law in self.laws], self.inside)
        return replace(there, least=self.least, corrected=self.corrected)._of(self.members)


def _settled(outlook: Outlook, members: Members) -> Members:
    """Drop whoever should stay, all at once, until nobody should."""
    while members.sum() >= 2:
        stays = np.array([verdict == "stay" for verdict in outlook._of(members).verdicts])
        if not (members & stays).any():
            break
        members = members & ~stays
    return members


def _others(outlook: Outlook) -> Iterator[Members]:
    """Yield smaller consortia: without the worst owner, the two worst, and so on; then owners that are alike."""
    members = outlook.members
    while members.sum() > 2:
        chances = np.where(members, outlook._of(members).chances, np.inf)
        worst = np.argsort(chances, kind="stable")[: max(1, int(members.sum()) // MAX_DROPPED_SINGLY)]
        members = members.copy()
        members[worst[: int(members.sum()) - 2]] = False
        yield members
    records = np.array([part.records for part in outlook.terms.owners])
    budgets = np.array([float(part.epsilon) for part in outlook.terms.owners])
    alike = np.stack([np.round(np.log2(records)), np.round(np.log2(budgets))])
    for kind in np.unique(alike, axis=1).T:
        group = np.all(kind == alike.T, axis=1) & outlook.members
        if 2 <= group.sum() < len(group):
            yield group
