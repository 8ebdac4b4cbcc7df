"""Which budgets rational owners choose, and what it takes to move them."""

from parley.decisions.games.equilibrium import (
    Dynamics,
    Equilibrium,
    Welfare,
    best_response_dynamics,
    pure_equilibria,
    solve,
    welfare,
)
from parley.decisions.games.game import Game, best_responses, largest_gain
from parley.decisions.games.negotiate import Negotiation, negotiate
from parley.decisions.games.truthful_payments import TruthfulRule, truthful_deal

__all__ = [
    "Dynamics",
    "Equilibrium",
    "Game",
    "Negotiation",
    "TruthfulRule",
    "Welfare",
    "best_response_dynamics",
    "best_responses",
    "largest_gain",
    "negotiate",
    "pure_equilibria",
    "solve",
    "truthful_deal",
    "welfare",
]
