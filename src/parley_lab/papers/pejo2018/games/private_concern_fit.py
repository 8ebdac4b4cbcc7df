"""The same game on a fitted gain, in which p is any number from 0 to 1 and nobody stays out (P section 7.3): private
concerns.

With a quadratic the other's strategy matters to one's choice through its expected p alone: a player of concern c keeps
p(c) = -(alpha2 + c + eta1 m)/(2 beta2), moved into [0, 1], where m is what the other keeps on average. Formal
guarantee: for beta2 < 0 this is the only best response, and the two averages are found to 1e-12 as a fixed point, which
exists because p is continuous in m. While nobody is at an end, averages are those of the game in which everybody has
the mean concern. For beta2 >= 0 payoffs are convex in one's own p, so the ends 0 and 1 are best responses, and
`bayesian_equilibrium` on these two is the game.
"""

import numpy as np
from scipy.optimize import brentq

from parley.errors import SettingError
from parley.validate import Floats
from parley_lab.papers.pejo2018.games.gain_table import GainTable
from parley_lab.papers.pejo2018.games.joint_learning import Interpolation
from parley_lab.papers.pejo2018.games.private_concern import BayesianOutcome, Priors, Steps, bayesian_equilibrium


def bayesian_equilibrium_of_fit(gain: Interpolation, priors: Priors) -> BayesianOutcome:
    """A Bayes-Nash equilibrium of two players with this gain. Where 2 |beta2| > |eta1| it is the only one.

    >>> from parley_lab.papers.pejo2018.games.joint_learning import PUBLISHED
    >>> from parley_lab.papers.pejo2018.games.prior import Prior
    >>> found = bayesian_equilibrium_of_fit(PUBLISHED["bDP"], (Prior.point(5.0), Prior.point(0.2)))
    >>> [round(player.privacy[0], 5) for player in found.players], round(found.price, 3)
    ([0.31501, 0.10741], 0.184)
    """
    if gain.beta2 >= 0:
        ends = np.array([0.0, 1.0])
        table = GainTable.alike(
            ends, gain(*np.meshgrid(ends, ends)), refusable=False
        )  # [own, other]: x, the other's, along columns
        return _with_price(bayesian_equilibrium(table, priors, may_stay_out=False), gain, priors)

    def answer(player: int, mean: float) -> Floats:
        concerns = np.array(priors[player].concerns)
        return np.clip((-concerns - gain.alpha2 - gain.eta1 * mean) / (2 * gain.beta2), 0, 1)

    def average(player: int, mean: float) -> float:
        return min(priors[player].expected(answer(player, mean)), 1.0)

    def beyond(mean: float) -> float:
        return average(0, average(1, mean)) - mean

    first = 0.0 if beyond(0.0) <= 0 else 1.0 if beyond(1.0) >= 0 else float(brentq(beyond, 0.0, 1.0, xtol=1e-14))
    second = average(1, first)
    if abs(beyond(first)) > 1e-12:
        raise SettingError("fit: its averages do not settle")
    kept = answer(0, second), answer(1, first)
    steps = [Steps(prior.concerns, tuple(map(float, own)), ()) for prior, own in zip(priors, kept, strict=True)]
    return _with_price(BayesianOutcome((steps[0], steps[1]), (0.0, 0.0), None, 1.0, None), gain, priors)


def _with_price(found: BayesianOutcome, gain: Interpolation, priors: Priors) -> BayesianOutcome:
    """Expected payoffs and price of what they keep, from the fit itself: gains below 0 count, as in P."""
    steps, total = [], 0.0
    for own, other, prior, others in zip(found.players, found.players[::-1], priors, priors[::-1], strict=True):
        mine, theirs = np.array(own.privacy), np.array(other.privacy)
        gains = gain(theirs[None, :], mine[:, None]) @ np.array(others.weights)
        payoff = gains - np.array(prior.concerns) * (1 - mine)
        total += prior.expected(gains)
        steps.append((Steps(prior.concerns, own.privacy, tuple(map(float, payoff))), prior.expected(payoff)))
    zero = np.zeros(1)
    best = 2 * float(gain(zero, zero)[0])
    price = 1 - total / best if best > 0 else None
    return BayesianOutcome((steps[0][0], steps[1][0]), (steps[0][1], steps[1][1]), price, 1.0, None)
