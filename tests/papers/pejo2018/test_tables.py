"""Tables of the joint-learning game: two alike are one measurement."""

import pytest

from parley.papers.pejo2018.tables import both_players, figure_rows, private_rows


def point(player, own, other, gains):
    known = {
        "mechanism": "updates",
        "ratio": "1:1",
        "epsilon": 1.0,
        "epsilon_named": 1.0,
        "alone": 0.9,
        "together_walked": 0.8,
    }
    facts = {"player": player, "p": own, "p_other": other, "together_solved": 0.8}
    return {**known, **facts, "improvement": sum(gains) / 2, "error": 9.0, "improvements": gains}


def test_an_error_of_both_players_is_that_of_their_mean_over_divisions():
    """What one gains more in a division the other gains less: their mean is the same in both, and has no error."""
    points = [point(1, 0.5, 0.0, [1.0, 3.0]), point(2, 0.5, 0.0, [3.0, 1.0]), point(1, 0.0, 0.5, [0.0, 4.0])]
    first, second = both_players(points, ("p", "p_other"))
    assert (first["improvement"], first["error"], first["improvements"]) == (2.0, 0.0, [2.0, 2.0])
    assert (second["improvement"], second["error"]) == (2.0, pytest.approx(2.0))
    assert [row[-2:] for row in figure_rows(5, points)[1:]] == [["+2.00", "0.00"], ["+2.00", "2.00"]]
    (forecast,) = both_players([{"p": 0.0, "improvement": g, "error": g / 10} for g in (1.0, 2.0)], ("p",))
    assert (forecast["improvement"], forecast["error"]) == (1.5, 0.2)


def test_on_a_fit_nobody_stays_out():
    player = {"concerns": [5.0], "privacy": [1.0], "payoff": [-1.7], "switches": []}
    kept = [
        private_rows([{"mechanism": "hide", "on": on, "players": [player]}])[1][4]
        for on in ("published fit", "fit", "points")
    ]
    assert kept == ["1", "1", "out"]
