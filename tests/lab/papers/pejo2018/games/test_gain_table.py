"""The game on a table of gains, against its definition."""

import numpy as np
import pytest

from parley.errors import SettingError
from parley_lab.papers.pejo2018.games.gain_table import (
    STAYS_OUT,
    GainTable,
    best_responses,
    dominant,
    equilibrium,
    stable,
)


def random_table(seed, sizes=(3, 3)):
    rng = np.random.default_rng(seed)
    privacy = tuple(np.sort(rng.random(n)) * (np.arange(n) > 0) for n in sizes)
    gains = rng.normal(1.0, 1.0, sizes), rng.normal(1.0, 1.0, sizes[::-1])
    return GainTable(privacy, gains, tuple(tuple(f"s{i}" for i in range(n)) for n in sizes))


def pays(table, player, own, other, concern):
    return max(table.gains[player][own, other], 0) - concern * (1 - table.privacy[player][own])


@pytest.mark.parametrize("concern", [(0.5, 1.5), (3.0, 0.1), (0.1, 3.0)])
@pytest.mark.parametrize("seed", range(10))
def test_an_equilibrium_is_what_nobody_leaves_and_no_other_has_more(seed, concern):
    table = random_table(seed, (3, 4))
    settled = {}
    for i in range(3):
        for j in range(4):
            own, other = pays(table, 0, i, j, concern[0]), pays(table, 1, j, i, concern[1])
            if own >= max(0, *(pays(table, 0, k, j, concern[0]) for k in range(3))) and other >= max(
                0, *(pays(table, 1, k, i, concern[1]) for k in range(4))
            ):
                settled[i, j] = own + other
    found = equilibrium(table, concern)
    assert found.strategies == (max(settled, key=settled.get) if settled else None)
    assert int(stable(table, concern).sum()) == len(settled)
    assert min(found.payoff) >= 0
    if not settled:
        assert found.names == (STAYS_OUT, STAYS_OUT)
        assert found.price == 1


def test_the_price_counts_no_gain_below_zero():
    table = GainTable.alike([0.0, 0.5], [[2.0, 1.5], [-1.0, 0.5]])
    assert table.price(0, 1) == pytest.approx(1 - 1.5 / 4)
    assert table.price(0, 0) == 0
    assert GainTable.alike([0.1, 0.5], np.ones((2, 2))).price(0, 0) is None  # what nobody's privacy gives was not tried
    assert GainTable.alike([0.0, 0.5], -np.ones((2, 2))).price(0, 0) is None


def test_best_responses_and_what_is_best_against_everything():
    table = GainTable.alike([0.0, 0.5], [[3.0, 0.2], [3.4, 0.4]], ("open", "half"))
    assert best_responses(table, 0, 0.1) == ["half", "half"]
    assert dominant(table, 0, 0.1) == "half"
    assert best_responses(table, 0, 1.0) == ["half", STAYS_OUT]
    assert dominant(table, 0, 1.0) is None
    apart = GainTable.alike([0.0, 0.5], [[3.0, 0.2], [2.4, 0.4]], ("open", "half"))
    assert dominant(apart, 0, 0.0) is None


def test_nobody_takes_a_model_that_is_worse_than_its_own():
    table = GainTable.alike([0.0, 0.5], [[2.0, -3.0], [1.0, -1.0]])
    assert table.payoffs(0, 0.4) == pytest.approx(np.array([[1.6, -0.4], [0.8, -0.2]]))
    assert GainTable.alike([0.0, 0.5], table.gains[0], refusable=False).payoffs(0, 0.0).min() == -3


@pytest.mark.parametrize("concern", [0.0, 1.0])
def test_where_nothing_pays_more_than_staying_out_that_is_what_is_said(concern):
    """Losses that nobody takes are worth 0 to who has no concern, and gains of 1 are eaten by a concern of 1: ties with
    staying out."""
    table = GainTable.alike([0.0, 0.5], [[concern, -1.0], [concern / 2, -1.0]])
    found = equilibrium(table, (concern, concern))
    assert (found.strategies, found.names, found.payoff) == (None, (STAYS_OUT, STAYS_OUT), (0.0, 0.0))
    assert found.price == (1 if concern else None)  # nothing could be gained: there is no share of it to lose
    assert best_responses(table, 0, concern) == [STAYS_OUT, STAYS_OUT]
    assert dominant(table, 0, concern) == STAYS_OUT


def test_tables_with_holes_are_refused():
    for privacy, gains in (
        ([0.0, 0.5], [[1.0]]),
        ([0.0, 2.0], np.ones((2, 2))),
        ([0.0, 0.5], [[1.0, np.nan], [1.0, 1.0]]),
    ):
        with pytest.raises(SettingError):
            GainTable.alike(privacy, gains)
