"""P's game where concerns C/B are private: on the measured points, on P's quadratic where it fits them, and on P's own
fits."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parley.errors import SettingError
from parley_lab.papers.pejo2018.games.gain_sample import GainSample
from parley_lab.papers.pejo2018.games.gain_table import GainTable, equilibrium
from parley_lab.papers.pejo2018.games.joint_learning import PUBLISHED, fit
from parley_lab.papers.pejo2018.games.prior import Prior
from parley_lab.papers.pejo2018.games.private_concern import BayesianOutcome, Priors, bayesian_equilibrium
from parley_lab.papers.pejo2018.games.private_concern_fit import bayesian_equilibrium_of_fit
from parley_lab.papers.pejo2018.measured_game import MAX_RMSE, by_mechanism, price_spread, share


def read_priors(texts: Sequence[str]) -> Priors:
    """One for both players, or one for each."""
    if len(texts) not in (1, 2):
        raise SettingError(f"--prior: expected one for both players or one for each, found {len(texts)}")
    return Prior.read(texts[0]), Prior.read(texts[-1])


def published_private_concerns(priors: Priors) -> list[dict[str, Any]]:
    """P's three fits of its table 5, with P's game (nobody stays out), beside the game in which everybody has the mean
    concern."""
    known = Prior.point(priors[0].mean), Prior.point(priors[1].mean)
    return [
        {
            "mechanism": mechanism,
            "on": "published fit",
            **_facts(bayesian_equilibrium_of_fit(gain, priors)),
            "known": _facts(bayesian_equilibrium_of_fit(gain, known)),
        }
        for mechanism, gain in PUBLISHED.items()
    ]


def measured_private_concerns(
    points: Sequence[dict[str, Any]],
    priors: Priors,
    resamples: int = 20,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, Any]]:
    """For each mechanism of figure 5: the Bayes-Nash equilibrium on the points, how firm it is, and on the fit where
    there is one.

    `informed` is the price if concerns were known before they choose: the mean over pairs of concerns of the Price of
    Privacy of the game of complete information.
    """
    games, groups = [], by_mechanism(points)
    for done, (mechanism, own) in enumerate(groups.items()):
        sample = GainSample.of_points(own)
        table, drawn = sample.table(), sample.drawn(resamples, seed)
        found, again = bayesian_equilibrium(table, priors), list[BayesianOutcome]()
        for k, one in enumerate(drawn):
            progress(done * len(drawn) + k, len(groups) * len(drawn))
            again.append(bayesian_equilibrium(one, priors))
        firm = {
            "same": share([_kept(one) == _kept(found) for one in again]),
            "price_spread": price_spread(found.price, [one.price for one in again]),
            "informed": _informed(found.price, table, priors),
        }
        games.append({"mechanism": mechanism, "on": "points", **_facts(found), **firm})
        others_p, own_p = (np.array([point[name] for point in own]) for name in ("p_other", "p"))
        fitted = fit(others_p, own_p, [float(np.mean(point["improvements"])) for point in own])
        if fitted.rmse <= MAX_RMSE:
            games.append({"mechanism": mechanism, "on": "fit", **_facts(bayesian_equilibrium_of_fit(fitted, priors))})
    return games


def _kept(found: BayesianOutcome) -> tuple[tuple[float, ...], ...]:
    return tuple(player.privacy for player in found.players)


def _informed(price: float | None, table: GainTable, priors: Priors) -> float | None:
    if price is None:
        return None
    first, second = priors
    pairs = [
        (v * w, equilibrium(table, (c, d)).price)
        for c, v in zip(first.concerns, first.weights, strict=True)
        for d, w in zip(second.concerns, second.weights, strict=True)
    ]
    return float(sum(weight * (one if one is not None else 1.0) for weight, one in pairs))


def _facts(found: BayesianOutcome) -> dict[str, Any]:
    players = [
        {
            "concerns": list(one.concerns),
            "privacy": list(one.privacy),
            "payoff": list(one.payoff),
            "switches": list(map(list, one.switches)),
        }
        for one in found.players
    ]
    return {
        "players": players,
        "payoff": list(found.payoff),
        "price": found.price,
        "together": found.together,
        "equilibria": found.count,
    }
