"""From terms to a deal: the owners' budgets, who stays out, and the price of a better model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parley.data.sources import Table
from parley.decisions.games.budget_game import BudgetGame
from parley.decisions.games.lifting_payments import cheapest_lift, free_common_deal, lift_curve
from parley.decisions.games.payments import (
    Deal,
    balanced,
    cheapest_contracts,
    free_deal,
    largest_gain,
    posted_price,
    spending_curves,
)
from parley.decisions.games.stakes import BUDGET_RANGE, CommonStakes, Stakes, common_stakes, stakes
from parley.decisions.games.truthful_payments import TruthfulOffer, truthful_offer
from parley.decisions.games.weakest_link import Preferences, WeakestLink, play, preferences
from parley.decisions.games.wishes import Wish, wishes
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.privacy_cost import PrivacyCosts, stated_cost
from parley.errors import SettingError, TermsError
from parley.privacy.events import Adjacency
from parley.protocol.aggregation import Members
from parley.terms import PrivacyCost, Terms
from parley.validate import Floats

CURVE_POINTS = 200  # points of an owner's payoff curve
SEARCH_LABEL = "looking for budgets that hold"
MAX_POSTED_OWNERS = 100  # owners for whom the dearer posted price is computed for comparison


@dataclass(frozen=True)
class OwnerDeal:
    """One owner's part of a deal. `payoff` includes its payment; `epsilon` is None if it stays out."""

    name: str
    participates: bool
    epsilon: float | None
    gain: float  # what it counts of test cost alone less together, in the target's units
    payoff: float
    payment: float


@dataclass(frozen=True, eq=False)
class Negotiation:
    """The equilibrium of the owners' game under these terms, with the payments that reach a given target."""

    terms: Terms
    game: BudgetGame | WeakestLink
    deal: Deal
    owners: tuple[OwnerDeal, ...]
    target: float | None
    relative_fitness: float | None  # None: nobody joins
    price_of_privacy: float | None
    largest_gain: float
    posted: Deal | None  # with a target and at most 100 owners: what one price for all would come to
    warnings: tuple[str, ...]
    truthful: TruthfulOffer | None = field(default=None, kw_only=True)  # if asked for

    def to_json(self) -> dict[str, Any]:
        """The object that `parley negotiate --json` prints."""
        names = [part.name for part in self.terms.owners]
        return {
            "title": self.terms.title,
            **self._owners_json(),
            "adjacency": Adjacency.from_unit(self.terms.privacy.unit),
            "price_of_privacy": self.price_of_privacy,
            "relative_fitness": self.relative_fitness,
            "largest_gain": self.largest_gain,
            "target": self.target,
            "keep_own": self.game.keep_own,
            "spend": self.deal.spend,
            "posted_price": None if self.posted is None else {"price": self.posted.price, "spend": self.posted.spend},
            "wishes": None if self.deal.members.any() else [wish.to_json() for wish in self.wishes()],
            "truthful": None if self.truthful is None else self.truthful.to_json(names),
            "warnings": list(self.warnings),
            "terms_hash": self.terms.hash,
        }

    def _owners_json(self) -> dict[str, Any]:
        outlook = self.game.stakes.outlook
        deals = [{**vars(owner)} | {"deal_gain": owner.gain} for owner in self.owners]
        if outlook is None:
            return {"owners": deals}
        content = outlook.to_json()
        return content | {"owners": [deal | row for deal, row in zip(deals, content["owners"], strict=True)]}

    def payoff_curves(self) -> tuple[Floats, dict[str, Floats]]:
        """Return (budgets, each owner's payoff before payments by its own budget, the others' as in the deal)."""
        game, deal = self.game, self.deal
        epsilon = np.geomspace(*game.budget_range, CURVE_POINTS)
        own = np.broadcast_to(epsilon[:, None], (CURVE_POINTS, game.owners))
        curves = game.joining(own, deal.epsilon, deal.members)
        return epsilon, {part.name: curve for part, curve in zip(self.terms.owners, curves.T, strict=True)}

    def wishes(self) -> tuple[Wish, ...]:
        """Return each owner's choice in the best coalition and what it lacks: the reason, if nobody joins."""
        return wishes(self.game, [part.name for part in self.terms.owners])

    @property
    def agreed_budgets(self) -> dict[str, float]:
        """The members' budgets: by the truthful rule if asked for, else by the deal."""
        deal = self.deal if self.truthful is None else self.truthful.deal
        parts = zip(self.terms.owners, deal.members, deal.epsilon, strict=True)
        return {part.name: float(epsilon) for part, joins, epsilon in parts if joins}

    def agreed_terms(self) -> Terms:
        """Return the terms with the agreed budgets, to six digits, without the owners who stay out."""
        chosen = self.agreed_budgets
        if not chosen:
            raise SettingError(
                "no owner joins, so there are no terms to agree on; give a target, so that payments can persuade "
                "owners to join"
            )
        quorum, shared = self.terms.learning.quorum, self.terms.privacy.shared_records
        return self.terms.changed(
            # neither may exceed the number of owners
            learning={"quorum": None if quorum is None else min(quorum, len(chosen))},
            privacy={"shared_records": min(shared, len(chosen))},
            owners={name: {"epsilon": float(f"{epsilon:.6g}")} for name, epsilon in chosen.items()},
            only=chosen,
        )

    def spending(self) -> dict[str, tuple[Floats, Floats]]:
        """Return (money, relative fitness) by way of paying for a better model."""
        return spending_curves(self.game) if isinstance(self.game, BudgetGame) else {}


