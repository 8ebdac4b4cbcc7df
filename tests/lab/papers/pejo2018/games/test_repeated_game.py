"""Agreements that hold by themselves: against payoffs added up period by period."""

import numpy as np
import pytest

from parley_lab.papers.pejo2018.games.gain_table import GainTable, equilibrium
from parley_lab.papers.pejo2018.games.repeated_game import agreement, best_agreement, threshold

DILEMMA = GainTable.alike([0.0, 0.5], [[3.0, 0.0], [3.4, 1.0]])


def added_up(first, later, discount, periods=800):
    return sum(discount**t * (first if t == 0 else later) for t in range(periods))


@pytest.mark.parametrize(("kept", "departing"), [(2.0, 3.0), (0.1, 0.2), (1.4, 1.9), (0.1, 5.0)])
def test_the_threshold_is_where_keeping_and_departing_are_worth_the_same(kept, departing):
    found = threshold(kept, departing)
    assert added_up(kept, kept, found) == pytest.approx(added_up(departing, 0.0, found), rel=1e-3)
    for more, better in ((1e-3, True), (-1e-3, False)):
        discount = min(max(found + more, 0.0), 0.995)
        assert (added_up(kept, kept, discount) > added_up(departing, 0.0, discount)) == better


@pytest.mark.parametrize("seed", range(10))
def test_every_agreement_holds_from_its_threshold_on_and_not_before(seed):
    rng = np.random.default_rng(seed)
    table, concern = GainTable.alike([0.0, 0.3, 0.7], rng.normal(1, 1, (3, 3))), (0.4, 0.9)
    for i in range(3):
        for j in range(3):
            found = agreement(table, concern, i, j)
            for player, (own, other) in enumerate(((i, j), (j, i))):
                pays = table.payoffs(player, concern[player])
                tempted = max(0.0, *pays[:, other])
                for discount in (0.0, 0.25, 0.5, 0.75, 0.95):
                    holds = (
                        added_up(pays[own, other], pays[own, other], discount)
                        >= added_up(tempted, 0.0, discount) - 1e-12
                    )
                    least = found.thresholds[player]
                    assert holds == (least is not None and discount >= least - 1e-12)


def test_patience_makes_an_agreement_that_one_period_does_not():
    assert equilibrium(DILEMMA, (1.0, 1.0)).privacy == (0.5, 0.5)
    patient = best_agreement(DILEMMA, (1.0, 1.0))
    assert patient.agreed.privacy == (0.0, 0.0)
    assert patient.discount == pytest.approx(0.9 / 2.9)  # departing has 2.9 instead of 2
    assert best_agreement(DILEMMA, (1.0, 1.0), 0.32).agreed.privacy == (0.0, 0.0)
    assert best_agreement(DILEMMA, (1.0, 1.0), 0.30).agreed.privacy == (0.5, 0.5)


def test_what_is_an_equilibrium_of_one_period_needs_no_patience_and_what_pays_nothing_none_helps():
    assert agreement(DILEMMA, (1.0, 1.0), 1, 1).discount == 0
    poor = GainTable.alike([0.0, 0.5], [[0.5, 0.0], [0.4, -1.0]])
    assert agreement(poor, (1.0, 1.0), 0, 0).discount is None  # 0.5 - 1 is less than staying out
    worse = GainTable.alike([0.0, 0.5], [[-1.0, -1.0], [-2.0, -1.0]])
    assert best_agreement(worse, (0.0, 0.0)).agreed.strategies is None  # nobody would take it: that is staying out
    nobody = best_agreement(poor, (1.0, 1.0))
    assert nobody.agreed.strategies is None
    assert nobody.agreed.payoff == (0.0, 0.0)
