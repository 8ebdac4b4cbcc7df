"""The joint-learning game on what was measured: played on the measured points themselves, and on P's quadratic where it
fits them.

On the points each player picks one of the measured p, or stays out, which ends the joint learning: nothing gained,
nothing lost by either. That everybody stays out is always an equilibrium (P Theorem 1); shown is the one with the
largest sum of payoffs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.errors import NoEquilibriumError, SettingError
from parley.validate import Floats
from parley_lab.papers.pejo2018.games.gain_sample import GainSample
from parley_lab.papers.pejo2018.games.gain_table import GainTable, equilibrium
from parley_lab.papers.pejo2018.games.joint_learning import PUBLISHED, Interpolation, Mechanism, fit
from parley_lab.papers.pejo2018.games.prior import Prior
from parley_lab.papers.pejo2018.games.private_concern_fit import bayesian_equilibrium_of_fit

CONCERNS = ((1.0, 1.0), (5.0, 0.2))  # C/B of P section 7.3
MAX_RMSE = (
    # percent: beyond this root mean square error a quadratic says nothing of gains of a percent or two; P's have 0.12
    # at most
    0.25
)
PUBLISHED_MECHANISM: dict[str, Mechanism] = {
    "hide": "hide",
    "bounded": "bDP",
    "bounded-published": "bDP",
    "unbounded": "uDP",
    "unbounded-published": "uDP",
}


@dataclass(frozen=True)
class Outcome:
    """An equilibrium: what each player keeps to itself, what it has of it (below 0 it would rather learn alone, for 0),
    and what share of the gain privacy costs. None: none was found."""

    privacy: tuple[float, float] | None = None
    payoff: tuple[float, float] | None = None
    price: float | None = None


def measured_games(
    points: Sequence[dict[str, Any]],
    concerns: Sequence[tuple[float, float]] = CONCERNS,
    resamples: int = 20,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """For each mechanism of figure 5 and each concern: the equilibrium on the points and on the fit, how firm they are,
    P's own beside.

    A resample draws the divisions of every pair of p again with replacement, for both players. On points, `same` is
    the share of resamples with the same equilibrium and the spread of the price its deviation; on a fit, spreads are
    deviations of what the fits come to. A fit is used as it is, as in P section 7.3: a gain may be negative there, and
    more privacy may raise it.
    """
    games = []
    for mechanism, own in by_mechanism(points).items():
        others_p, own_p = (np.array([point[name] for point in own]) for name in ("p_other", "p"))
        gains, rng = np.array([point["improvements"] for point in own]), np.random.default_rng(seed)
        fitted = fit(others_p, own_p, gains.mean(axis=1))
        fits: list[Interpolation] = []
        if fitted.rmse <= MAX_RMSE and gains.shape[1] > 1:
            _, pairs = np.unique(np.sort([others_p, own_p], axis=0), axis=1, return_inverse=True)
            fits = [fit(others_p, own_p, _drawn(gains, pairs.ravel(), rng)) for _ in range(resamples)]
        sample = GainSample.of_points(own)
        table, drawn = sample.table(), sample.drawn(resamples, seed)
        printed = PUBLISHED_MECHANISM.get(mechanism)
        for concern in concerns:
            games.append(
                {
                    "mechanism": mechanism,
                    "concern": list(concern),
                    "on_points": _on_points(table, drawn, concern),
                    "on_fit": _on_fit(fitted, fits, concern),
                    "published": None if printed is None else vars(_outcome(PUBLISHED[printed], concern)),
                }
            )
    return games


def by_mechanism(points: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The points of figure 5, mechanism by mechanism."""
    found: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        found.setdefault(point["mechanism"], []).append(point)
    if not found:
        raise SettingError("points: expected those of figure 5")
    return found


def _on_fit(fitted: Interpolation, fits: Sequence[Interpolation], concern: tuple[float, float]) -> dict[str, Any]:
    """The equilibrium of the quadratic, or nothing but its error where it does not fit."""
    facts = {name: getattr(fitted, name) for name in ("eta0", "alpha1", "alpha2", "eta1", "beta1", "beta2", "rmse")}
    if not fitted.rmse <= MAX_RMSE:
        return {"fit": facts, **vars(Outcome())}
    again = [_outcome(one, concern) for one in fits]
    spreads = {
        "privacy_spread": spread([one.privacy for one in again]),
        "price_spread": spread([one.price for one in again]),
    }
    return {"fit": facts, **vars(_outcome(fitted, concern)), **spreads}


def _on_points(table: GainTable, drawn: Sequence[GainTable], concern: tuple[float, float]) -> dict[str, Any]:
    """The best pure equilibrium of the game on measured points, p = 1 for both if it is to stay out; and how firm it
    is."""
    found, again = equilibrium(table, concern), [equilibrium(one, concern) for one in drawn]
    return {
        **vars(Outcome(found.privacy, found.payoff, found.price)),
        "same": share([one.privacy == found.privacy for one in again]),
        "price_spread": price_spread(found.price, [one.price for one in again]),
    }


def _drawn(gains: Floats, pairs: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """The mean of each point's divisions, drawn with replacement; points of one pair of p were measured together and
    stay so."""
    places = rng.integers(0, gains.shape[1], gains.shape)[pairs]
    return np.asarray(np.take_along_axis(gains, places, axis=1).mean(axis=1))


def _outcome(gain: Interpolation, concern: tuple[float, float]) -> Outcome:
    """The game of a quadratic as P plays it: concerns are known, so priors are points."""
    try:
        found = bayesian_equilibrium_of_fit(gain, (Prior.point(concern[0]), Prior.point(concern[1])))
    except NoEquilibriumError:
        return Outcome()
    first, second = found.players
    return Outcome((first.privacy[0], second.privacy[0]), found.payoff, found.price)


def share(agree: Sequence[bool]) -> float | None:
    """In which share of resamples it is so; None of none."""
    return float(np.mean(agree)) if agree else None


def price_spread(price: float | None, again: Sequence[float | None]) -> Any:
    """The deviation of the price over resamples; None where there is none to begin with, since nothing could be
    gained."""
    return None if price is None else spread(again)


def spread(values: Sequence[Any]) -> Any:
    """The deviation of those that exist; None of fewer than two."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    return known.std(axis=0, ddof=1).tolist() if len(known) > 1 else None
