"""Which budgets rational owners choose, and what it takes to move them."""

from parley.games.dynamics import Dynamics, best_response_dynamics
from parley.games.equilibrium import Equilibrium, pure_equilibria, solve
from parley.games.game import Game
from parley.games.response import best_responses, largest_gain
from parley.games.welfare import Welfare, welfare

__all__ = [
    "Dynamics",
    "Equilibrium",
    "Game",
    "Welfare",
    "best_response_dynamics",
    "best_responses",
    "largest_gain",
    "pure_equilibria",
    "solve",
    "welfare",
]
