"""Local maxima without a search, beside a fine grid that looks at everything."""

from dataclasses import replace

import numpy as np
import pytest
from game_samples import NOISE, random_weakest_link, weakest_link

from parley.decisions.games.stakes import Demand
from parley.decisions.games.weakest_link import LocalMaxima, WeakestLink, play
from parley.decisions.knowledge.privacy_cost import COST_CURVES, PrivacyCosts
from parley.terms import PrivacyCost

FINE = 20_001


def some_game(seed):
    """A random game, every other one with a law that is calibrated in jumps, and flat in places."""
    rng, game = np.random.default_rng(seed), random_weakest_link(seed, owners=5)
    stakes = game.stakes
    if seed % 2:
        knots = stakes.demand.knots
        jumps = np.exp(0.004 * rng.random(len(knots)))
        jumps[60:70] *= np.exp(np.linspace(0.0, 0.5, 10))
        stakes = replace(
            stakes, demand=Demand(knots, np.minimum.accumulate(NOISE / knots ** rng.uniform(1, 2.2) * jumps))
        )
    return WeakestLink(stakes, game.value, game.privacy_cost, keep_own=bool(seed % 3)), rng.random(5) < 0.7


def on_a_fine_grid(game, members):
    grid = np.geomspace(*game.budget_range, FINE)
    return grid, game.payoff(np.repeat(grid[:, None], game.owners, axis=1), members)


@pytest.mark.parametrize("seed", range(30))
def test_no_point_of_a_fine_grid_is_above_the_peaks(seed):
    game, members = some_game(seed)
    _, curves = on_a_fine_grid(game, members)
    there = game.payoff(game.peaks(members), members)
    assert (there >= curves.max(axis=0) - 1e-12 * (1 + np.abs(there))).all()


@pytest.mark.parametrize("seed", range(30))
def test_the_best_below_is_what_a_fine_grid_shows(seed):
    game, members = some_game(seed)
    grid, curves = on_a_fine_grid(game, members)
    running, size = np.maximum.accumulate(curves, axis=0), 1 + np.abs(curves).max()
    places = np.arange(0, FINE, FINE // 40)
    found = game.best_below(grid[places], members, game.local_maxima(members))
    assert (found >= running[places] - 1e-12 * size).all()
    # between two points of the grid it may be a little higher
    assert found == pytest.approx(running[places], abs=1e-4 * size)


@pytest.mark.parametrize("seed", range(30))
def test_members_play_the_largest_epsilon_at_which_nobody_did_better_below(seed):
    game, members = some_game(seed)
    if members.sum() < 2:
        members[:2] = True
    played = play(game, members)
    grid, curves = on_a_fine_grid(game, members)
    content = np.all(
        np.maximum.accumulate(curves, axis=0) - curves <= 1e-7 * (1 + np.abs(curves)), axis=1, where=members
    )
    lowest = game.peaks(members)[members].min()
    assert played.epsilon <= lowest
    assert played.epsilon >= grid[content & (grid <= lowest)].max(initial=game.budget_range[0]) * (1 - 1e-3)
    below = game.best_below(np.array([played.epsilon]), members, game.local_maxima(members))[0]
    assert (below - game.payoff(np.array([played.epsilon]), members))[members].max() <= 1e-8 * (1 + np.abs(below).max())


def test_some_of_these_games_have_several_hills():
    """Else the tests above would say little."""
    several = [np.bincount(game.local_maxima(members).owner).max() for game, members in map(some_game, range(30))]
    assert sum(most > 1 for most in several) > 10


def test_a_peak_between_knots_is_where_derivatives_are_equal():
    """Linear cost w eps, noise V/eps^2 in a sum of n rows: value V/n^2 2/eps^3 = w."""
    game = weakest_link([300, 500], [2e3, 1e3], [("linear", 5.0), ("linear", 1.0)])
    expected = (2 * game.value * NOISE / 800**2 / np.array([5.0, 1.0])) ** (1 / 3)
    assert game.peaks(game.everyone) == pytest.approx(expected, rel=1e-12)


def test_without_another_member_there_is_nothing_to_choose():
    game = weakest_link([300, 500, 400], [1e3] * 3, [("linear", 5.0)] * 3)
    local_maxima = game.local_maxima(np.array([True, False, False]))
    assert local_maxima.peaks()[0] == game.budget_range[0]
    assert local_maxima.height[local_maxima.owner == 0].tolist() == [0.0]


def test_of_equal_hills_the_lowest_is_the_peak_and_the_largest_is_gone_back_to():
    local_maxima = LocalMaxima(
        np.array([0, 0, 0, 1]), np.array([0.1, 0.2, 0.4, 0.3]), np.array([2.0, 2.0, 1.0, 5.0]), np.array([0, 3])
    )
    assert local_maxima.peaks().tolist() == [0.1, 0.3]
    best, where = local_maxima.best_below(np.array([0.25, 0.05, 1.0]))
    assert best.tolist() == [[2.0, -np.inf], [-np.inf, -np.inf], [2.0, 5.0]]
    assert where[[0, 2], [0, 0]].tolist() == [0.2, 0.2]


def test_marginal_costs_are_derivatives_on_logarithms():
    costs = PrivacyCosts.from_curves([PrivacyCost(kind=kind, weight=3.0) for kind in ("linear", *COST_CURVES)])
    epsilon, h = np.array([[0.02], [0.7], [4.0]]), 1e-5
    derivatives = (costs(epsilon * np.exp(h)) - costs(epsilon * np.exp(-h))) / (2 * h)
    assert costs.marginal(epsilon) == pytest.approx(derivatives, rel=1e-8)
    assert costs.take(np.array([2, 0])).marginal(np.array([0.7, 0.7])) == pytest.approx(
        derivatives[1, [2, 0]], rel=1e-8
    )
