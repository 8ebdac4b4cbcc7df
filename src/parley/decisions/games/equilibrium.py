"""Pure equilibria of games, the social optimum, and the prices of anarchy and stability (P eq. 4)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize, root

from parley.decisions.games.game import Game, all_best_responses, best_responses, gains, largest_gain
from parley.errors import NoEquilibriumError, SettingError
from parley.validate import Floats, whole

Order = Literal["sequential", "simultaneous"]

REST_TOLERANCE = 1e-7  # a round that moves nobody by more than this share of its interval has come to rest
TOLERANCE = 1e-7  # the largest gain, relative to the spread of payoffs, with which a profile counts as an equilibrium
CURVE_POINTS = 257  # points of a best-response curve
BISECTION_STEPS = 30  # of a bracket of a curve: what is left is finer than best responses are
MIN_DISTANCE = 1e-4  # of an interval: equilibria closer than this are one
RANDOM_STARTS = 6  # at random, beside the box's lowest, highest and middle point
MAX_ROUNDS = 40  # of best responses


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """A profile from which no player gains by deviating alone, up to the `largest_gain` that the check found. `unique`
    is True only if proven, False if another was found, None if unknown; `because` gives the reason. `privacy` and the
    fields after it are None if the game gives strategies no such meaning."""

    strategies: Floats
    payoff: Floats
    largest_gain: float
    unique: bool | None
    because: str
    others: tuple[Floats, ...]
    privacy: Floats | None
    epsilon: Floats | None
    improvement: Floats | None
    price_of_privacy: float | None


def solve(game: Game) -> Equilibrium:
    """Return the equilibrium with the largest total payoff among those found; raise `NoEquilibriumError` if there is
    none.

    For two players the search follows both best-response curves and finds every equilibrium isolated on a grid of 257
    points. For more players it tries best-response dynamics, then Newton's method, from several starts.

    Parameters
    ----------
    game
        Players, strategies and payoffs.

    Returns
    -------
    Equilibrium
        The `strategies`, their meaning, the largest gain from deviating, and whether it is proved `unique`.

    Examples
    --------
    >>> bounds = np.array([[-2.0, -1.0], [-1.0, -2.0]])
    >>> payoff = lambda s: s * (1 - s.sum(axis=-1, keepdims=True))
    >>> commons = Game(payoff, low=[0, 0], high=[1, 1], curvature=(bounds, bounds))
    >>> found = solve(commons)
    >>> found.strategies.round(6).tolist(), found.unique
    ([0.333333, 0.333333], True)
    """
    profiles = pure_equilibria(game) if game.players == 2 else reached_equilibria(game)
    if not profiles:
        curves, search = "the best-response curves do not cross on the grid", "no starting point led to an equilibrium"
        searched = curves if game.players == 2 else search
        raise NoEquilibriumError(
            f"no equilibrium in pure strategies was found: {searched}; owners would have to randomise or agree by "
            "other means"
        )
    return describe(game, profiles)


def describe(game: Game, found: Sequence[Floats]) -> Equilibrium:
    """Describe the equilibrium with the largest total payoff: its meaning, and whether it is unique."""
    best = max(range(len(found)), key=lambda place: float(np.sum(game.payoff(found[place]))))
    profile = found[best]
    unique, because = _uniqueness(game, len(found))
    return Equilibrium(
        strategies=profile,
        payoff=game.payoff(profile),
        largest_gain=largest_gain(game, profile),
        unique=unique,
        because=because,
        others=tuple(other for place, other in enumerate(found) if place != best),
        privacy=None if game.privacy is None else game.privacy(profile),
        epsilon=None if game.epsilon is None else game.epsilon(profile),
        improvement=None if game.improvement is None else game.improvement(profile),
        price_of_privacy=game.price_of_privacy(profile),
    )


def _uniqueness(game: Game, count: int) -> tuple[bool | None, str]:
    factor = contraction(game)
    if factor is not None and factor < 1:
        return True, f"best responses contract distances by the factor {factor:.3g}"
    if count > 1:
        return False, f"{count} equilibria were found"
    return None, "one equilibrium was found; nothing proves that there is no other"


def pure_equilibria(game: Game) -> list[Floats]:
    """Return the equilibria of a two-player game that its best-response curves show, and those at corners of the box.

    Player 2's strategy y belongs to an equilibrium iff r2(r1(y)) = y. Zeros and sign changes of r2(r1(y)) - y on a grid
    are bisected and kept if nobody gains by deviating there; a jump is no equilibrium. If an interval of strategies is
    equally good, its lowest point stands for it. Two crossings within a 256th of the interval can be missed.

    Parameters
    ----------
    game
        A game of two players.

    Returns
    -------
    list of arrays [2]
        The strategies of each equilibrium.

    Examples
    --------
    >>> commons = Game(lambda s: s * (1 - s.sum(axis=-1, keepdims=True)), low=[0, 0], high=[1, 1])
    >>> [found.round(4).tolist() for found in pure_equilibria(commons)]
    [[0.3333, 0.3333]]
    """
    if game.players != 2:
        raise SettingError(f"game: expected 2 players, found {game.players}; for any number of players, use solve")
    y = np.linspace(game.low[1], game.high[1], CURVE_POINTS)
    gap = _returned(game, y)[1] - y
    near = np.abs(gap) <= MIN_DISTANCE * (game.high[1] - game.low[1])
    change = np.flatnonzero(np.sign(gap[:-1]) * np.sign(gap[1:]) < 0)
    below, above = _bisect(game, y[change], y[change + 1], gap[change])
    candidates = np.concatenate([y[near], below, above])
    profiles = (
        [np.array(pair) for pair in zip(_returned(game, candidates)[0], candidates, strict=True)]
        if candidates.size
        else []
    )
    refined = [_refined(game, profile) for profile in profiles]
    corners = [np.array(corner) for corner in itertools.product(*zip(game.low, game.high, strict=True))]
    return _distinct(game, [*corners, *refined])


def _returned(game: Game, y: Floats) -> tuple[Floats, Floats]:
    """Return (r1(y), r2(r1(y))) for strategies y of player 2."""
    x = best_responses(game, 0, np.stack([np.full_like(y, game.low[0]), y], axis=1))
    return x, best_responses(game, 1, np.stack([x, y], axis=1))


def _bisect(game: Game, low: Floats, high: Floats, gap: Floats) -> tuple[Floats, Floats]:
    if not low.size:
        return low, high
    sign = np.sign(gap)
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        same = np.sign(_returned(game, middle)[1] - middle) == sign
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return low, high


def _refined(game: Game, profile: Floats) -> Floats:
    """Improve a near-equilibrium by a few rounds of best responses; keep it only if it is better."""
    end = best_response_dynamics(game, profile, rounds=20).end
    near = np.max(np.abs(end - profile) / (game.high - game.low)) < 10 * MIN_DISTANCE
    return end if near and largest_gain(game, end) < largest_gain(game, profile) else profile


def reached_equilibria(game: Game) -> list[Floats]:
    """Find equilibria by best-response dynamics from several starts; if that fails, by Newton's method."""
    rng = np.random.default_rng(0)
    spread = rng.uniform(game.low, game.high, (RANDOM_STARTS, game.players))
    starts = np.stack([game.low, game.high, (game.low + game.high) / 2, *spread])
    ends, restless = [], starts
    for share in (1.0, 0.3):
        path, at_rest = paths(game, restless, "sequential", MAX_ROUNDS, share)
        ends += list(path[-1][at_rest])
        restless = path[-1][~at_rest]
        if not len(restless):
            break
    return _distinct(game, ends) or _distinct(game, [_newton(game, end) for end in restless])


