"""Best responses: global search on a grid, then a polish. Vectorised over rows, so a whole curve costs one call."""

from collections.abc import Callable

import numpy as np

from parley.decisions.games.game import Game
from parley.errors import SettingError
from parley.validate import Floats, whole

GRID = 257  # points of the global search: two peaks closer than a 256th of the interval count as one
PEAKS = 3  # of the grid's highest local maxima are polished
GOLDEN = (5**0.5 - 1) / 2
STEPS = 38  # of golden section: the last bracket is 1e-10 of the interval, finer than payoffs can tell apart


def maximise(
    value: Callable[[Floats], Floats], low: Floats, high: Floats, grid: int = GRID, heights: Floats | None = None
) -> Floats:
    """Where each row's function is highest on [low, high]; of equal points the lowest.

    `value` maps x [M, K] to values [M, K], row by row; low and high are [M]. The answer is the global maximum unless a
    peak is narrower than the grid's spacing, and no worse than the best grid point in any case. `heights` are the
    values on the grid [M, grid], where the caller has a quicker way to them.

    >>> maximise(lambda x: -((x - 0.3) ** 2), np.zeros(1), np.ones(1)).round(6).tolist()
    [0.3]
    """
    x = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, whole(grid, "grid", least=3))
    y = value(x) if heights is None else heights
    beside = np.pad(y, ((0, 0), (1, 1)), constant_values=-np.inf)
    peaks = np.where((y >= beside[:, :-2]) & (y >= beside[:, 2:]), y, -np.inf)
    most = int(np.clip(np.isfinite(peaks).sum(axis=1).max(), 1, PEAKS))  # mostly one
    place = np.argsort(-peaks, axis=1, kind="stable")[:, :most]
    a = np.take_along_axis(x, np.maximum(place - 1, 0), axis=1)
    b = np.take_along_axis(x, np.minimum(place + 1, grid - 1), axis=1)
    polished = _golden(value, a, b)
    # grid points first: they win ties
    points = np.concatenate([np.take_along_axis(x, place, axis=1), polished], axis=1)
    found = value(points)
    best = np.where(found == found.max(axis=1, keepdims=True), points, np.inf)
    return np.asarray(best.min(axis=1))


def _golden(value: Callable[[Floats], Floats], a: Floats, b: Floats) -> Floats:
    """Golden-section search in every bracket [a, a + width] at once; `best` is the point inside that is known."""
    width = b - a
    left, right = value(b - GOLDEN * width), value(a + GOLDEN * width)
    down, best = left >= right, np.fmax(left, right)  # whether the maximum lies in the lower part
    for _ in range(STEPS):
        a = np.where(down, a, a + (1 - GOLDEN) * width)
        width = GOLDEN * width
        fresh = value(a + np.where(down, 1 - GOLDEN, GOLDEN) * width)
        down, best = np.where(down, fresh >= best, best >= fresh), np.fmax(best, fresh)
    return a + width / 2


def best_responses(game: Game, player: int, profiles: Floats, grid: int = GRID) -> Floats:
    """The player's best strategy [M] against each of these profiles [M, N]; its own entry in them does not matter.

    >>> commons = Game(lambda s: s * (1 - s.sum(axis=-1, keepdims=True)), low=[0, 0], high=[1, 1])
    >>> best_responses(commons, 0, np.array([[0.0, 0.5], [0.0, 0.0]])).round(6).tolist()
    [0.25, 0.5]
    """
    if not 0 <= player < game.players:
        raise SettingError(f"player = {player}: expected a whole number from 0 to {game.players - 1}")
    rows = len(profiles)
    others = np.array(profiles, dtype=np.float64)

    def value(x: Floats) -> Floats:
        tried = np.repeat(others[:, None, :], x.shape[1], axis=1)
        tried[..., player] = x
        return game.payoff(tried)[..., player]

    return maximise(value, np.full(rows, game.low[player]), np.full(rows, game.high[player]), grid)


def all_best_responses(game: Game, profile: Floats) -> Floats:
    """Every player's best strategy against this one profile [N]."""
    players = np.arange(game.players)

    def value(x: Floats) -> Floats:
        tried = np.tile(np.asarray(profile, dtype=np.float64), (*x.shape, 1))
        tried[players, :, players] = x
        return game.payoff(tried)[players, :, players]

    return maximise(value, game.low, game.high)


def largest_gain(game: Game, profile: Floats) -> float:
    """The most that any player could gain by changing its own strategy alone: 0 at an equilibrium.

    >>> commons = Game(lambda s: s * (1 - s.sum(axis=-1, keepdims=True)), low=[0, 0], high=[1, 1])
    >>> [round(largest_gain(commons, np.array([each, each])), 9) for each in (1 / 3, 0.25)]
    [0.0, 0.015625]
    """
    return float(np.max(gains(game, profile), initial=0.0))


def gains(game: Game, profile: Floats) -> Floats:
    """What each player could gain by changing its own strategy alone [N]."""
    profile = game.clipped(profile)
    here = game.payoff(profile)
    deviations = np.repeat(profile[None], game.players, axis=0)
    deviations[np.diag_indices(game.players)] = all_best_responses(game, profile)
    return np.asarray(np.diagonal(game.payoff(deviations)) - here)
