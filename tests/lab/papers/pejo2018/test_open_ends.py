"""What P leaves open, on planted tastes: mechanisms that differ, iterations that are shared, a forecast from public
users."""

import numpy as np
import pytest
from planted_tastes import planted, silent

from parley.errors import SettingError
from parley.privacy.accounting import exact, make_series
from parley.tasks.ratings.factorization import Factorization, factorize
from parley.tasks.ratings.question import UserUpdate
from parley.tasks.ratings.table import by_user
from parley_lab.papers.pejo2018.divided_ratings import make_division
from parley_lab.papers.pejo2018.gain_forecast import forecast_gains, judge, public_part, stands_for
from parley_lab.papers.pejo2018.games.gain_table import STAYS_OUT
from parley_lab.papers.pejo2018.measurements import Choice, by_updates, privacy_curves
from parley_lab.papers.pejo2018.mechanism_pairs import called, mechanism_games, mechanism_pairs, strategies
from parley_lab.papers.pejo2018.released_updates import Contribution, learned_from, quieter
from parley_lab.papers.pejo2018.shared_iterations import iteration_games, passes_in_turn, spent_by, updates_at_strides

RULE = Factorization(step=0.05)


def point(own, other, p, p_other, gains):
    return {"strategy": own, "other": other, "p": p, "p_other": p_other, "improvements": gains}


def test_the_game_over_mechanisms_finds_the_one_that_is_always_better():
    """Gains by hand: the good mechanism gains 1 more than the bad one at the same p, whatever the other plays."""
    levels = {"open": (0.0, 3.0), "bad": (0.5, 1.0), "good": (0.5, 2.0)}
    points = [
        point(own, other, p, q, [gain + g / 10] * 3)
        for own, (p, gain) in levels.items()
        for other, (q, g) in levels.items()
    ]
    eager, shy = mechanism_games(points, [(0.1, 0.1), (2.5, 2.5)])
    assert eager["strategies"] == ["open", "open"]
    assert shy["strategies"] == ["good", "good"]  # 2.2 - 1.25 against 3.2 - 2.5
    assert shy["always_best"] == ["good", "good"]
    assert shy["same"] == 1
    assert shy["best_answers"][0] == {"open": "good", "bad": "good", "good": "good"}
    (nobody,) = mechanism_games(points, [(9.0, 9.0)])
    assert nobody["strategies"] == [STAYS_OUT, STAYS_OUT]


def test_mechanisms_that_are_the_same_make_the_game_of_one():
    """Two names for one mechanism: the equilibrium's p and payoffs are those of the game with one name."""
    rng = np.random.default_rng(1)
    gains = {(p, q): rng.normal(1, 1, 3).tolist() for p in (0.0, 0.3) for q in (0.0, 0.3)}
    once = [point(str(p), str(q), p, q, g) for (p, q), g in gains.items()]
    twice = [
        point(f"{p}{a}", f"{q}{b}", p, q, g)
        for (p, q), g in gains.items()
        for a in ("", "x")[: 1 + (p > 0)]
        for b in ("", "x")[: 1 + (q > 0)]
    ]
    for concern in ((0.1, 0.1), (1.0, 0.3)):
        (one,), (two,) = mechanism_games(once, [concern]), mechanism_games(twice, [concern])
        assert one["privacy"] == two["privacy"]
        assert one["payoff"] == pytest.approx(two["payoff"])


def test_every_pair_of_mechanisms_is_measured_on_what_each_owner_lets_out():
    chosen = strategies(["bounded", "updates"], levels=(0.0, 0.5))
    points = mechanism_pairs(planted(), chosen, 2, RULE, silent)
    names = [called(one) for one in chosen]
    assert {(p["strategy"], p["other"]) for p in points} == {(a, b) for a in names for b in names}
    gain = {
        (p["strategy"], p["other"]): p["improvement"] for p in points if p["player"] == 1 or p["strategy"] != p["other"]
    }
    assert gain["no privacy", "no privacy"] > gain["bounded, ε = 1", "bounded, ε = 1"]
    assert gain["bounded, ε = 1", "updates, ε = 1"] != gain["updates, ε = 1", "updates, ε = 1"]
    with pytest.raises(SettingError):
        strategies(["bounded"])
    with pytest.raises(SettingError, match="centred"):
        by_updates(make_division(planted(), (1, 1), 0), [Choice("bounded-published", 0.5)] * 2, 0)


