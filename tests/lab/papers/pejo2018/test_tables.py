"""Tables of the joint-learning game: two alike are one measurement."""

import pytest

from parley_lab.papers.pejo2018.published import published_gain
from parley_lab.papers.pejo2018.tables import both_players, figure_rows, private_rows, whose_rows


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


def test_published_gains_stand_beside_ours():
    """Figure 5: P's fit by hand at p = 0.6; figure 3: 2.5 % over the means, whoever it is; figure 4 has no number."""
    hidden = {**point(1, 0.6, 0.0, [1.0, 3.0]), "mechanism": "hide"}
    by_hand = 1.19595 - 2.6924 * 0.6 + 0.614583 * 0.36
    assert published_gain(5, hidden) == pytest.approx(by_hand)
    head, row = figure_rows(5, [hidden])
    assert row[head.index("P printed %")] == f"{by_hand:+.2f}"
    three = [{**point(n, 0.0, 0.0, [1.0, 1.0]), "baseline": 1.0, "together": 0.8} for n in (1, 2)]
    head, *rows = figure_rows(3, three)
    assert [row[head.index("P printed %")] for row in rows] == ["+2.50", "+2.50"]
    assert "P printed %" not in figure_rows(4, [hidden])[0]
    assert published_gain(5, point(1, 0.0, 0.0, [1.0])) is None  # updates are ours


def test_what_ones_own_p_costs_stands_beside_what_the_others_costs():
    pairs = {(0.0, 0.0): (1.0, 0.80), (0.6, 0.0): (0.4, 0.89), (0.0, 0.6): (0.1, 0.85), (0.6, 0.6): (-2.0, 0.95)}
    points = [{**point(1, *pair, [gain] * 2), "together_walked": walked} for pair, (gain, walked) in pairs.items()]
    assert whose_rows(points)[1] == ["updates", "0.6", "10.00", "5.56", "0.60", "0.90", "yes, no"]


def test_on_a_fit_nobody_stays_out():
    player = {"concerns": [5.0], "privacy": [1.0], "payoff": [-1.7], "switches": []}
    kept = [
        private_rows([{"mechanism": "hide", "on": on, "players": [player]}])[1][4]
        for on in ("published fit", "fit", "points")
    ]
    assert kept == ["1", "1", "out"]
