"""The game on measured gains: what the published fit gives comes back from points that lie on it, with error bars that noise explains."""

import numpy as np
import pytest

from parley.errors import SettingError
from parley.games.joint_learning import PUBLISHED
from parley.reproduce.measured_game import measured_games

EVEN = [(1.0, 1.0)]


def points_on(fit, noise, splits=3, seed=0):
    rng = np.random.default_rng(seed)
    grid = [(own, other) for own in (0.0, 0.2, 0.4, 0.6) for other in (0.0, 0.2, 0.4, 0.6)]
    return [
        {
            "mechanism": "bounded",
            "p": own,
            "p_other": other,
            "improvements": (float(fit(np.array(other), np.array(own))) + noise * rng.standard_normal(splits)).tolist(),
        }
        for own, other in grid
    ]


def test_points_on_the_published_fit_give_its_equilibrium():
    (uneven,) = measured_games(points_on(PUBLISHED["bDP"], 0.0), [(5.0, 0.2)], resamples=0)
    assert uneven["privacy"] == pytest.approx((0.31501, 0.10741), abs=1e-4)
    assert uneven["price_of_privacy"] == pytest.approx(0.184, abs=1e-3) == uneven["published"]["price"]


def test_error_bars_grow_with_the_noise():
    small, large = (measured_games(points_on(PUBLISHED["bDP"], noise), EVEN, resamples=2)[0] for noise in (0.01, 0.1))
    assert 0 < small["privacy_spread"][0] < large["privacy_spread"][0]
    assert abs(small["privacy"][0] - 0.14608) < 6 * small["privacy_spread"][0]


def test_one_division_has_no_error_bars_and_no_points_no_game():
    assert measured_games(points_on(PUBLISHED["bDP"], 0.0, splits=1), EVEN)[0]["privacy_spread"] is None
    with pytest.raises(SettingError):
        measured_games([])
