"""From terms to a deal: which budgets the owners would choose, who stays out, and what a better model would cost."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.data.table import Table
from parley.errors import SettingError, TermsError
from parley.games.budget_game import BudgetGame
from parley.games.payments import Deal, balanced, cheapest_contracts, free_deal, largest_gain, posted_price
from parley.games.privacy_cost import PrivacyCosts
from parley.games.stakes import BUDGET_RANGE, Stakes, stakes
from parley.terms import Terms
from parley.validate import Floats

CURVE = 200  # points of an owner's payoff curve
POSTED_UP_TO = 100  # owners for whom the dearer posted price is computed for comparison


@dataclass(frozen=True)
class OwnerDeal:
    """What comes out for one owner. `payoff` includes its payment; `epsilon` is None if it stays out."""

    name: str
    participates: bool
    epsilon: float | None
    gain: float  # test cost alone less together, in the target's units
    payoff: float
    payment: float


@dataclass(frozen=True, eq=False)
class Negotiation:
    """The equilibrium of the owners' game under these terms, with the payments that reach the target if one was given."""

    terms: Terms
    game: BudgetGame
    deal: Deal
    owners: tuple[OwnerDeal, ...]
    target: float | None
    relative_fitness: float | None  # None: nobody joins
    price_of_privacy: float | None
    largest_gain: float
    posted: Deal | None  # with a target and at most 100 owners: what one price for all would come to
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The object that `parley negotiate --json` prints."""
        return {
            "title": self.terms.title,
            "owners": [vars(owner) for owner in self.owners],
            "price_of_privacy": self.price_of_privacy,
            "relative_fitness": self.relative_fitness,
            "largest_gain": self.largest_gain,
            "target": self.target,
            "spend": self.deal.spend,
            "posted_price": None if self.posted is None else {"price": self.posted.price, "spend": self.posted.spend},
            "warnings": list(self.warnings),
            "terms_hash": self.terms.hash,
        }

    def payoff_curves(self) -> tuple[Floats, dict[str, Floats]]:
        """(budgets, each owner's payoff before payments by its own budget, the others' as in the deal)."""
        game, deal = self.game, self.deal
        epsilon = np.geomspace(*game.budget_range, CURVE)
        own = np.broadcast_to(epsilon[:, None], (CURVE, game.owners))
        curves = game.joining(own, deal.epsilon, deal.members)
        return epsilon, {part.name: curve for part, curve in zip(self.terms.owners, curves.T, strict=True)}

    def agreed_terms(self) -> Terms:
        """The terms with the deal's budgets; whoever stays out is left out. Six digits of a budget are kept."""
        chosen = {owner.name: owner.epsilon for owner in self.owners if owner.epsilon is not None}
        if not chosen:
            raise SettingError("nobody joins, so there are no terms to agree on; a target may bring owners in by payments")
        quorum, shared = self.terms.learning.quorum, self.terms.privacy.shared_records
        return self.terms.changed(
            learning={"quorum": None if quorum is None else min(quorum, len(chosen))},  # neither may exceed the number of owners
            privacy={"shared_records": min(shared, len(chosen))},
            owners={name: {"epsilon": float(f"{epsilon:.6g}")} for name, epsilon in chosen.items()},
            only=chosen,
        )


def negotiate(
    terms: Terms, pilot: Table | None = None, target: float | None = None, balance: bool = False, seed: int = 0
) -> Negotiation:
    """Find the owners' equilibrium budgets; with a `target` for relative fitness, the cheapest contracts that reach it.

    With `balance` the members pay the contracts themselves. Needs every owner's `value` and `privacy_cost` and a public pilot sample; no
    private record is looked at. Assumes that the owners' data follow one law, and that they state their values truthfully: an owner that
    says its privacy costs more is paid more.
    """
    known = stakes(terms, pilot, budgets(terms), seed)
    game = budget_game(terms, known)
    deal = free_deal(game) if target is None else cheapest_contracts(game, target)
    posted = None if target is None or game.owners > POSTED_UP_TO else posted_price(game, target)
    if balance:
        deal = balanced(deal)
    return Negotiation(
        terms=terms,
        game=game,
        deal=deal,
        owners=_owners(terms, game, deal),
        target=target,
        relative_fitness=game.fitness(deal.epsilon, deal.members),
        price_of_privacy=game.price_of_privacy(deal.epsilon, deal.members),
        largest_gain=largest_gain(game, deal),
        posted=posted,
        warnings=known.warnings,
    )


def budget_game(terms: Terms, known: Stakes) -> BudgetGame:
    """The game of these terms' owners."""
    curves, values = [], []
    for owner in terms.owners:
        missing = [key for key in ("value", "privacy_cost") if getattr(owner, key) is None]
        if owner.value is None or owner.privacy_cost is None:
            raise TermsError(
                f"owners.{owner.name}: {' and '.join(missing)} missing; to negotiate, every owner needs both, for example "
                'value = 1000.0 and privacy_cost = { kind = "linear", weight = 5.0 }'
            )
        values.append(owner.value)
        curves.append(owner.privacy_cost)
    return BudgetGame(known, np.array(values), PrivacyCosts.of(curves))


def budgets(terms: Terms) -> tuple[float, float]:
    """The budgets that owners may choose: training gets at least the range's lower end, a score its part beside it."""
    low, high = BUDGET_RANGE[0] + float(terms.score_epsilon), BUDGET_RANGE[1]
    if not low < high:
        raise TermsError(
            f"privacy.score_epsilon: expected less than {high - BUDGET_RANGE[0]:g} to negotiate: budgets end at {high:g}"
        )
    return low, high


def _owners(terms: Terms, game: BudgetGame, deal: Deal) -> tuple[OwnerDeal, ...]:
    gains = game.gains(deal.epsilon, deal.members)
    return tuple(
        OwnerDeal(
            name=part.name,
            participates=bool(deal.members[place]),
            epsilon=float(deal.epsilon[place]) if deal.members[place] else None,
            gain=float(gains[place]),
            payoff=float(deal.payoff[place]),
            payment=float(deal.payment[place]),
        )
        for place, part in enumerate(terms.owners)
    )
