"""What P leaves open, measured: mechanisms that differ, iterations that are not shared, Phi before anybody trains."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parley.papers.gain_forecast import forecast_gains, judge, public_part
from parley.papers.joint_factorization import Mechanism, chosen_mechanisms, privacy_curves
from parley.papers.mechanism_pairs import USUAL, mechanism_games, mechanism_pairs, strategies
from parley.papers.shared_iterations import iteration_games, passes_in_turn, updates_at_strides
from parley.tasks.ratings.factorization import Factorization
from parley.tasks.ratings.table import Ratings

Report = Callable[[int, int], None]


def mechanisms_apart(ratings: Ratings, names: Sequence[str] | None, splits: int, progress: Report, memory: float) -> dict[str, Any]:
    """A different mechanism for each player: points and games."""
    chosen = strategies(chosen_mechanisms(names) if names else USUAL)
    points = mechanism_pairs(ratings, chosen, splits, Factorization(), progress, memory)
    return {"points": points, "games": mechanism_games(points)}


def iterations_shared(ratings: Ratings, splits: int, progress: Report) -> dict[str, Any]:
    """Sharing only some iterations: as P learns, by released updates, and the game over both p and how often each answers."""
    in_turn = passes_in_turn(ratings, splits, Factorization(), progress)
    updates = updates_at_strides(ratings, splits, Factorization(), progress)
    return {"in_turn": in_turn, "updates": updates, "games": iteration_games(updates)}


def gains_forecast(
    ratings: Ratings, names: Sequence[str] | None, users: int, splits: int, progress: Report, memory: float
) -> dict[str, Any]:
    """A forecast from so many public users, and what the others measured afterwards."""
    mechanisms: Sequence[Mechanism] = chosen_mechanisms(names) if names else USUAL
    public, private = public_part(ratings, users)
    each = len(np.unique(private.users)) // 2
    forecast = forecast_gains(public, each, mechanisms, splits, Factorization(), progress)
    measured = privacy_curves(private, mechanisms, splits, Factorization(), progress, both=True, memory=memory)
    facts = {"public_users": users, "users_of_each": each}
    return {**facts, "forecast": forecast, "points": measured, "judged": judge(forecast, measured)}
