"""What selfishness costs: the social optimum, the prices of anarchy and stability (P eq. 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from parley.decisions.games.game import Game
from parley.errors import SettingError
from parley.validate import Floats

GRID_BUDGET = 60_000  # profiles looked at before the polish


@dataclass(frozen=True, eq=False)
class Welfare:
    """The best total payoff beside those of the equilibria; a price is None where a total payoff of 0 or less makes it
    meaningless."""

    optimum: Floats
    best_total: float
    price_of_anarchy: float | None  # best total / worst equilibrium's
    price_of_stability: float | None  # best total / best equilibrium's


def social_optimum(game: Game, seed: int = 0) -> Floats:
    """A profile with the largest sum of payoffs: a grid (random points for many players), then Powell's method from the
    best three."""
    per_player = int(GRID_BUDGET ** (1 / game.players))
    if per_player >= 5:
        axes = [np.linspace(a, b, per_player) for a, b in zip(game.low, game.high, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, game.players)
    else:
        points = np.random.default_rng(seed).uniform(game.low, game.high, (GRID_BUDGET // game.players, game.players))
    totals = game.payoff(points).sum(axis=-1)
    best = points[np.argsort(-totals)[:3]]
    polished = [
        minimize(
            lambda s: -float(game.payoff(s).sum()),
            start,
            method="Powell",
            bounds=list(zip(game.low, game.high, strict=True)),
        ).x
        for start in best
    ]
    candidates = np.concatenate([best, np.clip(polished, game.low, game.high)])
    return np.asarray(candidates[np.argmax(game.payoff(candidates).sum(axis=-1))])


def welfare(game: Game, equilibria: Sequence[Floats]) -> Welfare:
    """Compare the equilibria with the social optimum.

    Parameters
    ----------
    game
        Players, strategies and payoffs.
    equilibria
        Strategies [N] of each, as `solve` or `pure_equilibria` found them.

    Returns
    -------
    Welfare
        The largest total, those of the equilibria, and the prices of anarchy and stability.

    Examples
    --------
    >>> commons = Game(lambda s: s * (1 - s.sum(axis=-1, keepdims=True)), low=[0, 0], high=[1, 1])
    >>> result = welfare(commons, [np.array([1 / 3, 1 / 3])])
    >>> round(result.best_total, 6), round(result.price_of_anarchy, 6)
    (0.25, 1.125)
    """
    if not len(equilibria):
        raise SettingError("equilibria: expected at least one to compare with the social optimum")
    optimum = social_optimum(game)
    totals = [float(game.payoff(profile).sum()) for profile in equilibria]
    best = max(float(game.payoff(optimum).sum()), *totals)
    anarchy = best / min(totals) if min(totals) > 0 else None
    stability = best / max(totals) if max(totals) > 0 else None
    return Welfare(optimum, best, anarchy, stability)