def test_answers_of_noisy_ratings_are_as_noisy_as_the_learner_is_told():
    """The variance over draws of the noise, for each rating of an item, against the stated one; half of it would
    fail."""
    ratings, noise, rng = planted(users=300, items=40), 0.3, np.random.default_rng(0)
    users, V = np.arange(300), np.zeros((40, 5))
    drawn = []
    for _ in range(60):
        # far from the ends, so that nothing is moved
        noisy = ratings.with_values(3.0 + noise * rng.standard_normal(len(ratings)))
        drawn.append(300 * UserUpdate(clip=50.0).mean(by_user(noisy, users, 1.0, 5.0), V).value.reshape(40, -1)[:, 0])
    found = np.var(drawn, axis=0, ddof=1).mean() / (len(ratings) / 40)
    told = Contribution(ratings, variance=noise**2).carried
    assert found == pytest.approx(told, rel=0.15)
    assert found != pytest.approx(told / 2, rel=0.15)
    assert Contribution(ratings, variance=100.0).carried == 4  # moved into the scale


def test_noise_that_is_told_is_weighed():
    """The same noisy ratings, once as what they are and once as if they had none: what a quiet partner says then counts
    for less."""
    first, second = make_division(planted(users=900), (1, 1), 0).trains
    noisy = first.with_values(
        np.clip(first.values + np.random.default_rng(0).laplace(scale=4.0, size=len(first)), 1, 5)
    )
    clean = learned_from([Contribution(second)] * 2, 0)
    told, untold = (learned_from([Contribution(noisy, variance=v), Contribution(second)], 0) for v in (32.0, 0.0))
    assert np.abs(told - clean)[:, 0].mean() < 0.8 * np.abs(untold - clean)[:, 0].mean()


def test_a_smaller_noise_has_its_epsilon():
    deviation = [
        make_series("gaussian", exact(e), exact(1e-5), 20, 1.0).mechanism.variance ** 0.5
        for e in (2.0, quieter(2.0, 0.3))
    ]
    assert deviation[1] == pytest.approx(0.3 * deviation[0], rel=1e-4)
    for wrong in (0.0, 1.5, float("nan")):
        with pytest.raises(SettingError):
            quieter(1.0, wrong)


def test_sharing_all_passes_is_learning_together_and_none_is_learning_alone():
    first, second = (part.with_values(part.values - 3.0) for part in make_division(planted(), (1, 1), 0).trains)
    rule = Factorization(passes=6)
    everything, same = (factorize([first, second], rule, 3, shared=shared) for shared in (None, 6))
    assert np.array_equal(everything.items, same.items)
    assert all(np.array_equal(own, everything.items) for own in same.own_items)
    changed = second.with_values(-second.values)  # whoever shares with its owner notices, and nobody else
    for shared in (0, 1):
        own, others = (factorize([first, other], rule, 3, shared=shared).own_items[0] for other in (second, changed))
        assert np.array_equal(own, others) == (shared == 0)


def test_more_shared_passes_gain_more_and_send_more():
    points = passes_in_turn(planted(users=900), 2, RULE, silent, passes=(1, 20))
    few, many = (np.mean([p["improvement"] for p in points if p["iterations"] == n]) for n in (1, 20))
    assert many > few
    assert [p["sent"] for p in points] == [80 * 4 * 8] * 2 + [20 * 80 * 4 * 8] * 2


def test_who_answers_less_often_has_spent_less():
    spent = [spent_by(0.5, stride) for stride in (20, 4, 1)]
    assert 0 < spent[0] < spent[1] < spent[2] == 1.0


