from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_games import sampled_concavity, sampled_potential_gap

from parley.decisions.games import best_responses, largest_gain, pure_equilibria, solve, welfare
from parley.errors import SettingError
from parley_lab.papers.pejo2018.games.joint_learning import (
    PUBLISHED,
    Interpolation,
    fit,
    joint_learning,
    published,
    table_6,
)
from parley_lab.papers.pejo2018.games.joint_learning_theorems import (
    assumptions,
    theorem_1,
    theorem_2,
    theorem_3,
    theorem_4,
)


@cache
def solved(mechanism, concern, participation=False):
    """The equilibrium of a published game, found once for all who look at it."""
    return solve(published(mechanism, concern, participation))


@cache
def equilibria(mechanism, concern):
    """All equilibria of a published game in which nobody has to take part."""
    return tuple(pure_equilibria(published(mechanism, concern, participation=True)))


def test_the_uneven_game_of_section_7_to_four_digits():
    found = solved("bDP", (5, 0.2))
    np.testing.assert_allclose(found.privacy, [0.31501, 0.10741], atol=5e-6)
    np.testing.assert_allclose(found.epsilon, [2.1745, 8.3102], atol=5e-5)
    np.testing.assert_allclose(found.improvement, [0.5852, 0.9062], atol=5e-5)
    np.testing.assert_allclose(found.payoff, [-2.8397, 0.7277], atol=5e-5)
    assert found.price_of_privacy == pytest.approx(0.1840, abs=5e-5)
    assert found.largest_gain < 1e-9
    assert found.unique is True


def test_the_even_game_of_section_7_to_four_digits():
    found = solved("bDP", (1, 1))
    np.testing.assert_allclose(found.privacy, 0.14608, atol=5e-6)
    np.testing.assert_allclose(found.epsilon, 5.8456, atol=5e-5)
    np.testing.assert_allclose(found.payoff, 0.2277, atol=5e-5)
    assert found.price_of_privacy == pytest.approx(-0.1836, abs=5e-5)  # the interpolation is not monotone
    assert found.unique is True


def test_the_closed_form_of_equation_28():
    """p = 0.105373 - 0.001272 C_m/B_m + 0.041978 C_n/B_n, with the rounding of P's printed coefficients."""
    for first, second in ((5, 0.2), (0, 0), (3, 7), (20, 1)):
        found = solved("bDP", (first, second)).privacy
        expected = [0.105373 - 0.001272 * b + 0.041978 * a for a, b in ((first, second), (second, first))]
        np.testing.assert_allclose(found, expected, atol=3e-5)


def test_the_published_payoffs_follow_from_the_other_sign_and_exchanged_improvements():
    equilibrium = solved("bDP", (5, 0.2)).privacy
    other_sign = replace(PUBLISHED["bDP"], eta1=0.7225)
    exchanged = other_sign(equilibrium, equilibrium[::-1])  # f(own, other) instead of f(other, own)
    np.testing.assert_allclose(exchanged - np.array([5, 0.2]) * (1 - equilibrium), [-2.470, 0.456], atol=1e-3)
    even = np.array(0.14608)
    assert float(other_sign(even, even)) - (1 - 0.14608) == pytest.approx(0.258547, abs=1e-4)


