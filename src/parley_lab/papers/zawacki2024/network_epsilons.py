"""What stable noise on networks' gradients costs, in three readings.

`one`: Z's own: one coordinate that moves by the clip, noise of the printed scale, a record that is there or not
(add/remove adjacency, its Proposition 1). `charged`: the same for a clip of 2 and noise of the printed scale, by which
Z's Gaussian rows come out: a noise multiplier of scale/sqrt 2, where its law of alpha = 2 has a deviation of sqrt 2
times the scale. `sound`: for differences in every direction and replace-one adjacency, twice the clip apart.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from parley.privacy.accounting import compose
from parley.privacy.accounting.compose import renyi_epsilon
from parley.privacy.accounting.pairs import make_stable_law
from parley.privacy.events import GaussianEvent, StableEvent
from parley.validate import Floats, Integers
from parley_lab.papers.zawacki2024.published_networks import NetworkTable

GRID_POINTS = 100_001
MIN_DELTA = 1e-15  # of a delta: what is below is rounding


@dataclass(frozen=True)
class NetworkEpsilons:
    """One row's epsilons; `charged` is for Gaussian noise alone, and no rule is known by which the other rows come
    out."""

    one: float
    charged: float | None
    sound: float


def row_epsilons(table: NetworkTable, alpha: float, scale: float) -> NetworkEpsilons:
    """All readings at the table's full size.

    Formal guarantee (`sound` alone): an upper bound for exactly sampled noise on sums of gradients clipped in L2. For
    Gaussian noise it is that of the loss distribution; for alpha < 2 that of Renyi divergences, which hold in every
    direction (`releases`) and for Poisson draws of a replaced record (`compose.sampled_divergence`).
    """
    count = math.ceil(table.epochs / table.rate)
    what = table.delta, count, table.rate
    charged = None if alpha < 2 else one_dimensional(alpha, scale / 2, *what)
    return NetworkEpsilons(one_dimensional(alpha, scale, *what), charged, sound_epsilon(table, alpha, scale))


def sound_epsilon(table: NetworkTable, alpha: float, scale: float, same_bound: bool = False) -> float:
    """The sound one; `same_bound`: by Renyi divergences whatever the law, so that laws are compared by one bound."""
    count = math.ceil(table.epochs / table.rate)
    if alpha == 2 and not same_bound:
        return compose([GaussianEvent(scale / math.sqrt(2), table.rate, count)], table.delta, "pld").high
    event = StableEvent(scale / 2, table.rate, count, alpha=alpha, norm="l2")
    return renyi_epsilon([event], table.delta)


@lru_cache(maxsize=64)
def one_dimensional(alpha: float, scale: float, delta: float, count: int, rate: float) -> float:
    """eps at delta of so many Poisson-sampled releases of one number that a record moves by 1, add/remove adjacency:
    Z's figure, and no upper bound for vectors."""
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    without, drawn = _masses(alpha, 1 / scale)
    mixture = (1 - rate) * without + rate * drawn
    interval = min(max(rate / 20, 1e-5), 2e-4)
    pmfs = []
    for upper, lower in ((mixture, without), (without, mixture)):
        epsilons, deltas = _curve(upper, lower, interval)
        pmfs.append(create_pmf_pessimistic_connect_dots(interval, epsilons, deltas).to_dense_pmf())
    return float(PrivacyLossDistribution(*pmfs).self_compose(count).get_epsilon_for_delta(delta))


def _masses(alpha: float, shift: float) -> tuple[Floats, Floats]:
    """The masses of noise of scale 1, and of the same moved by `shift`, on a fine grid: they add up to 1."""
    far = 12.0 if alpha == 2 else 1e5
    u = np.linspace(-math.asinh(far), math.asinh(far), GRID_POINTS)
    x, width, law = np.sinh(u) + shift / 2, np.cosh(u), make_stable_law(alpha)
    found = [np.exp(law.log_pdf(at)) * width for at in (x, x - shift)]
    return found[0] / found[0].sum(), found[1] / found[1].sum()


def _curve(upper: Floats, lower: Floats, interval: float) -> tuple[Integers, Floats]:
    """(eps in intervals, delta there): sum of (upper - e^eps lower)+ over a grid that holds all losses."""
    loss = np.log(upper / lower)
    order = np.argsort(loss)
    above = [np.append(np.cumsum(mass[order][::-1])[::-1], 0.0) for mass in (upper, lower)]
    places = np.arange(math.floor(loss.min() / interval), math.ceil(loss.max() / interval) + 1)
    epsilons = places * interval
    first = np.searchsorted(loss[order], epsilons, side="right")
    deltas = np.clip(above[0][first] - np.exp(epsilons) * above[1][first], 0.0, 1.0)
    deltas = np.minimum.accumulate(np.where(deltas > MIN_DELTA, deltas, 0.0))
    end = int(np.argmin(deltas)) + 1  # the first 0
    keep = deltas[:end] < 1
    return places[:end][keep], deltas[:end][keep]