def negotiate(
    terms: Terms,
    pilot: Table | None = None,
    target: float | None = None,
    balance: bool = False,
    seed: int = 0,
    keep_own: bool = True,
    differences: Heterogeneity | None = None,
    doing: Callable[[str], None] = lambda what: None,
    truthful: bool = False,
    max_price: float | None = None,
) -> Negotiation:
    """Find the owners' equilibrium budgets; with a `target` for relative fitness, the cheapest contracts that reach it.

    No private record is read. Owners are assumed to state their values truthfully: one that overstates its privacy
    costs is paid more.

    Parameters
    ----------
    terms
        With every owner's `value` and `privacy_cost`.
    pilot
        A public table; default: the terms' own public sample.
    target
        The relative fitness that is wanted.
    balance
        Whether the members pay the contracts themselves.
    seed
        The forecast's seed.
    keep_own
        Whether members use their own model where it is better, so that nobody counts a loss.
    differences
        How much owners differ; default: unknown.
    doing
        Called with the name of each step.
    truthful
        Whether to price the rule of `truthful_payments`, too, under which no owner gains by misstating its cost.
    max_price
        With `truthful`: the largest privacy cost weight that is paid for.

    Returns
    -------
    Negotiation
        Each owner's budget and payoff, and the payments that reach the target.
    """
    doing("calibrating noise, running the pilot")
    _check_truthful(terms, balance, truthful, max_price)
    if terms.noise.common:
        return _negotiate_common(terms, pilot, target, balance, seed, keep_own, differences, doing)
    known = stakes(terms, pilot, budgets(terms), seed, keep_own, differences)
    doing(SEARCH_LABEL)
    game = budget_game(terms, known, keep_own)
    deal = free_deal(game) if target is None else cheapest_contracts(game, target)
    posted = None if target is None or game.owners > MAX_POSTED_OWNERS else posted_price(game, target)
    if balance:
        deal = balanced(deal)
    offer = truthful_offer(game, _stated_costs(terms), target, max_price) if truthful else None
    return Negotiation(**_outcome(terms, game, deal, target), posted=posted, warnings=known.warnings, truthful=offer)


