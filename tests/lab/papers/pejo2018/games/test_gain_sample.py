"""Gains over divisions: their means, and tables drawn again division by division."""

import numpy as np
import pytest

from parley.errors import SettingError
from parley_lab.papers.pejo2018.games.gain_sample import GainSample

OPEN, HALF = ("open", 0.0), ("half", 0.5)


def sample(first, second):
    """Of two players who did the same, and of one against another; `second` is the partner's gain in the same
    division."""
    return GainSample.of(
        [(OPEN, OPEN, first), (OPEN, OPEN, second), (OPEN, HALF, first), (HALF, OPEN, second), (HALF, HALF, first)]
    )


def test_both_players_of_a_division_are_drawn_together():
    """One player's gain is the other's loss in each division: their mean, and the sum of both orders, never move."""
    gains = np.random.default_rng(0).normal(0, 1, 4)
    drawn = [table.gains[0] for table in sample(gains, 1 - gains).drawn(30)]
    assert np.allclose([cells[0, 0] for cells in drawn], 0.5)
    assert np.allclose([cells[0, 1] + cells[1, 0] for cells in drawn], 1.0)
    assert np.std([cells[0, 1] for cells in drawn]) > 0.1


def test_a_second_player_of_the_same_divisions_makes_nothing_firmer():
    """Two players with the same gain in each division are one measurement: the spread is that of one, not 1/sqrt(2) of
    it."""
    gains = np.random.default_rng(1).normal(0, 1, 4)
    drawn = np.array([table.gains[0][0, 0] for table in sample(gains, gains).drawn(2000)])
    assert drawn.std() == pytest.approx(gains.std() / 2, rel=0.08)


def test_one_division_has_no_resamples_and_gains_that_are_missing_are_refused():
    assert sample([1.0], [2.0]).drawn(5) == []
    assert sample([1.0], [2.0]).table().gains[0][0, 0] == 1.5
    for measured in ([(OPEN, HALF, [1.0])], [(OPEN, OPEN, [1.0]), (OPEN, OPEN, [1.0, 2.0])], [(OPEN, OPEN, [])], []):
        with pytest.raises(SettingError):
            GainSample.of(measured)
