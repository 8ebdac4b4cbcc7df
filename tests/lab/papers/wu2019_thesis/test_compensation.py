import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_games import sampled_concavity

from parley.decisions.games import best_response_dynamics, largest_gain
from parley.errors import SettingError
from parley.privacy.accounting.meaning import min_entropy_leakage
from parley_lab.papers.wu2019_thesis.compensation import (
    Channel,
    compensation_game,
    dominant_strategies,
    own_payment_game,
)


@given(
    start=st.lists(st.floats(0.01, 5), min_size=3, max_size=3), order=st.sampled_from(["sequential", "simultaneous"])
)
@settings(max_examples=15, deadline=None)
def test_equal_sizes_converge_to_equal_budgets_from_any_start(start, order):
    walk = best_response_dynamics(compensation_game([1000, 1000, 1000]), start, order)
    assert walk.at_rest
    np.testing.assert_allclose(walk.end, 1.79888, atol=1e-4)


@given(st.lists(st.floats(0.01, 5), min_size=3, max_size=3))
@settings(max_examples=15, deadline=None)
def test_unequal_sizes_converge_to_unequal_budgets_the_larger_the_smaller(start):
    game = compensation_game([500, 1000, 2000])
    walk = best_response_dynamics(game, start)
    assert walk.at_rest
    np.testing.assert_allclose(walk.end, [2.17558, 1.82909, 1.38042], atol=1e-4)
    assert largest_gain(game, walk.end) < 1e-9


def test_the_utility_game_converges_too_but_not_to_one_point():
    """T claims a concave payoff and a unique equilibrium. Neither holds: from the lowest budgets nobody moves."""
    game = compensation_game([1000, 1000, 1000], "utility")
    inside = best_response_dynamics(game, [0.5, 2.0, 4.0])
    lowest = best_response_dynamics(game, game.low)
    assert inside.at_rest
    assert lowest.at_rest
    np.testing.assert_allclose(inside.end, 1.5249, atol=1e-3)
    np.testing.assert_array_equal(lowest.end, game.low)
    assert max(largest_gain(game, walk.end) for walk in (inside, lowest)) < 1e-9
    assert sampled_concavity(game) > 0.1


def test_the_printed_scale_makes_everybody_give_nothing():
    """Erratum: wf as printed multiplies by max g/max e^eps, so the cost outweighs the gain by e^(2 eps) and the least
    budget dominates."""
    game = compensation_game([500, 1000, 2000], printed=True)
    np.testing.assert_array_equal(dominant_strategies(game), game.low)
    assert (game.payoff(game.low) < 0).any()  # worse than to abstain


def test_the_mended_scale_brings_gain_and_cost_to_one():
    game = compensation_game([1.0, 1e12])  # the small owner's others have all of the share
    assert game.payoff(np.array([5.0, 5.0]))[0] == pytest.approx(0, abs=1e-6)  # 1 - 1


def test_own_payments_have_dominant_strategies():
    """T Proposition 1, for a payment that is not concave: the larger of two bumps, whatever the others do."""

    def payments(e):
        return np.exp(-np.square(e - 1) / 0.1) + 1.2 * np.exp(-np.square(e - 3) / 0.1)

    game = own_payment_game(payments, lambda e: 0.05 * e, players=4)
    chosen = dominant_strategies(game)
    np.testing.assert_allclose(chosen, 2.9979, atol=1e-3)
    assert (game.payoff(chosen) >= 0).all()  # individually rational: nobody would rather abstain
    assert largest_gain(game, chosen) < 1e-9
    one_round = best_response_dynamics(game, [0.1, 1.0, 3.0, 5.0], "simultaneous")
    np.testing.assert_allclose(one_round.path[1], chosen, atol=1e-6)


def test_payments_that_depend_on_the_others_have_none():
    assert dominant_strategies(compensation_game([1000, 1000, 1000])) is None


@given(st.floats(0, 20), st.integers(1, 50), st.integers(2, 50))
def test_the_leakage_is_that_of_the_accounting(epsilon, people, values):
    ours = Channel(individuals=people, values=values).leakage(np.array([epsilon]))[0]
    assert ours == pytest.approx(min_entropy_leakage(epsilon, people, values), abs=1e-9)


@given(st.floats(0.01, 10), st.integers(1, 12), st.integers(1, 5))
def test_the_utility_is_that_of_equation_2_3(epsilon, distance, border):
    e = np.exp(epsilon)
    printed = e**distance * (1 - e) / (e**distance * (1 - e) + border * (1 - e**distance))
    ours = Channel(distance=distance, border=border).utility(np.array([epsilon]))[0]
    assert ours == pytest.approx(printed, rel=1e-9)


def test_impossible_settings_are_refused():
    for sizes in ([1000], [1000, -1], [[1, 2]], [1, float("nan")]):
        with pytest.raises(SettingError):
            compensation_game(sizes)
    with pytest.raises(SettingError, match="leakage or utility"):
        compensation_game([1, 1], "money")
