"""What is known about a game's equilibria before looking for them.

`contraction` proves; the other two look at sampled points, so they can refute but never prove, and say so by their names.
"""

import numpy as np

from parley.decisions.games.game import Game
from parley.validate import Floats

SAMPLES = 500
STEP = 1e-3  # of an interval, for second differences


def contraction(game: Game) -> float | None:
    """How much best responses shrink distances; below 1 there is exactly one equilibrium. None: nothing is known.

    If u_i is strictly concave in s_i with |d2u_i/ds_i^2| >= d_i > 0 and |d2u_i/ds_i ds_j| <= b_ij on the box, best responses are
    single-valued and |r_i(s) - r_i(t)| <= sum_j (b_ij/d_i) |s_j - t_j| (projection on an interval shrinks further). With the
    spectral radius of (b_ij/d_i) below 1 they contract in a weighted maximum norm, and Banach's fixed point is the only equilibrium.

    >>> bounds = np.array([[-2.0, -1.0], [-1.0, -2.0]])
    >>> commons = Game(lambda s: s * (1 - s.sum(axis=-1, keepdims=True)), low=[0, 0], high=[1, 1], curvature=(bounds, bounds))
    >>> round(contraction(commons), 9)
    0.5
    """
    if game.curvature is None:
        return None
    lower, upper = game.curvature
    own = -np.diagonal(upper)
    if not (own > 0).all():
        return None
    cross = np.maximum(np.abs(lower), np.abs(upper)) * (1 - np.eye(game.players))
    return float(np.max(np.abs(np.linalg.eigvals(cross / own[:, None]))))


def sampled_concavity(game: Game, seed: int = 0) -> float:
    """The largest d2u_i/ds_i^2 at random points. Positive: some payoff is not concave in its own strategy. Negative: none was seen."""
    base, step = _samples(game, seed)
    worst = -np.inf
    for i in range(game.players):
        move = np.zeros(game.players)
        move[i] = step[i]
        second = (game.payoff(base + move) - 2 * game.payoff(base) + game.payoff(base - move))[..., i] / step[i] ** 2
        worst = max(worst, float(second.max()))
    return worst


def sampled_potential_gap(game: Game, seed: int = 0) -> float:
    """The largest |d2u_i/ds_i ds_j - d2u_j/ds_i ds_j| at random points. About 0 is what a potential game has (P eq. 22)."""
    base, step = _samples(game, seed)
    gap = 0.0
    for i in range(game.players):
        for j in range(i):
            mixed = _mixed(game, base, i, j, step)
            gap = max(gap, float(np.abs(mixed[..., i] - mixed[..., j]).max()))
    return gap


def _samples(game: Game, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    step = STEP * (game.high - game.low)
    return rng.uniform(game.low + step, game.high - step, (SAMPLES, game.players)), step


def _mixed(game: Game, base: Floats, i: int, j: int, step: Floats) -> Floats:
    """d2u/ds_i ds_j of all payoffs at these points, by central differences."""
    total = np.zeros_like(base)
    for a in (-1, 1):
        for b in (-1, 1):
            move = np.zeros(game.players)
            move[i], move[j] = a * step[i], b * step[j]
            total += a * b * game.payoff(base + move)
    return np.asarray(total / (4 * step[i] * step[j]))