def _check_truthful(terms: Terms, balance: bool, truthful: bool, max_price: float | None) -> None:
    if max_price is not None and not truthful:
        raise SettingError(
            "--max-price: allowed only with --truthful; other contracts pay the amount needed to reach the target"
        )
    if truthful and balance:
        raise SettingError(
            "--truthful: not allowed with --balanced, because the truthful rule fixes the sum of payments"
        )
    if truthful and terms.noise.common:
        raise SettingError(
            'privacy.noise = "shared": truthful payments need a separate ε per owner; remove privacy.noise or '
            "--truthful"
        )


def _stated_costs(terms: Terms) -> dict[str, PrivacyCost]:
    costs = {owner.name: stated_cost(terms, owner) for owner in terms.owners}
    return {name: cost for name, cost in costs.items() if cost is not None}


def _outcome(terms: Terms, game: BudgetGame | WeakestLink, deal: Deal, target: float | None) -> dict[str, Any]:
    """Return the fields of a negotiation that do not depend on the kind of noise."""
    gains = game.gains(deal.epsilon, deal.members)
    owners = [
        OwnerDeal(
            name=part.name,
            participates=bool(deal.members[place]),
            epsilon=float(deal.epsilon[place]) if deal.members[place] else None,
            gain=float(gains[place]),
            payoff=float(deal.payoff[place]),
            payment=float(deal.payment[place]),
        )
        for place, part in enumerate(terms.owners)
    ]
    return {
        "terms": terms,
        "game": game,
        "deal": deal,
        "owners": tuple(owners),
        "target": target,
        "relative_fitness": game.fitness(deal.epsilon, deal.members),
        "price_of_privacy": game.price_of_privacy(deal.epsilon, deal.members),
        "largest_gain": largest_gain(game, deal),
    }


@dataclass(frozen=True)
class OwnerPreference:
    """An owner's favourite common epsilon, and the interval around it in which it does not walk away."""

    name: str
    peak: float
    lowest: float | None  # None: it walks away from every one
    highest: float | None
    several_peaks: bool


@dataclass(frozen=True, eq=False)
class CommonNegotiation(Negotiation):
    """A negotiation with one noise for all: a game of the weakest link."""

    # common epsilons among these members, without payments; the largest is the best for all
    equilibria: tuple[float, float] | None
    preferences: tuple[OwnerPreference, ...]
    whom_to_ask: tuple[str, ...]  # for the least test cost, if everybody insists on its peak,
    at_epsilon: float  # and their lowest peak
    # with a target: what all members have more, payments included, than in the equilibrium without
    members_gain: float | None

    def to_json(self) -> dict[str, Any]:
        """The object that `parley negotiate --json` prints."""
        common = None if not self.deal.members.any() else float(self.deal.epsilon[0])
        more = {
            "noise": "shared",
            "common_epsilon": common,
            "equilibria": self.equilibria,
            "members_gain": self.members_gain,
        }
        best = {"owners": self.whom_to_ask, "epsilon": self.at_epsilon}
        return (
            super().to_json() | more | {"standings": [vars(each) for each in self.preferences], "best_coalition": best}
        )

    def payoff_curves(self) -> tuple[Floats, dict[str, Floats]]:
        """Return (common budgets, each owner's payoff before payments by the common budget)."""
        if not isinstance(self.game, WeakestLink):
            raise TypeError("a common epsilon requires the weakest-link game (privacy.noise = 'shared')")
        epsilon, members = np.geomspace(*self.game.budget_range, CURVE_POINTS), self._members
        curves = self.game.payoff(np.repeat(epsilon[:, None], self.game.owners, axis=1), members)
        return epsilon, {part.name: curve for part, curve in zip(self.terms.owners, curves.T, strict=True)}

    def spending(self) -> dict[str, tuple[Floats, Floats]]:
        """Return (money, relative fitness) of the least payments for these members."""
        return (
            {"contracts": lift_curve(self.game, play(self.game, self._members))}
            if isinstance(self.game, WeakestLink)
            else {}
        )

    @property
    def _members(self) -> Members:
        return self.deal.members if self.deal.members.any() else self.game.everyone


