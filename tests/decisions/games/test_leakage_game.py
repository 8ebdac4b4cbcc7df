"""The thesis's own game: what a model is worth, less the bits that become known, as one more negotiation."""

import numpy as np
import pytest
from game_samples import NOISE, budget_game, random_budget_game, weakest_link

from parley.decisions.games.budget_game import stable_coalition
from parley.decisions.games.payments import free_deal, largest_gain
from parley.decisions.knowledge.privacy_cost import PrivacyCosts
from parley.privacy.accounting.meaning import min_entropy_leakage, pure_leakage
from parley.terms import PrivacyCost

KINDS = ("min-entropy", "mutual-information")


def test_costs_are_the_bits_of_the_accounting():
    costs = PrivacyCosts.from_curves([PrivacyCost(kind=kind, weight=7.0) for kind in KINDS])
    for epsilon in (0.01, 1.0, 5.0):
        guess, known = costs(np.full(2, epsilon))
        assert guess == pytest.approx(7 * min_entropy_leakage(epsilon, individuals=1, values=2))
        assert known == pytest.approx(7 * pure_leakage(epsilon).mutual_information)


def payoff(game, epsilon, members, owner):
    """V = wf U - L of a member, written again: U is what it saves of the test cost that is forecast."""
    rows, cost = game.stakes.records, game.stakes.cost
    size, noise = rows[members].sum(), (NOISE / epsilon[members] ** 2).sum()
    together = cost.estimation / size + cost.bias + cost.noise_price * noise / size**2
    return game.value[owner] * (cost.estimation / rows[owner] - together) - game.privacy_cost(epsilon)[owner]


@pytest.mark.parametrize("seed", range(8))
def test_nobody_gains_by_another_budget(seed):
    game = random_budget_game(seed, kinds=KINDS)
    stable = stable_coalition(game)
    for owner in np.flatnonzero(stable.members):
        here = payoff(game, stable.epsilon, stable.members, owner)
        assert here == pytest.approx(stable.payoff[owner])
        for epsilon in np.geomspace(*game.budget_range, 200):
            tried = stable.epsilon.copy()
            tried[owner] = epsilon
            assert payoff(game, tried, stable.members, owner) <= here + 1e-9 * max(1.0, abs(here))
    assert largest_gain(game, free_deal(game)) < 1e-6


def test_who_pays_by_the_bit_gives_less_where_bits_are_dear():
    cheap, dear = (
        stable_coalition(budget_game([1000, 1000], [5000, 5000], [("mutual-information", weight)] * 2)).epsilon
        for weight in (0.1, 10.0)
    )
    assert (dear < cheap / 2).all()


def test_with_one_noise_for_all_peaks_are_where_a_grid_finds_them():
    game = weakest_link([1000, 2000, 500], [5000, 5000, 5000], [(kind, 2.0) for kind in (*KINDS, "linear")])
    everyone, grid = np.ones(3, dtype=bool), np.geomspace(0.01, 10.0, 2001)
    paid = np.array([game.payoff(np.array(epsilon), everyone) for epsilon in grid[:, None]])
    best = grid[np.argmax(paid.reshape(len(paid), 3), axis=0)]
    np.testing.assert_allclose(game.peaks(everyone), best, rtol=0.01)