def _newton(game: Game, start: Floats) -> Floats:
    """Find a candidate fixed point of the best responses, which are only piecewise smooth, near `start`."""
    there = root(lambda s: all_best_responses(game, np.clip(s, game.low, game.high)) - s, start, method="hybr")
    return game.clipped(there.x)


def _distinct(game: Game, profiles: Sequence[Floats]) -> list[Floats]:
    """Keep the equilibria among these profiles, each once."""
    kept: list[Floats] = []
    scale = _spread(game)
    for profile in profiles:
        new = all(np.max(np.abs(profile - other) / (game.high - game.low)) > MIN_DISTANCE for other in kept)
        if new and (gains(game, profile) <= TOLERANCE * scale).all():
            kept.append(profile)
    return kept


def _spread(game: Game) -> Floats:
    """Return each player's range of payoffs over the box, so that tolerances do not depend on scale."""
    sample = np.random.default_rng(0).uniform(game.low, game.high, (256, game.players))
    payoff = game.payoff(np.concatenate([sample, game.low[None], game.high[None]]))
    return np.asarray(np.ptp(payoff, axis=0))


def contraction(game: Game) -> float | None:
    """Return the factor by which best responses shrink distances; None if unknown. Below 1, the equilibrium is unique.

    Suppose that u_i is strictly concave in s_i with |d2u_i/ds_i^2| >= d_i > 0 and |d2u_i/ds_i ds_j| <= b_ij on the box.
    Then best responses are single-valued and |r_i(s) - r_i(t)| <= sum_j (b_ij/d_i) |s_j - t_j|; projection on an
    interval only shrinks distances. If the spectral radius of (b_ij/d_i) is below 1, they contract in a weighted
    maximum norm, and Banach's fixed point is the only equilibrium.

    >>> bounds = np.array([[-2.0, -1.0], [-1.0, -2.0]])
    >>> payoff = lambda s: s * (1 - s.sum(axis=-1, keepdims=True))
    >>> commons = Game(payoff, low=[0, 0], high=[1, 1], curvature=(bounds, bounds))
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


@dataclass(frozen=True, eq=False)
class Dynamics:
    """The path of best-response dynamics [rounds + 1, N] (T figures 4.2 and 4.3), and whether it came to rest."""

    path: Floats
    at_rest: bool

    @property
    def end(self) -> Floats:
        """The last profile reached."""
        return np.asarray(self.path[-1])


def best_response_dynamics(
    game: Game, start: ArrayLike, order: Order = "sequential", rounds: int = 200, share: float = 1.0
) -> Dynamics:
    """Let players answer each other from `start`, in turn within a round or all at once.

    A `share` below 1 calms cycles. A path that comes to rest ends at an equilibrium; one that does not proves nothing.

    Parameters
    ----------
    game
        Players, strategies and payoffs.
    start
        The first strategies [N].
    order
        "sequential": in turn; "simultaneous": all at once.
    rounds
        The maximum number of rounds.
    share
        The share of the way to its best response that a player moves.

    Returns
    -------
    Dynamics
        The path, its `end`, and whether it came to rest there (`at_rest`).

    Examples
    --------
    >>> commons = Game(lambda s: s * (1 - s.sum(axis=-1, keepdims=True)), low=[0, 0], high=[1, 1])
    >>> best_response_dynamics(commons, [0.0, 1.0]).end.round(6).tolist()
    [0.333333, 0.333333]
    """
    path, at_rest = paths(game, game.clipped(start)[None], order, whole(rounds, "rounds"), share)
    return Dynamics(path[:, 0], bool(at_rest[0]))


def paths(game: Game, starts: Floats, order: Order, rounds: int, share: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (paths [rounds + 1, M, N], whether each came to rest [M]) from starts [M, N]; end early when all rest."""
    path = [starts]
    still = np.zeros(len(starts), dtype=bool)
    for _ in range(rounds):
        before = path[-1]
        after = before.copy()
        for i in range(game.players):
            seen = before if order == "simultaneous" else after
            after[:, i] += share * (best_responses(game, i, seen) - after[:, i])
        path.append(after)
        still = np.max(np.abs(after - before) / (game.high - game.low), axis=1) < REST_TOLERANCE * share
        if still.all():
            break
    return np.array(path), still