def _negotiate_common(
    terms: Terms,
    pilot: Table | None,
    target: float | None,
    balance: bool,
    seed: int,
    keep_own: bool,
    differences: Heterogeneity | None,
    doing: Callable[[str], None],
) -> CommonNegotiation:
    known = common_stakes(terms, pilot, budgets(terms), seed, keep_own, differences)
    doing(SEARCH_LABEL)
    game = common_game(terms, known, keep_own)
    free = free_common_deal(game)
    deal = free if target is None else cheapest_lift(game, target)
    more = None if target is None else float((deal.payoff - free.payoff).sum())
    if balance:
        deal = balanced(deal)
    members = deal.members if deal.members.any() else game.everyone
    member_preferences = preferences(game, play(game, members))
    chosen, epsilon = game.whom_to_ask()
    names = [part.name for part in terms.owners]
    several = [name for name, is_so in zip(names, member_preferences.several_peaks, strict=True) if is_so]
    return CommonNegotiation(
        **_outcome(terms, game, deal, target),
        posted=None,
        warnings=(*known.warnings, *_bumpy(several)),
        equilibria=_equilibria(member_preferences) if deal.members.any() else None,
        preferences=tuple(_preference(name, member_preferences, place) for place, name in enumerate(names)),
        whom_to_ask=tuple(name for name, asked in zip(names, chosen, strict=True) if asked),
        at_epsilon=epsilon,
        members_gain=more,
    )


def _equilibria(there: Preferences) -> tuple[float, float] | None:
    return (there.least, there.play.epsilon) if there.least <= there.play.epsilon else None


def _bumpy(several: list[str]) -> list[str]:
    if not several:
        return []
    return [
        f"the payoff of {', '.join(several)} has several peaks, so there may be gaps between equilibria; the largest "
        "one is still right"
    ]


def _preference(name: str, there: Preferences, place: int) -> OwnerPreference:
    ends = (float(there.lowest[place]), float(there.highest[place]))
    low, high = (None, None) if np.isnan(ends[0]) else ends
    return OwnerPreference(name, float(there.play.peaks[place]), low, high, bool(there.several_peaks[place]))


def budget_game(terms: Terms, known: Stakes, keep_own: bool = True) -> BudgetGame:
    """Make the game of these terms' owners."""
    return BudgetGame(known, *stated_values(terms), keep_own)


def common_game(terms: Terms, known: CommonStakes, keep_own: bool = True) -> WeakestLink:
    """Make the game of these terms' owners under one noise for all."""
    return WeakestLink(known, *stated_values(terms), keep_own)


def stated_values(terms: Terms) -> tuple[Floats, PrivacyCosts]:
    """Return every owner's value and privacy cost from the terms."""
    curves, values = [], []
    for owner in terms.owners:
        missing = [key for key in ("value", "privacy_cost") if getattr(owner, key) is None]
        cost = stated_cost(terms, owner)
        if owner.value is None or cost is None:
            raise TermsError(
                f"owners.{owner.name}: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; to "
                "negotiate, every owner needs a value and a privacy cost. Write "
                '`value = 1e6` and `privacy_cost = { kind = "linear", weight = 1.0 }` in the terms, or give --value '
                "and --privacy-cost. See docs/games.md#which-value to choose a value"
            )
        values.append(owner.value)
        curves.append(cost)
    return np.array(values), PrivacyCosts.from_curves(curves)


def budgets(terms: Terms) -> tuple[float, float]:
    """Return the range of budgets that owners may choose: the range for training starts above the score's part."""
    low, high = BUDGET_RANGE[0] + float(terms.score_epsilon), BUDGET_RANGE[1]
    if not low < high:
        raise TermsError(
            f"privacy.score_epsilon: expected less than {high - BUDGET_RANGE[0]:g} to negotiate, because the largest "
            f"budget is {high:g}"
        )
    return low, high
