"""A game: every player chooses one number from an interval, and payoffs follow from what all chose."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import SettingError
from parley.validate import Floats, finite

Profiles = Callable[[Floats], Floats]  # profiles [..., N] -> one number a player [..., N]


@dataclass(frozen=True, eq=False)
class Game:
    """N players, the box of their strategies, and their payoffs as one function of profiles [..., N] -> [..., N].

    Parameters
    ----------
    payoff
        Of profiles [..., N], each player's payoff [..., N].
    low, high
        The ends of each player's strategies.
    privacy, epsilon
        What a profile means; left out: strategies have no meaning beside their payoffs.
    improvement
        What each player gains in accuracy, before weights and costs.
    without_privacy
        The profile at which nobody protects anything.
    curvature
        Entrywise bounds (lower, upper), valid on the whole box, of the second derivatives d2u_i/ds_i ds_j; only they
        can prove uniqueness, and whoever builds the game vouches for them.

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
            raise SettingError("low, high: expected as many numbers of each, one for every player, with low < high")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        middle = np.stack([(low + high) / 2] * 2)
        if np.shape(self.payoff(middle)) != middle.shape:
            raise SettingError(
                "payoff: expected a function of profiles [..., N] that returns payoffs of the same shape"
            )

    @property
    def players(self) -> int:
        """The number of players in the game, N."""
        return len(self.low)

    def clipped(self, given: ArrayLike) -> Floats:
        """The profile as an array inside the box; anything of another length is refused."""
        profile = finite(given, "profile")
        if profile.shape != self.low.shape:
            raise SettingError(f"profile: expected {self.players} numbers, one for every player")
        return np.asarray(np.clip(profile, self.low, self.high))

    def price_of_privacy(self, profile: Floats) -> float | None:
        """1 - sum of improvements here / without privacy (P eq. 17); None where nothing could have been gained."""
        if self.improvement is None or self.without_privacy is None:
            return None
        best = float(np.sum(self.improvement(self.without_privacy)))
        return 1 - float(np.sum(self.improvement(profile))) / best if best > 0 and math.isfinite(best) else None