@pytest.mark.parametrize("mechanism", PUBLISHED)
@given(concern=st.floats(0, 30), other=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_searched_best_responses_are_table_6(mechanism, concern, other):
    """Payoffs within 1e-9 of table 6's choice, and the same choice unless two choices pay the same."""
    game = published(mechanism, concern=(concern, concern), participation=True)
    searched = best_responses(game, 0, np.array([[0.5, other]]))[0]
    printed = table_6(mechanism, concern, other)
    pay = game.payoff(np.array([[searched, other], [printed, other]]))[:, 0]
    # where more privacy of the other no longer raises the fit, benefit and fit agree
    if mechanism == "hide" or other > 0.11:
        assert pay[0] == pytest.approx(pay[1], abs=1e-9)
    assert pay[0] >= pay[1] - 1e-9


def test_table_6_of_hide_and_udp_by_hand():
    """hide: all or nothing. u(0, x) = 1.19595 - 2.42762 x + 1.19784 x^2 - C > 0 decides."""
    assert table_6("hide", 0.5, 0.3) == 0.0
    assert table_6("hide", 0.5, 0.4) == 1.0
    assert table_6("hide", 1.2, 0.0) == 1.0
    assert table_6("uDP", 0.5, 0.0) == 0.0  # p-hat = (0.5 - 5.19583)/6.33 < 0 and u = 1.09361 - 0.5 > 0
    assert table_6("uDP", 1.1, 0.0) == 1.0
    assert table_6("uDP", 0.0, 0.1) == 0.0
    inside = replace(PUBLISHED["uDP"], eta0=6.0)
    game = joint_learning((inside, inside), (5.5, 5.5), participation=True)
    answer = best_responses(game, 0, np.array([[0.0, 0.1]]))[0]
    assert answer == pytest.approx((-5.5 + 5.19583 - 7.3125 * 0.1) / (2 * -3.16667), abs=1e-6)


@pytest.mark.parametrize("mechanism", PUBLISHED)
@pytest.mark.parametrize("concern", [(0, 0), (0, 1), (5, 0.2), (1, 1), (25, 25)])
def test_training_alone_is_always_an_equilibrium(mechanism, concern):
    game = published(mechanism, concern, participation=True)
    assert largest_gain(game, np.ones(2)) < 1e-12
    assert any(np.allclose(profile, 1) for profile in equilibria(mechanism, concern))
    assert game.price_of_privacy(np.ones(2)) == pytest.approx(1)


def test_without_participation_training_alone_is_none():
    assert largest_gain(published("bDP", (1, 1)), np.ones(2)) > 1


def test_whoever_is_very_concerned_stays_out():
    found = solved("bDP", (5, 0.2), participation=True)
    np.testing.assert_array_equal(found.privacy, [1, 1])
    np.testing.assert_array_equal(found.payoff, [0, 0])
    assert found.price_of_privacy == 1
    together = solved("bDP", (1, 1), participation=True)
    np.testing.assert_allclose(together.privacy, 0.14608, atol=5e-6)
    assert together.unique is False  # training alone is the other one
    assert 0 <= together.price_of_privacy <= 1


@pytest.mark.parametrize("mechanism", PUBLISHED)
def test_unconcerned_players_protect_nothing(mechanism):
    found = solved(mechanism, (0, 0), participation=True)
    np.testing.assert_array_equal(found.privacy, [0, 0])
    assert found.price_of_privacy == 0
    assert found.largest_gain < 1e-12


def test_hiding_has_no_epsilon():
    assert solved("hide", (0, 0), participation=True).epsilon is None
    assert np.isinf(solved("uDP", (0, 0), participation=True).epsilon).all()


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_the_benefit_is_the_largest_gain_with_at_least_as_much_privacy(seed, x, y):
    f = Interpolation(*np.random.default_rng(seed).normal(size=6) * 3)
    a, b = np.meshgrid(np.linspace(x, 1, 201), np.linspace(y, 1, 201))
    brute = max(0.0, float(f(a, b).max()))
    ours = float(f.benefit(np.array(x), np.array(y)))
    assert brute - 1e-12 <= ours <= brute + 1e-3


def test_theorem_1_and_its_condition():
    np.testing.assert_array_equal(theorem_1(PUBLISHED["bDP"]).profile, [1, 1])
    generous = Interpolation(1.0, -0.1, -0.1, 0.0, 0.0, 0.0)
    assert theorem_1(generous).profile is None
    assert largest_gain(joint_learning((generous, generous), (0.01, 0.01), participation=True), np.ones(2)) > 0.05


def test_theorem_2_and_its_condition():
    np.testing.assert_array_equal(theorem_2(PUBLISHED["hide"], (0, 0)).profile, [0, 0])
    assert theorem_2(PUBLISHED["hide"], (0, 1)).profile is None
    assert theorem_2(PUBLISHED["bDP"], (0, 0)).profile is None
    assert largest_gain(published("bDP", (0, 0)), np.zeros(2)) > 0.1  # and rightly: the fit is not monotone


@pytest.mark.parametrize("concern", [0.1, 0.5, 1.0, 1.19, 1.3, 4.0])
def test_theorem_3_is_the_equilibrium_of_the_game(concern):
    for gain in (PUBLISHED["hide"], Interpolation(1.0, -0.6, -0.01, 0.0, -0.5, -1.5)):
        promised = theorem_3(gain, (concern, 0)).profile
        game = joint_learning((gain, gain), (concern, 0), participation=True)
        assert largest_gain(game, promised) < 1e-9
        np.testing.assert_allclose(theorem_3(gain, (0, concern)).profile, promised[::-1])
    assert theorem_3(PUBLISHED["bDP"], (1, 0)).profile is None
    assert theorem_3(PUBLISHED["hide"], (1, 1)).profile is None


def test_theorem_3_as_printed_gives_away_too_much():
    """Phi meets every assumption, no privacy pays (u(0) > 0, so eq. 18 prints rho = 0), yet keeping some pays more."""
    gain = Interpolation(1.0, -0.6, -0.01, 0.0, -0.5, -1.5)
    met = assumptions(gain)
    assert met.privacy_never_helps
    assert met.full_privacy_is_alone
    assert met.together_helps
    game = joint_learning((gain, gain), (0.5, 0), participation=True)
    assert game.payoff(np.zeros(2))[0] > 0
    assert largest_gain(game, np.zeros(2)) > 0.03
    assert theorem_3(gain, (0.5, 0)).profile[0] > 0.1


@pytest.mark.parametrize("mechanism", PUBLISHED)
@pytest.mark.parametrize("concern", [(0.0, 0.0), (1.0, 1.0), (5.0, 0.2), (3.0, 9.0)])
def test_theorem_4_gives_an_equilibrium_of_the_unclamped_game(mechanism, concern):
    gain = PUBLISHED[mechanism]
    game = published(mechanism, concern)
    assert sampled_potential_gap(game) < 1e-6
    assert largest_gain(game, theorem_4((gain, gain), concern).profile) < 1e-9
    assert theorem_4((gain, PUBLISHED["hide" if mechanism != "hide" else "bDP"]), concern).profile is None


def test_theorem_4_promises_more_than_there_is():
    """With the clamped benefit, at (5, 0.2), training alone is the only equilibrium: none is non-trivial."""
    assert len(equilibria("bDP", (5, 0.2))) == 1


def test_a_fit_recovers_its_coefficients_and_reports_its_error():
    rng = np.random.default_rng(4)
    x, y = rng.uniform(0, 1, (2, 4000))
    truth = PUBLISHED["uDP"]
    fitted = fit(x, y, truth(x, y) + 0.1 * rng.standard_normal(4000))
    assert fitted.rmse == pytest.approx(0.1, rel=0.05)
    assert fitted.beta1 == pytest.approx(truth.beta1, abs=0.15)
    with pytest.raises(SettingError, match="at least 7"):
        fit(x[:6], y[:6], x[:6])
    with pytest.raises(SettingError, match="different values"):
        fit(np.zeros(20), y[:20], y[:20])
    with pytest.raises(SettingError, match="as many of each"):
        fit(x, y[:5], y)


def test_concave_where_p_says_and_not_for_hiding():
    assert sampled_concavity(published("bDP", (1, 1))) == pytest.approx(2 * -11.9219, rel=1e-4)
    assert sampled_concavity(published("hide", (1, 1))) > 0


def test_prices_of_anarchy_and_stability_of_the_even_game():
    game = published("bDP", (1, 1), participation=True)
    prices = welfare(game, [solved("bDP", (1, 1), participation=True).strategies])
    assert prices.price_of_anarchy == prices.price_of_stability
    assert prices.price_of_anarchy > 1
    assert welfare(game, equilibria("bDP", (1, 1))).price_of_anarchy is None  # the worst equilibrium is worth nothing


def test_impossible_settings_are_refused():
    with pytest.raises(SettingError, match="hide, bDP, uDP"):
        published("DP", (1, 1))
    with pytest.raises(SettingError, match="two numbers"):
        published("bDP", (1,))
    with pytest.raises(SettingError, match="concern = nan"):
        published("bDP", (1, float("nan")))
