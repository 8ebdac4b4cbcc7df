"""The demo's owners: forecasts and results in tables and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.decisions.games.negotiate import CommonNegotiation, Negotiation
from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.outlook import Interval
from parley.learning.outcome.model import JointModel
from parley.learning.outcome.verdict import Estimate
from parley.numerals import counted, number
from parley.privacy.events import Adjacency

MAX_OWNERS_SHOWN = 9  # owners in a table, from the smallest to the largest


@dataclass(frozen=True)
class Joined:
    """An owner that joins: what its personal model was forecast to save and what it saved, in squared error per row."""

    name: str
    records: int
    price: float  # what joining must save to be worth what the owner says that it costs
    foreseen: Interval
    foreseen_alone: float
    held_out: Estimate  # saved on its own held-out rows, as `parley score` says
    alone: float  # the error of its own model on rows that are still to come,
    gain: float  # and what the personal model saves there,
    public: float  # and one that starts from the public sample's best fit, for which nobody has to join

    @property
    def forecast_to_pay(self) -> bool:
        """Whether joining was forecast to be worth its price."""
        return self.foreseen.mean > self.price

    @property
    def pays(self) -> bool:
        """Whether joining is worth its price."""
        return self.gain > self.price

    @property
    def right(self) -> bool:
        """Whether forecast and result agree."""
        return self.forecast_to_pay == self.pays


@dataclass(frozen=True, eq=False)
class Chapter:
    """Owners that trained together under the terms of a forecast."""

    expected: Forecast
    model: JointModel
    owners: tuple[Joined, ...]

    @property
    def paying(self) -> int:
        """The number of owners for whom joining is worth its price."""
        return sum(owner.pays for owner in self.owners)

    @property
    def forecast_to_pay(self) -> int:
        """The number of owners for whom joining was forecast to be worth its price."""
        return sum(owner.forecast_to_pay for owner in self.owners)

    @property
    def right(self) -> int:
        """The number of owners with a correct forecast."""
        return sum(owner.right for owner in self.owners)

    @property
    def constant(self) -> int:
        """The number of owners for whom the better of two constant forecasts, all or none, would be correct."""
        return max(self.paying, len(self.owners) - self.paying)

    @property
    def saved(self) -> float:
        """The mean share of its error alone that an owner saves."""
        return float(np.mean([owner.gain / owner.alone for owner in self.owners]))

    @property
    def foreseen(self) -> float:
        """The mean share of its error alone that an owner was forecast to save."""
        return float(np.mean([owner.foreseen.mean / owner.foreseen_alone for owner in self.owners]))


def owners_by_size(owners: Sequence[Joined]) -> list[Joined]:
    """Return a few owners from the smallest to the largest."""
    by_size = sorted(owners, key=lambda owner: owner.records)
    places = np.unique(np.linspace(0, len(by_size) - 1, MAX_OWNERS_SHOWN).round().astype(int))
    return [by_size[place] for place in places]


def forecast_rows(expected: Forecast, prices: Sequence[float]) -> list[list[str]]:
    """Return a table of what joining should save a few owners, in shares of their errors alone."""
    rows = [["owner", "rows", "saves", "90% interval", "worth its price?"]]
    by_size = sorted(zip(expected.owners, expected.terms.owners, prices, strict=True), key=lambda each: each[1].records)
    for place in np.unique(np.linspace(0, len(by_size) - 1, MAX_OWNERS_SHOWN).round().astype(int)):
        outlook, part, price = by_size[place]
        low, high = (share(end / outlook.alone) for end in (outlook.gain.low, outlook.gain.high))
        answer = "yes" if outlook.gain.mean > price else "no"
        rows.append(
            [part.name, f"{part.records:,}", share(outlook.gain.mean / outlook.alone), f"{low} to {high}", answer]
        )
    return rows


def outcome_rows(shared: Chapter, separate: Chapter) -> list[list[str]]:
    """Return a table of what joining saved the same owners, with shared noise and with each owner's own."""
    rows = [["owner", "rows", "forecast", "shared noise", "held out, 90%", "own noise", "right?"]]
    others = {owner.name: owner for owner in separate.owners}
    for owner in owners_by_size(shared.owners):
        ends = " to ".join(f"{round(100 * end / owner.alone)}%" for end in (owner.held_out.low, owner.held_out.high))
        saved = [share(owner.foreseen.mean / owner.foreseen_alone), share(owner.gain / owner.alone), ends]
        beside = others[owner.name]
        rows.append(
            [
                owner.name,
                f"{owner.records:,}",
                *saved,
                share(beside.gain / beside.alone),
                "yes" if owner.right else "no",
            ]
        )
    return rows


