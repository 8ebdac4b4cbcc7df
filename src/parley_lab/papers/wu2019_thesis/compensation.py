"""Compensation games (T chapter 4): owners choose budgets, a learner compensates them.

tau_l = wf_l g(eps_l) - e^(eps_l), with g what the release gives away (leakage, T eq. 2.2) or what it is good for
(utility, T eq. 2.3), and wf_l the others' share in sum eps n^c times a scale (T eq. 4.1 and 4.2). The scale is there to
bring gain and cost to [0, 1]; as printed, max g/max e^eps, it multiplies by what it should divide by. The default
divides each by its own maximum; `printed=True` is the document's.

T calls the payoff concave and the equilibrium therefore unique. The utility game is not concave and has two equilibria:
one where all give little and nobody's share is worth more, and one inside. Uniqueness is therefore not claimed for
either game.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from parley.decisions.games.game import Game, best_responses
from parley.errors import SettingError
from parley.validate import Floats, finite, positive, whole

LOW, HIGH = 0.01, 5.0  # T says eps >= 0; at 0 the shares are 0/0, and without an upper end e^eps has no maximum
SAMPLE_COUNT = 64

Curve = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Channel:
    """The discrete query whose answers are given: u people with v values; answers up to n apart, c of them at the
    border."""

    individuals: int = 1  # u
    values: int = 2  # v
    distance: int = 5  # n in T eq. 2.3
    border: int = 1  # c in T eq. 2.3

    def leakage(self, epsilon: Floats) -> Floats:
        """Bits of min-entropy that the release can give away: u log2(v e^eps/(v - 1 + e^eps)) (T eq. 2.2)."""
        u, v = whole(self.individuals, "individuals"), whole(self.values, "values", least=2)
        return np.asarray(u * (np.log2(v) - np.log2(1 + (v - 1) * np.exp(-epsilon))))

    def utility(self, epsilon: Floats) -> Floats:
        """The chance of guessing the true answer: e^(n eps)(1 - e^eps)/(e^(n eps)(1 - e^eps) + c(1 - e^(n eps))) (T eq.
        2.3).

        Written as 1/(1 + c sum_{k=1..n} e^(-k eps)), the same number without 0/0 at eps = 0.

        >>> Channel(distance=1, border=1).utility(np.array([0.0])).tolist()
        [0.5]
        """
        n, c = whole(self.distance, "distance"), whole(self.border, "border")
        powers = np.exp(-np.asarray(epsilon)[..., None] * np.arange(1, n + 1))
        return np.asarray(1 / (1 + c * powers.sum(axis=-1)))


def compensation_game(
    sizes: ArrayLike,
    gain: Literal["leakage", "utility"] = "leakage",
    channel: Channel | None = None,
    exponent: float = 1.0,
    budget_range: tuple[float, float] = (LOW, HIGH),
    printed: bool = False,
) -> Game:
    """T's game for owners of these sizes: eq. 4.1 for leakage, eq. 4.2 for utility; `exponent` is c in n^c.

    >>> from parley.decisions.games import solve
    >>> solve(compensation_game([1000, 1000, 1000])).epsilon.round(3).tolist()
    [1.799, 1.799, 1.799]
    """
    rows = finite(sizes, "sizes")
    if rows.ndim != 1 or len(rows) < 2 or not (rows > 0).all():
        raise SettingError("sizes: expected a positive number for each of at least two owners")
    curve = _curve(gain, channel or Channel())
    weight = rows ** positive(exponent, "exponent")
    low, high = positive(budget_range[0], "budget_range"), positive(budget_range[1], "budget_range")
    most_gain, most_cost = float(curve(np.array([high]))[0]), float(np.exp(high))

    def payoff(epsilon: Floats) -> Floats:
        contribution = epsilon * weight
        total = contribution.sum(axis=-1, keepdims=True)
        others = (total - contribution) / total
        if printed:
            return np.asarray(others * most_gain / most_cost * curve(epsilon) - np.exp(epsilon))
        return np.asarray(others * curve(epsilon) / most_gain - np.exp(epsilon) / most_cost)

    count = len(rows)
    return Game(payoff, np.full(count, low), np.full(count, high), epsilon=lambda e: e)


def _curve(gain: str, channel: Channel) -> Curve:
    if gain not in ("leakage", "utility"):
        raise SettingError(f"gain = {gain!r}: expected leakage or utility")
    return channel.leakage if gain == "leakage" else channel.utility


def own_payment_game(
    payments: Curve, costs: Curve, players: int, budget_range: tuple[float, float] = (LOW, HIGH)
) -> Game:
    """A game in which what an owner gets and loses depends on its own budget alone (the setting of T Proposition 1).

    `payments` and `costs` map budgets [..., N] to money [..., N], entry by entry.
    """
    count = whole(players, "players")

    def payoff(epsilon: Floats) -> Floats:
        return payments(epsilon) - costs(epsilon)

    return Game(
        payoff,
        np.full(count, positive(budget_range[0], "budget_range")),
        np.full(count, positive(budget_range[1], "budget_range")),
        epsilon=lambda e: e,
    )


def dominant_strategies(game: Game, seed: int = 0) -> Floats | None:
    """Each owner's strategy that is best whatever the others do, judged against random profiles; None if some owner has
    none.

    T Proposition 1: payments and costs that depend on own eps alone are maximised on a compact interval (extreme value
    theorem), and the maximiser does not move with the others. A None is a proof (two profiles with different best
    responses were seen); an answer is one unless unseen profiles differ, and certain for `own_payment_game`.

    >>> game = own_payment_game(lambda e: 2 * e, lambda e: e**2, players=3)
    >>> dominant_strategies(game).round(5).tolist()
    [1.0, 1.0, 1.0]
    """
    profiles = np.random.default_rng(seed).uniform(game.low, game.high, (SAMPLE_COUNT, game.players))
    strategies = np.empty(game.players)
    for i in range(game.players):
        answers = best_responses(game, i, profiles)
        tried = np.repeat(profiles[:, None], SAMPLE_COUNT, axis=1)
        tried[..., i] = answers[None]  # every owner's answer to one profile, played against every other profile
        pay = game.payoff(tried)[..., i]
        regret = np.diagonal(pay)[:, None] - pay  # of playing answer b against profile a
        best = int(np.argmin(regret.max(axis=0)))
        if regret[:, best].max() > 1e-9 * max(1.0, float(np.abs(pay).max())):
            return None
        strategies[i] = answers[best]
    return strategies
