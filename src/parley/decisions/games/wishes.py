"""Why nobody joins: each owner's choice in the best coalition, its worth, and how far that is from its price."""

from dataclasses import dataclass

import numpy as np

from parley.decisions.games.budget_game import BudgetGame
from parley.decisions.games.weakest_link import WeakestLink
from parley.validate import Floats


@dataclass(frozen=True)
class Wish:
    """One owner's wish in the best coalition; money, except `epsilon` and `gain`."""

    name: str
    asked: bool  # whether it belongs to the best company
    wants: float  # the budget that it likes best there
    epsilon: float  # that it would have there: its own or, with one noise for all, the common one
    gain: float  # what it counts of test cost alone less together
    worth: float  # of that gain, to it
    privacy_cost: float
    most: float  # what the joint model would be worth to it without any noise: no budget is worth more

    @property
    def short(self) -> float:
        """The payment that brings it in at this budget; 0 if it would come by itself."""
        return max(self.privacy_cost - self.worth, 0.0)

    @property
    def bearable(self) -> float:
        """The share of its privacy cost up to which it would come at this budget; 0 if it gains nothing."""
        return float(np.clip(self.worth / self.privacy_cost, 0.0, 1.0)) if self.privacy_cost > 0 else 1.0

    def to_json(self) -> dict[str, object]:
        """One of the objects under `wishes` in `parley negotiate --json`."""
        return {**vars(self), "short": self.short, "bearable": self.bearable}


def wishes(game: BudgetGame | WeakestLink, names: list[str]) -> tuple[Wish, ...]:
    """Find each owner's wish."""
    if isinstance(game, WeakestLink):
        members, common = game.whom_to_ask()
        members = members if members.sum() > 1 else game.everyone
        wanted, epsilon = (
            game.peaks(members),
            np.full(game.owners, min(common, float(game.peaks(members)[members].min()))),
        )
        payoff = game.payoff(epsilon, members)
    else:
        members = game.stakes.cost.best_coalition(game.stakes.noise(game.best_budgets(game.everyone)))
        members = members if members.sum() > 1 else game.everyone
        wanted = epsilon = game.best_budgets(members)
        payoff = game.joining(epsilon, epsilon, members)
    cost: Floats = game.privacy_cost(epsilon)
    worth = payoff + cost
    records = game.stakes.records
    size = float(members @ records) + np.where(members, 0.0, records)
    most = game.weight * np.maximum(game.alone - game.stakes.cost.at(size, 0.0), 0.0)
    columns = (
        names,
        members.tolist(),
        *(each.tolist() for each in (wanted, epsilon, worth / game.value, worth, cost, most)),
    )
    return tuple(Wish(*row) for row in zip(*columns, strict=True))