GRID_BUDGET = 60_000  # profiles looked at before the polish


@dataclass(frozen=True, eq=False)
class Welfare:
    """The best total payoff beside the equilibria's; a price is None if a total payoff is 0 or less."""

    optimum: Floats
    best_total: float
    price_of_anarchy: float | None  # best total / worst equilibrium's
    price_of_stability: float | None  # best total / best equilibrium's


def social_optimum(game: Game, seed: int = 0) -> Floats:
    """Find a profile with the largest total payoff: a grid or random points, then Powell's method from three."""
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
        The strategies [N] of each, as `solve` or `pure_equilibria` found them.

    Returns
    -------
    Welfare
        The largest total payoff, and the prices of anarchy and stability.

    Examples
    --------
    >>> commons = Game(lambda s: s * (1 - s.sum(axis=-1, keepdims=True)), low=[0, 0], high=[1, 1])
    >>> result = welfare(commons, [np.array([1 / 3, 1 / 3])])
    >>> round(result.best_total, 6), round(result.price_of_anarchy, 6)
    (0.25, 1.125)
    """
    if not len(equilibria):
        raise SettingError("equilibria: expected at least one equilibrium to compare with the social optimum")
    optimum = social_optimum(game)
    totals = [float(game.payoff(profile).sum()) for profile in equilibria]
    best = max(float(game.payoff(optimum).sum()), *totals)
    anarchy = best / min(totals) if min(totals) > 0 else None
    stability = best / max(totals) if max(totals) > 0 else None
    return Welfare(optimum, best, anarchy, stability)
