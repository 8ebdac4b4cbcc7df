"""The joint-learning game again and again: from which discount factor on an agreement holds by itself.

Every period (new ratings, or a further iteration) both play, and what comes a period later counts for `discount` times
as much. They agree on a pair of strategies; whoever departs from it is assumed to be seen to, and from then on nobody
learns together. Of updates this holds as far as noise is named in terms and ledgers that partners see; of noise on
ratings partners have an owner's word only, and how many ratings somebody left out (`hide`) nobody can see from outside:
there the thresholds are no more than what would hold if it were seen.

Formal guarantee: an agreement that pays player n V_n, while the best departure in one period pays D_n, is an
equilibrium of the repeated game, in every period, if and only if discount >= (D_n - V_n)/(D_n - 0) for both: departing
gains D_n - V_n once and loses V_n in each later period. No other punishment does with less patience: staying out gives
anybody 0 whatever the other plays, so nobody can be pushed below, and that both stay out is an equilibrium of one
period, so the threat is believed.
"""

from dataclasses import dataclass

import numpy as np

from parley_lab.papers.pejo2018.games.gain_table import TIE_TOLERANCE, GainTable, Pair, Profile, profile, stay_out


@dataclass(frozen=True)
class Agreement:
    """A pair of strategies, what each would have of departing for a period, and from which discount factor on each
    keeps to it: 0 where it would not depart anyway, None where no patience helps."""

    agreed: Profile
    temptation: Pair
    thresholds: tuple[float | None, float | None]

    @property
    def discount(self) -> float | None:
        """From which factor on both keep to it."""
        first, second = self.thresholds
        return None if first is None or second is None else max(first, second)


def threshold(kept: float, departing: float, punished: float = 0.0) -> float | None:
    """The least discount factor below 1 at which `kept` for ever beats `departing` once and `punished` for ever after;
    None: there is none.

    >>> threshold(kept=2.0, departing=3.0), threshold(kept=0.5, departing=0.5), threshold(kept=-1.0, departing=0.5)
    (0.3333333333333333, 0.0, None)
    """
    gain, loss = departing - kept, kept - punished
    if gain <= TIE_TOLERANCE and loss >= -TIE_TOLERANCE:
        return 0.0
    if not loss > TIE_TOLERANCE:
        return None
    return gain / (gain + loss)


def agreement(table: GainTable, concern: Pair, i: int, j: int) -> Agreement:
    """From which discount factor on the players keep to i and j."""
    agreed = profile(table, concern, i, j)
    tempted = (
        max(float(table.payoffs(0, concern[0])[:, j].max()), 0.0),
        max(float(table.payoffs(1, concern[1])[:, i].max()), 0.0),
    )
    first, second = (threshold(v, d) for v, d in zip(agreed.payoff, tempted, strict=True))
    return Agreement(agreed, tempted, (first, second))


def best_agreement(table: GainTable, concern: Pair, discount: float | None = None) -> Agreement:
    """The agreement with the largest sum of payoffs that holds at this discount factor; without one, at some factor
    below 1.

    >>> table = GainTable.alike([0.0, 0.5], [[3.0, 0.0], [3.4, 1.0]])  # a dilemma: keeping half always pays
    >>> found = best_agreement(table, (1.0, 1.0))
    >>> found.agreed.privacy, round(found.discount, 4)
    ((0.0, 0.0), 0.3103)
    >>> best_agreement(table, (1.0, 1.0), discount=0.3).agreed.privacy
    (0.5, 0.5)
    """
    total = table.payoffs(0, concern[0]) + table.payoffs(1, concern[1]).T
    for place in np.argsort(-total, axis=None, kind="stable"):
        if not total.flat[place] > TIE_TOLERANCE:
            break
        found = agreement(table, concern, *map(int, divmod(int(place), total.shape[1])))
        if (
            found.discount is not None
            and (discount is None or found.discount <= discount)
            and min(found.agreed.payoff) >= -TIE_TOLERANCE
        ):
            return found
    return Agreement(stay_out(table), (0.0, 0.0), (0.0, 0.0))