def test_rounds_in_which_nobody_answers_change_nothing():
    first, second = make_division(planted(), (1, 1), 0).trains
    apart = learned_from([Contribution(first, stride=4), Contribution(second, stride=4)], 0, rounds=20)
    assert np.array_equal(apart, learned_from([Contribution(first), Contribution(second)], 0, rounds=5))
    assert not np.array_equal(apart, learned_from([Contribution(first, stride=4), Contribution(second)], 0, rounds=20))


def test_the_game_over_iterations_is_that_of_all_pairs_of_ways():
    points = updates_at_strides(planted(), 2, RULE, silent, strides=(1, 4), levels=(0.0, 0.5))
    ways = {(one["p"], one["iterations"]) for one in points}
    assert ways == {(0.0, 20), (0.0, 5), (0.5, 20), (0.5, 5)}
    assert len(points) == 2 * 4 * 4
    often, rarely = (
        next(
            p["improvement"]
            for p in points
            if (p["p"], p["iterations"], p["p_other"], p["iterations_other"]) == (0.5, n, 0.0, 20)
        )
        for n in (20, 5)
    )
    assert often != rarely
    by_hand = []
    for one in points:  # who answers rarely gains most, noise costs nothing: by hand
        gain = 3.0 + (one["iterations"] == 5) - (one["iterations_other"] == 5) / 2
        by_hand.append({**one, "improvements": [gain, gain]})
    shy, open_ = iteration_games(by_hand, [(1.0, 1.0), (0.0, 0.0)])
    assert shy["strategies"] == ["ε = 1, 5 iterations"] * 2
    assert shy["payoff"] == pytest.approx([3.0, 3.0])  # 3 + 1 - 1/2 less half the concern
    assert shy["all_iterations"]["payoff"] == pytest.approx([2.5, 2.5])
    assert all("5 iterations" in name for name in open_["strategies"])


def test_public_users_have_the_noise_to_signal_of_those_they_stand_for():
    """Signals grow with users and noise does not: a quarter of the users have half of the deviation for the same ratio
    of variances."""
    part = planted(users=100)
    few = stands_for(part, Choice("updates", 0.5), 400)
    deviation = [
        make_series("gaussian", exact(e), exact(1e-5), 20, 1.0).mechanism.variance ** 0.5 for e in (1.0, few.epsilon)
    ]
    assert deviation[1] == pytest.approx(deviation[0] / 2, rel=1e-4)
    assert stands_for(part, Choice("updates", 0.5), 100).epsilon == 1.0
    assert (
        stands_for(part, Choice("updates", 0.0), 400).epsilon == stands_for(part, Choice("updates", 0.0), 100).epsilon
    )


def test_a_forecast_is_judged_by_users_it_did_not_see():
    ratings = planted(users=800)
    public, private = public_part(ratings, 200)
    assert not set(public.users) & set(private.users)
    forecast = forecast_gains(public, 300, ["hide"], 2, RULE, silent, levels=(0.0, 0.3, 0.6))
    assert [one["users"] for one in forecast[0]["public"]] == [50, 100]
    measured = privacy_curves(private, ["hide"], 1, RULE, silent, both=True)
    levels = (0.0, 0.3, 0.6)
    known = [{**one, "improvement": 1.0, "error": 0.1, "improvements": [1.0]} for one in forecast]
    (judged,) = judge(forecast, known)
    gains = np.array([one["improvement"] for one in forecast])
    assert judged["error"] == pytest.approx(np.sqrt(np.mean((gains - 1) ** 2)))
    assert judged["error_of_nothing"] == 1
    (perfect,) = judge(forecast, [{**one, "improvements": [one["improvement"]]} for one in forecast])
    assert perfect["error"] == 0
    assert perfect["right_sign"] == 1
    assert all(end["forecast"] == end["measured"] for end in perfect["equilibria"])
    assert len(measured) == 2 * 4 * 4  # both players in either role
    assert {one["p"] for one in forecast} == set(levels)
    with pytest.raises(SettingError):
        public_part(ratings, 700)
