"""The game on measured gains: what the published fit gives comes back from points that lie on it, with error bars that
noise explains."""

import numpy as np
import pytest

from parley.errors import SettingError
from parley_lab.papers.pejo2018.games.joint_learning import PUBLISHED
from parley_lab.papers.pejo2018.measured_game import measured_games

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
    fitted = uneven["on_fit"]
    assert fitted["privacy"] == pytest.approx((0.31501, 0.10741), abs=1e-4)
    assert fitted["price"] == pytest.approx(0.184, abs=1e-3) == uneven["published"]["price"]
    assert uneven["on_points"]["privacy"] == (1.0, 1.0)  # payoffs are -2.8 for the first: it stays out
    assert uneven["on_points"]["price"] == 1


def test_error_bars_grow_with_the_noise():
    small, large = (
        measured_games(points_on(PUBLISHED["bDP"], noise), EVEN, resamples=2)[0]["on_fit"] for noise in (0.01, 0.1)
    )
    assert 0 < small["privacy_spread"][0] < large["privacy_spread"][0]


def test_a_game_on_points_is_that_of_all_pairs():
    """Against the definition: nobody does better by another p or by staying out, and no such pair has more in sum."""
    points = points_on(PUBLISHED["hide"], 0.3, seed=3)
    gain = {(p["p"], p["p_other"]): np.mean(p["improvements"]) for p in points}
    levels = sorted({own for own, _ in gain})
    for concern in ((0.0, 0.0), (0.1, 0.4), (0.6, 0.6), (3.0, 0.1)):
        found = measured_games(points, [concern], resamples=0)[0]["on_points"]

        def pays(own, other, c):
            return max(gain[own, other], 0.0) - c * (1 - own)

        stable = {
            (a, b): pays(a, b, concern[0]) + pays(b, a, concern[1])
            for a in levels
            for b in levels
            if pays(a, b, concern[0]) >= max(0, *(pays(x, b, concern[0]) for x in levels))
            and pays(b, a, concern[1]) >= max(0, *(pays(x, a, concern[1]) for x in levels))
        }
        best = max(stable, key=stable.get) if stable else None
        assert found["privacy"] == (best if best and stable[best] > 1e-12 else (1.0, 1.0))


def test_a_quadratic_that_misses_the_points_is_not_played_on():
    points = points_on(lambda x, y: np.where((x > 0) & (y > 0), -8.0, 2.0), 0.0)
    (game,) = measured_games(points, EVEN, resamples=0)
    assert game["on_fit"]["privacy"] is None
    assert game["on_fit"]["fit"]["rmse"] > 1
    assert game["on_points"]["privacy"] == (0.0, 0.6)  # one without privacy, the other with all it can have


def test_one_division_has_no_error_bars_and_no_points_no_game():
    game = measured_games(points_on(PUBLISHED["bDP"], 0.0, splits=1), EVEN)[0]
    assert game["on_fit"]["privacy_spread"] is None
    assert game["on_points"]["same"] is None
    with pytest.raises(SettingError):
        measured_games([])
