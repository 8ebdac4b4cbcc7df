"""The value from which joining pays, for a privacy cost of 1; and how joining pays in crowds of equal owners."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.data.sources import Table
from parley.decisions.games.budget_game import BudgetGame
from parley.decisions.games.negotiate import budget_game, budgets, common_game
from parley.decisions.games.stakes import common_stakes, stakes
from parley.decisions.games.weakest_link import WeakestLink
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.outlook.forecast import forecast
from parley.decisions.outlook.outlook import Outlook
from parley.decisions.planning.noise_terms import each_owner_terms, shared_terms
from parley.learning.algorithms.algorithm import Progress
from parley.protocol.aggregation import EachOwnerNoise
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True)
class BreakEven:
    """The test cost that joining saves one owner at the terms' budgets, with noise and without."""

    name: str
    epsilon: float
    gain: float  # the outlook's; 0 where that is negative
    most: float  # without any noise

    @property
    def value(self) -> float | None:
        """The least value of one unit of test cost that pays for a privacy cost of 1; None if none does."""
        return 1 / self.gain if self.gain > 0 else None


@dataclass(frozen=True)
class BreakEvens:
    """The break-even of every owner, if all of them join, with the outlook behind it."""

    outlook: Outlook
    owners: tuple[BreakEven, ...]

    def to_json(self) -> dict[str, Any]:
        """The object that `parley negotiate --json` prints where the terms state no values."""
        content = self.outlook.to_json()
        values = [{"most": each.most, "break_even_value": each.value} for each in self.owners]
        owners = [row | value for row, value in zip(content["owners"], values, strict=True)]
        return content | {"owners": owners, "terms_hash": self.outlook.terms.hash}


def break_even(
    terms: Terms, pilot: Table | None = None, seed: int = 0, differences: Heterogeneity | None = None
) -> BreakEvens:
    """Find the value from which joining pays each owner. No private record is read."""
    outlook = forecast(terms, pilot, seed, differences=differences).outlook
    gain, most = (np.maximum(each.expected_gain, 0.0) for each in (outlook, outlook.louder(0.0)))
    epsilon = [float(terms.common_epsilon) if terms.noise.common else part.epsilon for part in terms.owners]
    rows = zip(outlook.names, epsilon, gain.tolist(), most.tolist(), strict=True)
    return BreakEvens(outlook, tuple(BreakEven(*row) for row in rows))


MAX_OWNERS = 200  # owners
CURVE_POINTS = 24


@dataclass(frozen=True, eq=False)
class EqualOwners:
    """Crowds of `counts` owners like one of the terms' [K]: the budget of each if all joined, and its payoff."""

    like: str
    counts: Floats
    epsilon: dict[str, Floats]  # by kind of noise
    payoff: dict[str, Floats]  # as in a negotiation; at most 0: it had better stay out
    fitness: dict[str, Floats]  # expected relative fitness of the joint model at these budgets


def equal_owners(
    terms: Terms,
    pilot: Table | None = None,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
    differences: Heterogeneity | None = None,
) -> EqualOwners:
    """Compare 2 to 200 owners like the one of median size, with each kind of noise. No private record is read."""
    apart, hosted = each_owner_terms(terms), shared_terms(terms)
    own = budget_game(apart, stakes(apart, pilot, budgets(apart), seed, differences=differences))
    common = common_game(hosted, common_stakes(hosted, pilot, budgets(hosted), seed, differences=differences))
    place = int(np.argsort(own.stakes.records, kind="stable")[(own.owners - 1) // 2])
    counts = np.unique(np.geomspace(2, MAX_OWNERS, CURVE_POINTS).round().astype(int))
    outcomes = []
    for done, count in enumerate(counts):
        progress(done, len(counts))
        outcomes.append((_each(own, place, int(count)), _one(common, place, int(count))))
    own_outcomes, common_outcomes = np.array(outcomes).transpose(1, 2, 0)
    epsilon, payoff, fitness = (
        {"each_owner": a, "shared": b} for a, b in zip(own_outcomes, common_outcomes, strict=True)
    )
    return EqualOwners(terms.owners[place].name, counts.astype(np.float64), epsilon, payoff, fitness)


def _each(game: BudgetGame, place: int, count: int) -> tuple[float, float, float]:
    """Return (budget, payoff, relative fitness) if `count` equal owners all join with their best budget."""
    like = np.full(count, place)
    unit = game.stakes.unit_noise
    known = replace(
        game.stakes,
        unit_noise=EachOwnerNoise(unit.records[like], unit.variances[like]),
        lines=None if game.stakes.lines is None else game.stakes.lines.take(like),
    )
    crowded = BudgetGame(known, game.value[like], game.privacy_cost.take(like))
    epsilon = crowded.best_budgets(crowded.everyone)
    payoff = crowded.payoffs(epsilon, crowded.everyone)
    return float(epsilon[0]), float(payoff[0]), crowded.fitness(epsilon, crowded.everyone) or 0.0


def _one(game: WeakestLink, place: int, count: int) -> tuple[float, float, float]:
    """Return the same with one noise, where all have the same peak."""
    like = np.full(count, place)
    lines = None if game.stakes.lines is None else game.stakes.lines.take(like)
    known = replace(game.stakes, records=game.stakes.records[like], lines=lines)
    crowded = WeakestLink(known, game.value[like], game.privacy_cost.take(like))
    epsilon = crowded.peaks(crowded.everyone)
    payoff = crowded.payoff(epsilon, crowded.everyone)
    return float(epsilon[0]), float(payoff[0]), crowded.fitness(epsilon, crowded.everyone) or 0.0
