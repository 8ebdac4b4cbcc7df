"""Games small enough to be solved by hand, with each owner's noise and with one for all."""

import numpy as np

from parley.decisions.games.budget_game import BudgetGame
from parley.decisions.games.stakes import CommonStakes, Demand, Stakes
from parley.decisions.games.weakest_link import WeakestLink
from parley.decisions.knowledge.privacy_cost import PrivacyCosts
from parley.decisions.outlook.coalition import CoalitionCost
from parley.protocol.aggregation import EachOwnerNoise
from parley.terms import PrivacyCost

KINDS = ("linear", "exponential", "posterior")


NOISE = 4.0 * 200  # n^2 var of one owner's noise at eps = 1; variance of the one noise of a sum


def budget_game(rows, value, costs, bias=0.0, noise_price=1.0, estimation=50.0, least_cost=1.0, keep_own=False):
    """Laplace noise over 10 rounds of answers with sensitivity 2/n: n^2 var = 4 x 200/eps^2. Members must use the joint
    model."""
    rows = np.array(rows, dtype=float)
    return BudgetGame(
        Stakes(
            cost=CoalitionCost(estimation, bias, noise_price, nobody=10.0),
            least_cost=least_cost,
            unit_noise=EachOwnerNoise(rows, (2 / rows) ** 2),
            unit_variance=lambda epsilon: 200 / epsilon**2,
        ),
        value=np.array(value, dtype=float),
        privacy_cost=PrivacyCosts.from_curves([PrivacyCost(kind=kind, weight=weight) for kind, weight in costs]),
        keep_own=keep_own,
    )


def random_budget_game(seed, owners=None, kinds=KINDS):
    rng = np.random.default_rng(seed)
    count = owners or int(rng.integers(2, 5))
    return budget_game(
        rng.integers(100, 3000, count),
        10 ** rng.uniform(1, 4, count),
        [(str(rng.choice(kinds)), float(10 ** rng.uniform(-1, 2))) for _ in range(count)],
        bias=float(rng.choice([0.0, 0.001])),
    )


def weakest_link(rows, value, costs, bias=0.0, estimation=50.0, budget_range=(0.01, 10.0), keep_own=False):
    """Laplace noise: its variance falls with the square of the common epsilon. Members must use the joint model."""
    knots = np.geomspace(*budget_range, 161)
    known = CommonStakes(
        cost=CoalitionCost(estimation, bias, 1.0, nobody=10.0),
        least_cost=1.0,
        records=np.array(rows, dtype=float),
        demand=Demand(knots, NOISE / knots**2),
        budget_range=budget_range,
    )
    curves = PrivacyCosts.from_curves([PrivacyCost(kind=kind, weight=weight) for kind, weight in costs])
    return WeakestLink(known, np.array(value, dtype=float), curves, keep_own)


def random_weakest_link(seed, owners=None, kinds=KINDS):
    rng = np.random.default_rng(seed)
    count = owners or int(rng.integers(2, 6))
    return weakest_link(
        rng.integers(100, 3000, count),
        10 ** rng.uniform(1, 4, count),
        [(str(rng.choice(kinds)), float(10 ** rng.uniform(-2, 1.5))) for _ in range(count)],
        bias=float(rng.choice([0.0, 0.001])),
    )
