"""What sampled points of a game say of it: they can refute that payoffs are concave or have a potential, and never
prove it."""

import numpy as np

SAMPLES = 500
STEP = 1e-3  # of an interval, for second differences


def sampled_concavity(game, seed=0):
    """The largest d2u_i/ds_i^2 at random points. Positive: some payoff is not concave in its own strategy. Negative:
    none was seen."""
    base, step = _samples(game, seed)
    worst = -np.inf
    for i in range(game.players):
        move = np.zeros(game.players)
        move[i] = step[i]
        second = (game.payoff(base + move) - 2 * game.payoff(base) + game.payoff(base - move))[..., i] / step[i] ** 2
        worst = max(worst, float(second.max()))
    return worst


def sampled_potential_gap(game, seed=0):
    """The largest |d2u_i/ds_i ds_j - d2u_j/ds_i ds_j| at random points. About 0 is what a potential game has (P eq.
    22)."""
    base, step = _samples(game, seed)
    gap = 0.0
    for i in range(game.players):
        for j in range(i):
            mixed = _mixed(game, base, i, j, step)
            gap = max(gap, float(np.abs(mixed[..., i] - mixed[..., j]).max()))
    return gap


def _samples(game, seed):
    rng = np.random.default_rng(seed)
    step = STEP * (game.high - game.low)
    return rng.uniform(game.low + step, game.high - step, (SAMPLES, game.players)), step


def _mixed(game, base, i, j, step):
    """d2u/ds_i ds_j of all payoffs at these points, by central differences."""
    total = np.zeros_like(base)
    for a in (-1, 1):
        for b in (-1, 1):
            move = np.zeros(game.players)
            move[i], move[j] = a * step[i], b * step[j]
            total += a * b * game.payoff(base + move)
    return np.asarray(total / (4 * step[i] * step[j]))
