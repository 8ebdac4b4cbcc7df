"""How negotiation grows with the number of owners: the equilibrium of the budget game, checked, and a whole
`negotiate`.

python benchmarks/games.py
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import parley
from parley.data import synthetic_lending
from parley.decisions.games.budget_game import BudgetGame
from parley.decisions.games.negotiate import negotiate
from parley.decisions.games.payments import cheapest_contracts, free_deal, largest_gain
from parley.decisions.games.stakes import Stakes
from parley.decisions.knowledge.privacy_cost import PrivacyCosts
from parley.decisions.outlook.coalition import CoalitionCost
from parley.protocol.aggregation import EachOwnerNoise
from parley.terms import PrivacyCost

KINDS = ("linear", "exponential", "posterior")


def random_game(owners: int) -> BudgetGame:
    """Owners of 100 to 3,000 rows whose values and costs spread over three orders of magnitude, so that many stay
    out."""
    rng = np.random.default_rng(5)
    curves = [PrivacyCost(kind=str(rng.choice(KINDS)), weight=float(10 ** rng.uniform(-1, 2))) for _ in range(owners)]
    rows = rng.integers(100, 3000, owners).astype(float)
    return BudgetGame(
        Stakes(
            cost=CoalitionCost(estimation=50.0, bias=0.001, noise_price=1.0, nobody=10.0),
            least_cost=1.0,
            unit_noise=EachOwnerNoise(rows, (2 / rows) ** 2),
            unit_variance=lambda epsilon: 200 / epsilon**2,
        ),
        value=10 ** rng.uniform(1, 4, owners),
        privacy_cost=PrivacyCosts.from_curves(curves),
    )


def random_terms(owners: int, public: str) -> parley.Terms:
    """Small banks with the demo's columns."""
    rng = np.random.default_rng(7)
    parts = [
        {
            "name": f"bank-{i}",
            "records": int(rng.integers(100, 1000)),
            "epsilon": 2.0,
            "value": float(10 ** rng.uniform(5, 7)),
            "privacy_cost": {"kind": str(rng.choice(KINDS)), "weight": float(10 ** rng.uniform(-2, 0))},
        }
        for i in range(owners)
    ]
    features = ["loan_amnt", "annual_inc", "dti", "fico", "revol_util"]
    model = {
        "kind": "linear-regression",
        "target": "int_rate",
        "features": features,
        "intercept": True,
        "public": public,
    }
    return parley.Terms.from_dict(
        {"model": model, "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 40.0}, "owners": parts}
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(f"{'owners':>8} {'join':>6} {'equilibrium':>12} {'growth':>7} {'largest gain':>13}")
    before = None
    for owners in (125, 250, 500, 1000, 2000):
        game = random_game(owners)
        began = time.perf_counter()
        deal = free_deal(game)
        seconds = time.perf_counter() - began
        growth = "" if before is None else f"N^{np.log2(seconds / before):.1f}"
        print(f"{owners:8,} {deal.members.sum():6} {seconds:10.2f} s {growth:>7} {largest_gain(game, deal):13.1e}")
        before = seconds
    game = random_game(1000)
    target = 1.5 * (game.fitness(np.full(1000, 10.0), game.everyone) or 1.0)
    began = time.perf_counter()
    paid = cheapest_contracts(game, target)
    print(
        f"contracts with 1,000 owners           {time.perf_counter() - began:8.2f} s   largest gain "
        f"{largest_gain(game, paid):.1e}"
    )

    with tempfile.TemporaryDirectory() as folder:
        public = str(Path(folder) / "public.parquet")
        synthetic_lending(2000, seed=1).to_parquet(public)
        terms = random_terms(1000, public)
        began = time.perf_counter()
        result = negotiate(terms)
    joined = sum(owner.participates for owner in result.owners)
    print(f"negotiate terms with 1,000 owners     {time.perf_counter() - began:8.2f} s   {joined} join")


if __name__ == "__main__":
    main()
