"""The joint-learning game on what was measured: P's quadratic fitted to our own gains, its equilibrium and price, with error bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from parley.errors import NoEquilibriumError, SettingError
from parley.games import solve
from parley.games.joint_learning import PUBLISHED, Interpolation, Mechanism, fit, joint_learning
from parley.validate import Floats

CONCERNS = ((1.0, 1.0), (5.0, 0.2))  # C/B of P section 7.3
PRINTED: dict[str, Mechanism] = {
    "hide": "hide",
    "bounded": "bDP",
    "bounded-published": "bDP",
    "unbounded": "uDP",
    "unbounded-published": "uDP",
}


@dataclass(frozen=True)
class Outcome:
    """An equilibrium: what each player keeps to itself, what it has of it (below 0 it would rather learn alone, for 0), and what share of
    the gain privacy costs. None: none was found."""

    privacy: tuple[float, float] | None = None
    payoff: tuple[float, float] | None = None
    price: float | None = None


def measured_games(
    points: Sequence[dict[str, Any]], concerns: Sequence[tuple[float, float]] = CONCERNS, resamples: int = 20, seed: int = 0
) -> list[dict[str, Any]]:
    """For each mechanism of figure 5 and each concern: the equilibrium of the fit, its spread over bootstrap resamples, P's own beside.

    A resample draws every point's divisions anew with replacement; the spread is the deviation of what the fits come to. The fit is used as
    it is, as in P section 7.3: a gain may be negative there, and more privacy may raise it.
    """
    games = []
    for mechanism in dict.fromkeys(point["mechanism"] for point in points):
        own = [point for point in points if point["mechanism"] == mechanism]
        others_p, own_p = (np.array([point[name] for point in own]) for name in ("p_other", "p"))
        gains = np.array([point["improvements"] for point in own])
        fitted, rng = fit(others_p, own_p, gains.mean(axis=1)), np.random.default_rng(seed)
        again = [fit(others_p, own_p, _drawn(gains, rng)) for _ in range(resamples if gains.shape[1] > 1 else 0)]
        for concern in concerns:
            budgets = mechanism != "hide"
            ours, others = _outcome(fitted, concern, budgets), [_outcome(one, concern, budgets) for one in again]
            printed = PRINTED.get(mechanism)
            games.append(
                {
                    "mechanism": mechanism,
                    "concern": list(concern),
                    "fit": {name: getattr(fitted, name) for name in ("eta0", "alpha1", "alpha2", "eta1", "beta1", "beta2", "rmse")},
                    "privacy": ours.privacy,
                    "payoff": ours.payoff,
                    "privacy_spread": _spread([one.privacy for one in others]),
                    "price_of_privacy": ours.price,
                    "price_spread": _spread([one.price for one in others]),
                    "published": None if printed is None else vars(_outcome(PUBLISHED[printed], concern, budgets)),
                }
            )
    if not games:
        raise SettingError("points: expected those of figure 5")
    return games


def _drawn(gains: Floats, rng: np.random.Generator) -> Floats:
    """The mean of each point's divisions, drawn with replacement."""
    places = rng.integers(0, gains.shape[1], gains.shape)
    return np.asarray(np.take_along_axis(gains, places, axis=1).mean(axis=1))


@lru_cache(maxsize=64)
def _outcome(gain: Interpolation, concern: tuple[float, float], budgets: bool) -> Outcome:
    try:
        found = solve(joint_learning((gain, gain), concern, budgets=budgets))
    except NoEquilibriumError:
        return Outcome()
    price = found.price_of_privacy
    known = None if price is None or not np.isfinite(price) else float(price)
    return Outcome(_pair(found.privacy), _pair(found.payoff), known)


def _pair(values: Floats | None) -> tuple[float, float] | None:
    return None if values is None else (float(values[0]), float(values[1]))


def _spread(values: Sequence[Any]) -> Any:
    """The deviation of those that exist; None of fewer than two."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    return known.std(axis=0, ddof=1).tolist() if len(known) > 1 else None
