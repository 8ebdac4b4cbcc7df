"""Best-response dynamics: players move in turn or all at once, and every step is kept (T figures 4.2 and 4.3)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.decisions.games.best_response import best_responses
from parley.decisions.games.game import Game
from parley.validate import Floats, whole

Order = Literal["sequential", "simultaneous"]

STILL = 1e-7  # a round that moves nobody by more than this share of its interval has come to rest


@dataclass(frozen=True, eq=False)
class Dynamics:
    """The profiles after each round, the start first [rounds + 1, N]. At rest means: nobody moves any more."""

    path: Floats
    at_rest: bool

    @property
    def end(self) -> Floats:
        """The last profile that was reached."""
        return np.asarray(self.path[-1])


def best_response_dynamics(
    game: Game, start: ArrayLike, order: Order = "sequential", rounds: int = 200, share: float = 1.0
) -> Dynamics:
    """Let players answer each other from `start`, one after the other within a round or all at once.

    With a `share` below 1 a player goes only that part of the way, which calms cycles. A path that comes to rest ends
    at an equilibrium; one that does not says nothing about whether there is one.

    Parameters
    ----------
    game
        Players, strategies and payoffs.
    start
        Strategies [N] to begin with.
    order
        "sequential": one after the other; "simultaneous": all at once.
    rounds
        At most so many.
    share
        Of the way to the best response that a player goes.

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
    """(paths [rounds + 1, M, N], which came to rest [M]) from many starts [M, N] at once; ends early when all rest."""
    path = [starts]
    still = np.zeros(len(starts), dtype=bool)
    for _ in range(rounds):
        before = path[-1]
        after = before.copy()
        for i in range(game.players):
            seen = before if order == "simultaneous" else after
            after[:, i] += share * (best_responses(game, i, seen) - after[:, i])
        path.append(after)
        still = np.max(np.abs(after - before) / (game.high - game.low), axis=1) < STILL * share
        if still.all():
            break
    return np.array(path), still
