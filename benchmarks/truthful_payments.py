"""What truthful payments cost beside contracts, and what an owner gains by a false statement of its privacy cost.

Four clinics of unlike sizes, values and costs, whose costs are linear. For each target, by contracts and by the
truthful rule: what the learner pays in all if all costs are true (below 0: clinics pay), the clinics' payoffs in all,
and the most that one clinic gains by stating another cost, of many tried. Payoffs are at true costs.

    python benchmarks/truthful_payments.py
"""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import parley
from parley.decisions.games.budget_game import BudgetGame
from parley.decisions.games.negotiate import negotiate
from parley.decisions.games.payments import Deal, cheapest_contracts
from parley.decisions.games.truthful_payments import TruthfulRule, pay
from parley.decisions.knowledge.privacy_cost import PrivacyCosts
from parley.errors import NoEquilibriumError
from parley.terms import PrivacyCost

CLINICS = (("clinic-a", 250, 60_000, 9), ("clinic-b", 330, 60_000, 4), ("clinic-c", 400, 70_000, 8),
           ("clinic-d", 300, 25_000, 14))  # fmt: skip
SHARES = (1.08, 1.1, 1.13)  # of the best relative fitness within reach
STATED = np.geomspace(0.2, 5, 12)  # multiples of the true cost that are tried
MAX_PRICE = 60.0


def clinics(folder: Path) -> parley.Terms:
    """The clinics' terms, with a public sample."""
    rng = np.random.default_rng(0)
    columns = [f"measurement_{place}" for place in range(10)]
    table = pd.DataFrame(rng.uniform(-1, 1, (2000, len(columns))), columns=columns)
    table["stay"] = table.to_numpy() @ np.linspace(2, -1, len(columns)) + rng.normal(0, 1.5, len(table))
    table.head(80).to_csv(folder / "public.csv", index=False)
    owners = [
        {
            "name": name,
            "records": records,
            "epsilon": 4.0,
            "value": float(value),
            "privacy_cost": {"kind": "linear", "weight": float(weight)},
        }
        for name, records, value, weight in CLINICS
    ]
    return parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "stay", "public": str(folder / "public.csv")},
            "learning": {"horizon": 8, "step": 1.2},
            "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 16.0},
            "owners": owners,
        }
    )


def linear(weights: np.ndarray) -> PrivacyCosts:
    return PrivacyCosts.from_curves([PrivacyCost(kind="linear", weight=float(weight)) for weight in weights])


Play = Callable[[np.ndarray], Deal | None]  # statements to what is agreed


def payoffs(game: BudgetGame, deal: Deal | None) -> np.ndarray:
    """Each clinic's payoff at its true cost."""
    if deal is None:
        return np.zeros(game.owners)
    gains = game.value * game.gains(deal.epsilon, deal.members) - game.privacy_cost(deal.epsilon)
    return np.where(deal.members, gains + deal.payment, 0.0)


def best_lie(game: BudgetGame, play: Play, true: np.ndarray) -> tuple[float, str, float]:
    """(the most that a false statement gains, who states which multiple, the money paid then)."""
    honest, found = payoffs(game, play(true)), (0.0, "-", 0.0)
    for owner in range(game.owners):
        for multiple in STATED:
            stated = true.copy()
            stated[owner] *= multiple
            deal = play(stated)
            gain = float(payoffs(game, deal)[owner] - honest[owner])
            if deal is not None and gain > found[0]:
                found = gain, f"{CLINICS[owner][0]}, {multiple:.2g} times", deal.spend
    return found


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        game = negotiate(clinics(Path(folder))).game
    assert isinstance(game, BudgetGame)
    true, everybody = np.array([float(weight) for *_, weight in CLINICS]), game.everyone
    best = game.fitness(np.full(game.owners, game.budget_range[1]), everybody) or 1.0
    shapes = linear(np.ones(game.owners))
    print("| target ψ | by | learner pays | clinics' payoffs | most gained by a false cost |")
    print("|---|---|---|---|---|")
    for share in SHARES:
        target = share * best
        rule = TruthfulRule.from_game(game, shapes, target, MAX_PRICE)

        def contracts(stated: np.ndarray, target: float = target) -> Deal | None:
            try:
                return cheapest_contracts(replace(game, privacy_cost=linear(stated)), target)
            except NoEquilibriumError:
                return None

        def truthful(stated: np.ndarray, rule: TruthfulRule = rule) -> Deal:
            return pay(rule, game, shapes, stated)

        for name, play in (("contracts", contracts), ("truthful rule", truthful)):
            deal, (gain, who, money) = play(true), best_lie(game, play, true)
            spent = "nobody joins" if deal is None else f"{deal.spend:,.1f}"
            lie = f"{gain:,.1f} ({who}; the learner pays {money:,.1f})" if gain > 1e-6 else "nothing"
            print(f"| {target:.3g} | {name} | {spent} | {payoffs(game, deal).sum():,.1f} | {lie} |", flush=True)


if __name__ == "__main__":
    main()
