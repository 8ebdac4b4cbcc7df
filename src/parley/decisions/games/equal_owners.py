"""How joining pays as owners become more: with each owner's noise they ride free on each other, with one noise they do
not."""

from dataclasses import dataclass, replace

import numpy as np

from parley.data.sources import Table
from parley.decisions.games.budget_game import BudgetGame
from parley.decisions.games.negotiate import budget_game, budgets, common_game
from parley.decisions.games.stakes import Lines, common_stakes, stakes
from parley.decisions.games.weakest_link import WeakestLink
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.privacy_cost import PrivacyCosts
from parley.decisions.planning.noise_terms import each_owner_terms, shared_terms
from parley.learning.algorithms.algorithm import Progress
from parley.protocol.aggregation import EachOwnerNoise
from parley.terms import Terms
from parley.validate import Floats, Integers

MOST = 200  # owners
POINTS = 24


@dataclass(frozen=True, eq=False)
class EqualOwners:
    """So many owners like one of the terms' [K]: the budget that each would choose if all joined, and what that pays
    it."""

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
    """Two to two hundred owners like the terms' owner of median size, with each kind of noise. No private record is
    looked at."""
    apart, hosted = each_owner_terms(terms), shared_terms(terms)
    own = budget_game(apart, stakes(apart, pilot, budgets(apart), seed, differences=differences))
    common = common_game(hosted, common_stakes(hosted, pilot, budgets(hosted), seed, differences=differences))
    place = int(np.argsort(own.stakes.records, kind="stable")[(own.owners - 1) // 2])
    counts = np.unique(np.geomspace(2, MOST, POINTS).round().astype(int))
    found = []
    for done, count in enumerate(counts):
        progress(done, len(counts))
        found.append((_each(own, place, int(count)), _one(common, place, int(count))))
    each, one = np.array(found).transpose(1, 2, 0)
    epsilon, payoff, fitness = ({"each_owner": a, "shared": b} for a, b in zip(each, one, strict=True))
    return EqualOwners(terms.owners[place].name, counts.astype(np.float64), epsilon, payoff, fitness)


def _each(game: BudgetGame, place: int, count: int) -> tuple[float, float, float]:
    """(budget, payoff, relative fitness) where so many equal owners all join with the budget that is best for each."""
    like = np.full(count, place)
    unit = game.stakes.unit_noise
    known = replace(
        game.stakes,
        unit_noise=EachOwnerNoise(unit.records[like], unit.variances[like]),
        lines=_lines(game.stakes.lines, like),
    )
    crowded = BudgetGame(known, game.value[like], _costs(game.privacy_cost, place, count))
    epsilon = crowded.best_budgets(crowded.everyone)
    return (
        float(epsilon[0]),
        float(crowded.payoffs(epsilon, crowded.everyone)[0]),
        crowded.fitness(epsilon, crowded.everyone) or 0.0,
    )


def _one(game: WeakestLink, place: int, count: int) -> tuple[float, float, float]:
    """The same with one noise: all have the same peak."""
    like = np.full(count, place)
    known = replace(game.stakes, records=game.stakes.records[like], lines=_lines(game.stakes.lines, like))
    crowded = WeakestLink(known, game.value[like], _costs(game.privacy_cost, place, count))
    epsilon = crowded.peaks(crowded.everyone)
    return (
        float(epsilon[0]),
        float(crowded.payoff(epsilon, crowded.everyone)[0]),
        crowded.fitness(epsilon, crowded.everyone) or 0.0,
    )


def _lines(lines: Lines | None, like: Integers) -> Lines | None:
    return None if lines is None else lines.take(like)


def _costs(costs: PrivacyCosts, place: int, count: int) -> PrivacyCosts:
    return costs.take(np.full(count, place))
