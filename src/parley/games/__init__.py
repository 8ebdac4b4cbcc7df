"""Which budgets rational owners choose, and what it takes to move them."""

from parley.games import joint_learning
from parley.games.best_response import best_responses, largest_gain
from parley.games.dynamics import Dynamics, best_response_dynamics
from parley.games.equilibrium import Equilibrium, pure_equilibria, solve
from parley.games.game import Game
from parley.games.negotiate import Negotiation, negotiate
from parley.games.welfare import Welfare, welfare

__all__ = [
    "Dynamics",
    "Equilibrium",
    "Game",
    "Negotiation",
    "Welfare",
    "best_response_dynamics",
    "best_responses",
    "joint_learning",
    "largest_gain",
    "negotiate",
    "pure_equilibria",
    "solve",
    "welfare",
]
