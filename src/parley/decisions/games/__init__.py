"""Which budgets rational owners choose, and what it takes to move them."""

from parley.decisions.games.best_response import best_responses, largest_gain
from parley.decisions.games.equilibrium import Dynamics, Equilibrium, best_response_dynamics, pure_equilibria, solve
from parley.decisions.games.game import Game
from parley.decisions.games.negotiate import Negotiation, negotiate
from parley.decisions.games.welfare import Welfare, welfare

__all__ = [
    "Dynamics",
    "Equilibrium",
    "Game",
    "Negotiation",
    "Welfare",
    "best_response_dynamics",
    "best_responses",
    "largest_gain",
    "negotiate",
    "pure_equilibria",
    "solve",
    "welfare",
]
