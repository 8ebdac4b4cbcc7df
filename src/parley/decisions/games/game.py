"""Games in which every player chooses one number from an interval; best responses by a grid, then a polish."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import SettingError
from parley.validate import Floats, finite, whole

Profiles = Callable[[Floats], Floats]  # profiles [..., N] -> one number a player [..., N]


@dataclass(frozen=True, eq=False)
class Game:
    """N players, the box of their strategies, and their payoffs as one function of profiles [..., N] -> [..., N].

    Parameters
    ----------
    payoff
        Each player's payoff [..., N] at profiles [..., N].
    low, high
        The ends of each player's strategies.
    privacy, epsilon
        What a profile means; default: nothing beside its payoffs.
    improvement
        Each player's gain in accuracy, before weights and costs.
    without_privacy
        The profile at which nobody protects anything.
    curvature
        Entrywise bounds (lower, upper) of d2u_i/ds_i ds_j on the whole box. Only they can prove uniqueness; the caller
        vouches for them.

    Examples
    --------
    >>> import numpy as np
    >>> commons = Game(lambda s: s * (1 - s.sum(axis=-1, keepdims=True)), low=[0, 0], high=[1, 1])
    >>> commons.payoff(np.array([0.25, 0.25])).tolist()
    [0.125, 0.125]
    """

    payoff: Profiles
    low: Floats
    high: Floats
    privacy: Profiles | None = None
    epsilon: Profiles | None = None
    improvement: Profiles | None = None
    without_privacy: Floats | None = None
    curvature: tuple[Floats, Floats] | None = None

    def __post_init__(self) -> None:
        low, high = finite(self.low, "low"), finite(self.high, "high")
        if low.ndim != 1 or low.shape != high.shape or not low.size or not (low < high).all():
            raise SettingError("low, high: expected one number per player in low and in high, with low < high")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        middle = np.stack([(low + high) / 2] * 2)
        if np.shape(self.payoff(middle)) != middle.shape:
            raise SettingError(
                "payoff: expected a function of profiles [..., N] that returns payoffs of the same shape"
            )

    @property
    def players(self) -> int:
        """The number of players, N."""
        return len(self.low)

    def clipped(self, given: ArrayLike) -> Floats:
        """Clip a profile to the box; refuse another length."""
        profile = finite(given, "profile")
        if profile.shape != self.low.shape:
            raise SettingError(f"profile: expected {self.players} numbers, one for every player")
        return np.asarray(np.clip(profile, self.low, self.high))

    def price_of_privacy(self, profile: Floats) -> float | None:
        """Return 1 - sum of improvements here / without privacy (P eq. 17); None if nothing could have been gained."""
        if self.improvement is None or self.without_privacy is None:
            return None
        best = float(np.sum(self.improvement(self.without_privacy)))
        return 1 - float(np.sum(self.improvement(profile))) / best if best > 0 and math.isfinite(best) else None


GRID_POINTS = 257  # points of the global search: two peaks closer than a 256th of the interval count as one
POLISHED_PEAKS = 3  # of the grid's highest local maxima are polished
GOLDEN_RATIO = (5**0.5 - 1) / 2
GOLDEN_STEPS = 38  # of golden section: the last bracket is 1e-10 of the interval, finer than payoffs can tell apart


def maximise(
    value: Callable[[Floats], Floats], low: Floats, high: Floats, grid: int = GRID_POINTS, heights: Floats | None = None
) -> Floats:
    """Return where each row's function `value`, x [M, K] -> [M, K], is highest on [low, high]; the lowest of equal
    points.

    This is the global maximum unless a peak is narrower than the grid's spacing, and never worse than the best grid
    point. `heights` [M, grid] are the values on the grid, if the caller has them.

    >>> maximise(lambda x: -((x - 0.3) ** 2), np.zeros(1), np.ones(1)).round(6).tolist()
    [0.3]
    """
    x = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, whole(grid, "grid", least=3))
    y = value(x) if heights is None else heights
    beside = np.pad(y, ((0, 0), (1, 1)), constant_values=-np.inf)
    peaks = np.where((y >= beside[:, :-2]) & (y >= beside[:, 2:]), y, -np.inf)
    most = int(np.clip(np.isfinite(peaks).sum(axis=1).max(), 1, POLISHED_PEAKS))  # mostly one
    place = np.argsort(-peaks, axis=1, kind="stable")[:, :most]
    a = np.take_along_axis(x, np.maximum(place - 1, 0), axis=1)
    b = np.take_along_axis(x, np.minimum(place + 1, grid - 1), axis=1)
    polished = _golden(value, a, b)
    # grid points first: they win ties
    points = np.concatenate([np.take_along_axis(x, place, axis=1), polished], axis=1)
    values = value(points)
    best = np.where(values == values.max(axis=1, keepdims=True), points, np.inf)
    return np.asarray(best.min(axis=1))


def _golden(value: Callable[[Floats], Floats], a: Floats, b: Floats) -> Floats:
    width = b - a
    left, right = value(b - GOLDEN_RATIO * width), value(a + GOLDEN_RATIO * width)
    down, best = left >= right, np.fmax(left, right)  # whether the maximum lies in the lower part
    for _ in range(GOLDEN_STEPS):
        a = np.where(down, a, a + (1 - GOLDEN_RATIO) * width)
        width = GOLDEN_RATIO * width
        fresh = value(a + np.where(down, 1 - GOLDEN_RATIO, GOLDEN_RATIO) * width)
        down, best = np.where(down, fresh >= best, best >= fresh), np.fmax(best, fresh)
    return a + width / 2


def best_responses(game: Game, player: int, profiles: Floats, grid: int = GRID_POINTS) -> Floats:
    """Return the player's best strategy [M] against each of these profiles [M, N]; its own entry in them is ignored.

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
    """Find every player's best strategy against this profile [N]."""
    players = np.arange(game.players)

    def value(x: Floats) -> Floats:
        tried = np.tile(np.asarray(profile, dtype=np.float64), (*x.shape, 1))
        tried[players, :, players] = x
        return game.payoff(tried)[players, :, players]

    return maximise(value, game.low, game.high)


def largest_gain(game: Game, profile: Floats) -> float:
    """Return the most that any player gains by changing its own strategy alone; 0 at an equilibrium.

    >>> commons = Game(lambda s: s * (1 - s.sum(axis=-1, keepdims=True)), low=[0, 0], high=[1, 1])
    >>> [round(largest_gain(commons, np.array([each, each])), 9) for each in (1 / 3, 0.25)]
    [0.0, 0.015625]
    """
    return float(np.max(gains(game, profile), initial=0.0))


def gains(game: Game, profile: Floats) -> Floats:
    """Return the most that each player gains by changing its own strategy alone [N]."""
    profile = game.clipped(profile)
    payoff = game.payoff(profile)
    deviations = np.repeat(profile[None], game.players, axis=0)
    deviations[np.diag_indices(game.players)] = all_best_responses(game, profile)
    return np.asarray(np.diagonal(game.payoff(deviations)) - payoff)
