"""Items learned from what owners answer, by terms as anybody would write them; for studies of what else an owner might
answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from parley.errors import SettingError
from parley.learning.deployed import ask_here
from parley.learning.start import starting_point
from parley.owner.owner import Owner
from parley.privacy.accounting import exact, make_series
from parley.protocol.setup import Setup
from parley.tasks.ratings.algorithm import RATING_DEVIATION, ItemFactors
from parley.tasks.ratings.run import learned_items
from parley.tasks.ratings.table import Ratings
from parley.tasks.ratings.terms import DEFAULT_ROUNDS
from parley.terms import Terms
from parley.validate import Floats, non_negative, positive

INAUDIBLE = 1e6  # an epsilon at which noise is no longer heard

LOW, HIGH, DELTA, CLIP = 1.0, 5.0, 1e-5, 5.0


@dataclass(frozen=True, eq=False)
class Contribution:
    """The ratings that an owner answers from, the epsilon of its answers (INAUDIBLE: noise is not heard), in which
    rounds it answers (every `stride`-th), and the variance of the noise that its ratings carry already.

    Formal guarantee: what is answered from noisy ratings, without further noise, is a function of them and of V: it has
    the epsilon of the mechanism that made them, for all rounds together.
    """

    ratings: Ratings
    epsilon: float = INAUDIBLE
    stride: int = 1
    variance: float = 0.0

    @property
    def carried(self) -> float:
        """The variance of the noise on a rating as it is learned from: it was moved into the scale, so half the range
        squared at most."""
        return min(non_negative(self.variance, "variance"), ((HIGH - LOW) / 2) ** 2)


@dataclass(frozen=True, eq=False)
class ToldNoise(ItemFactors):
    """Weights that know of noise on ratings. It comes with every term that a rating has a part in, so that an owner's c
    m v of variance becomes c m (v + carried); and it is the same in all rounds, so that no number of them averages it
    out."""

    carried: Floats = field(default_factory=lambda: np.zeros(1))  # of every owner

    def _weights(self, counts: Floats, there: list[int], rounds: Floats | None = None) -> Floats:
        return np.asarray(
            1 / (1 / super()._weights(counts, there, rounds) + (self.carried[there] / RATING_DEVIATION**2)[:, None])
        )


def learned_from(owners: Sequence[Contribution], seed: int, rounds: int = DEFAULT_ROUNDS) -> Floats:
    """V = [b, Q] [items, factors + 1]. The learner weights owners by how noisy they are, which is public, whatever they
    put noise on.

    Rounds in which nobody answers change nothing, and are left out.
    """
    items = owners[0].ratings.item_names
    frames = [
        pd.DataFrame(
            {"user": one.ratings.users, "item": np.array(items)[one.ratings.items], "rating": one.ratings.values}
        )
        for one in owners
    ]
    terms = Terms.from_dict(_content(owners, frames, items, seed, rounds))
    known = dict(zip([part.name for part in terms.owners], [one.carried for one in owners], strict=True))

    def begin(setup: Setup) -> tuple[ItemFactors, Floats]:
        algorithm = ToldNoise.make(setup)
        return replace(algorithm, carried=np.array([known[name] for name in algorithm.names])), starting_point(setup)

    parties = [Owner(part.name, frame) for part, frame in zip(terms.owners, frames, strict=True)]
    return learned_items(ask_here(terms, parties, begin, seed=seed))[0].V


def _content(
    owners: Sequence[Contribution], frames: Sequence[pd.DataFrame], items: tuple[str, ...], seed: int, rounds: int
) -> dict[str, object]:
    common = gcd(*(one.stride for one in owners))
    columns = {"user": "user", "item": "item", "target": "rating", "bounds": {"rating": [LOW, HIGH]}}
    return {
        "model": {"kind": "matrix-factorization", **columns, "items": items, "seed": seed},
        "learning": {"horizon": -(-rounds // common)},
        "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": CLIP},
        "owners": [
            {"name": f"player-{place + 1}", "records": frame["user"].nunique(), "epsilon": one.epsilon}
            | ({} if one.stride == common else {"stride": one.stride // common})
            for place, (one, frame) in enumerate(zip(owners, frames, strict=True))
        ],
    }


def quieter(epsilon: float, share: float, answers: int = DEFAULT_ROUNDS) -> float:
    """The epsilon whose noise has `share` of the deviation, for as many answers.

    >>> round(quieter(1.0, 1.0), 6), quieter(1.0, 0.25) > 4
    (1.0, True)
    """
    if not 0 < share <= 1:
        raise SettingError(f"share = {share}: expected a number above 0, up to 1")

    def beyond(power: float) -> float:
        return _deviation(float(np.exp(power)), answers) - share * _deviation(positive(epsilon, "epsilon"), answers)

    start = float(np.log(epsilon))
    return epsilon if share == 1 else float(np.exp(brentq(beyond, start, np.log(INAUDIBLE), xtol=1e-9)))


def _deviation(epsilon: float, answers: int) -> float:
    return float(make_series("gaussian", exact(epsilon), exact(DELTA), answers, 1.0).mechanism.variance ** 0.5)