def forecast_sentence(expected: Forecast, prices: Sequence[float]) -> str:
    """Say for how many owners joining should be worth its price, whether for the largest, and count the verdicts."""
    worth = [outlook.gain.mean > price for outlook, price in zip(expected.owners, prices, strict=True)]
    place = int(np.argmax([part.records for part in expected.terms.owners]))
    largest = expected.terms.owners[place]
    sure, open_ = (sum(outlook.verdict == each for outlook in expected.owners) for each in ("join", "unsure"))
    return (
        f"Joining is expected to be worth its price for {sum(worth)} of {len(worth)} owners. For {largest.name}, with "
        f"{largest.records:,} rows, joining is{'' if worth[place] else ' not'} expected to be worth its price. The "
        f"verdict is join for {counted(sure, 'owner')}, unsure for {open_} and stay for {len(worth) - sure - open_}."
    )


def verdict(chapter: Chapter, noise: str) -> str:
    """Give the result with one kind of noise, and say whether the forecast was right."""
    count = len(chapter.owners)
    return (
        f"With {noise}, joining is worth its price for {chapter.paying} of {count} owners (forecast: "
        f"{chapter.forecast_to_pay}). Joining saves {share(chapter.saved)} of the error on average (forecast: "
        f"{share(chapter.foreseen)}). The forecast was right for {chapter.right} of {count} owners. A forecast "
        f"with the same answer for all owners would be right for at most {chapter.constant} owners."
    )


def without_anybody(chapter: Chapter) -> str:
    """Say what a model of the public sample would do instead of the joint model."""
    saved = float(np.mean([owner.public / owner.alone for owner in chapter.owners]))
    paying = sum(owner.public > owner.price for owner in chapter.owners)
    return (
        "For comparison, a model fitted to the public sample needs no other owner. Compared with each owner's own "
        f"model, the public model saves {share(saved)} of the error on average. The public model saves more than the "
        f"price of joining for {paying} of {len(chapter.owners)} owners."
    )


def on_held_out(chapter: Chapter) -> str:
    """Say what the owners themselves can see on their own held-out rows."""
    better = sum(owner.held_out.mean > 0 for owner in chapter.owners)
    surely, worse = (
        sum(owner.held_out.low > 0 for owner in chapter.owners),
        sum(owner.held_out.high < 0 for owner in chapter.owners),
    )
    return (
        f"On held-out rows, the personal model beats the owner's own model for {better} of {len(chapter.owners)} "
        f"owners (significantly for {surely}) and is significantly worse for {worse}."
    )


def bargain(free: Negotiation, paid: Negotiation, name: str) -> list[str]:
    """Say what owners would choose by themselves, and what it takes to bring `name` in."""
    joining, count = sum(owner.participates for owner in free.owners), len(free.owners)
    large = {owner.name: owner for owner in free.owners}[name]
    unpaid = f"Without payments, {joining} of {count} owners join{'' if large.participates else f', but not {name}'}."
    if not joining:
        unpaid = (
            "Without payments, no coalition is stable. If owners with many rows leave, the noise harms the others "
            "more, so they leave too."
        )
    sentences = [unpaid]
    members = [owner for owner in paid.owners if owner.participates]
    paid_to = {owner.name: owner for owner in paid.owners}[name]
    moved = (
        f"of which {name} receives {money(paid_to.payment)}"
        if paid_to.participates
        else f"but {name} still does not join, because joining costs more than joining is worth"
    )
    sentences.append(
        f"With contracts, {len(members)} of {count} owners join at ε = {number(members[0].epsilon, 3)} "
        f"({Adjacency.from_unit(paid.terms.privacy.unit)}). The contracts cost {money(paid.deal.spend)}, {moved}."
    )
    if isinstance(paid, CommonNegotiation) and paid.members_gain is not None:
        verb = "more than" if paid.members_gain >= paid.deal.spend else "less than"
        sentences.append(
            f"The contracts bring the members a gain of {money(paid.members_gain)}, {verb} the contracts cost."
        )
    return sentences


def large_owners_sentence(chapter: Chapter) -> str:
    """Say what owners with many rows gain by joining."""
    best = max(chapter.owners, key=lambda owner: owner.gain / owner.alone)
    names = f"{len(chapter.owners)} banks with {best.records:,} rows each"
    if chapter.forecast_to_pay or chapter.paying:
        return (
            f"Of {names}, joining was expected to be worth its price for {chapter.forecast_to_pay}. Joining is worth "
            f"its price for {chapter.paying} of the {len(chapter.owners)} banks."
        )
    expected = max(owner.foreseen.mean / owner.foreseen_alone for owner in chapter.owners)
    return (
        f"{names} need no joint model: each bank's own rows are enough. Joining was expected to save at most "
        f"{share(expected)} of the error, and saved at most {share(best.gain / best.alone)}."
    )


def money(value: float) -> str:
    """Write dollars without cents.

    >>> money(2730.31)
    '$2,730'
    """
    return f"${value:,.0f}"


def share(value: float) -> str:
    """Write a share of an error in percent with few digits.

    >>> share(0.1234), share(0.00123), share(-0.00002)
    ('12.3%', '0.12%', '0.00%')
    """
    digits = 1 if abs(value) >= 0.01 else 2
    return f"{round(100 * value, digits) + 0.0:.{digits}f}%"
