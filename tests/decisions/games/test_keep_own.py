"""Members keep their own model where it is better: nobody counts a loss that it would not take."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from game_samples import NOISE, budget_game, random_budget_game, random_weakest_link, weakest_link
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import GAUSSIAN, make_terms, regression_table

from parley.decisions.games.lifting_payments import cheapest_lift, common_deal, free_common_deal
from parley.decisions.games.negotiate import negotiate
from parley.decisions.games.payments import cheapest_contracts, contracts, free_deal, largest_gain
from parley.decisions.games.weakest_link import play, preferences

BOTH = np.ones(2, dtype=bool)


def both_ways(game):
    return replace(game, keep_own=True), replace(game, keep_own=False)


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_no_counted_gain_is_negative(seed):
    rng = np.random.default_rng(seed)
    for make in (random_budget_game, random_weakest_link):
        kept, plain = both_ways(make(seed))
        epsilon, members = rng.uniform(0.01, 10, kept.owners), rng.random(kept.owners) < 0.7
        gains, losses = (game.gains(epsilon, members) for game in (kept, plain))
        assert (gains >= 0).all()
        np.testing.assert_allclose(gains, np.maximum(losses, 0.0))
        payoff, less = (game.joining(epsilon, epsilon, members) for game in (kept, plain))
        assert (payoff >= less - 1e-12).all()
        assert (payoff >= -kept.privacy_cost(epsilon) - 1e-12).all()


def test_the_plain_convention_counts_losses():
    """What the property above would catch: without the option they do occur."""
    games = [random_budget_game(seed) for seed in range(9)]
    assert any((game.gains(np.full(game.owners, 0.05), game.everyone) < 0).any() for game in games)


@pytest.mark.parametrize("seed", range(15))
def test_without_payments_both_conventions_have_the_same_equilibria(seed):
    kept, plain = (free_deal(game) for game in both_ways(random_budget_game(seed)))
    np.testing.assert_array_equal(kept.members, plain.members)
    np.testing.assert_allclose(kept.payoff, plain.payoff)
    np.testing.assert_allclose(kept.epsilon[kept.members], plain.epsilon[plain.members])
    ways = both_ways(random_weakest_link(seed))
    kept, plain = (free_common_deal(game) for game in ways)
    np.testing.assert_array_equal(kept.members, plain.members)
    np.testing.assert_allclose(kept.payoff, plain.payoff, atol=1e-9)
    if kept.members.any():
        ends = [preferences(game, play(game, kept.members)) for game in ways]
        assert ends[0].play.epsilon == pytest.approx(ends[1].play.epsilon, rel=1e-6)
        assert ends[0].least == pytest.approx(ends[1].least, rel=1e-6)


def test_a_contract_pays_for_privacy_and_not_for_a_worse_model():
    """By hand, own noise: 100,000 rows have 50/100,000 alone; together the bias of 0.01 is more. So the large owner is
    paid its 3 a unit of epsilon, and without the option what the joint model costs it as well."""
    kept, plain = both_ways(budget_game([1000, 100_000], [200, 200], [("linear", 1.0), ("linear", 3.0)], bias=0.01))
    target = 0.01 + 1e-7
    deal, dear = (contracts(game, BOTH, target) for game in (kept, plain))
    assert deal.contract[1] == pytest.approx(3 * deal.epsilon[1])
    loss = 50 / 101_000 + 0.01 + NOISE * np.sum(dear.epsilon**-2.0) / 101_000**2 - 50 / 100_000
    assert dear.contract[1] == pytest.approx(3 * dear.epsilon[1] + 200 * loss)
    assert deal.spend < dear.spend
    assert largest_gain(kept, deal) < 1e-9
    short = plain.payoffs(deal.epsilon, BOTH) + deal.contract
    assert short[1] < -1  # the same money would not hold where it must use the joint model


def test_a_lift_pays_for_privacy_and_not_for_a_worse_model():
    """By hand, one noise: at the common epsilon sqrt(800/1e-6)/101,000 the large owner gets its 3 a unit."""
    kept, plain = both_ways(weakest_link([1000, 100_000], [200, 200], [("linear", 1.0), ("linear", 3.0)], bias=0.01))
    common = np.sqrt(800 / 1e-6) / 101_000
    deal, dear = (common_deal(game, BOTH, common) for game in (kept, plain))
    assert deal.contract[1] == pytest.approx(3 * common)
    assert dear.contract[1] == pytest.approx(3 * common + 200 * (50 / 101_000 + 0.01 + 1e-6 - 50 / 100_000))
    assert largest_gain(kept, deal) < 1e-9
    cheapest = cheapest_lift(kept, 0.01 + 1e-6)
    assert cheapest.spend <= deal.spend + 1e-9
    assert cheapest.spend < cheapest_lift(plain, 0.01 + 1e-6).spend


@pytest.mark.parametrize("seed", range(4))
def test_contracts_hold_and_cost_no_more_than_those_for_all_who_must_use_the_joint_model(seed):
    kept, plain = both_ways(random_budget_game(seed))
    target = 2 * kept.fitness(np.full(kept.owners, 10.0), kept.everyone) + 1e-4
    deal = cheapest_contracts(kept, target)
    assert largest_gain(kept, deal) < 1e-6 * max(1.0, float(np.abs(deal.payoff).max()))
    assert deal.spend <= cheapest_contracts(plain, target).spend * (1 + 1e-6) + 1e-9
    link, hard = both_ways(random_weakest_link(seed))
    target = 2 * link.fitness(np.full(link.owners, 10.0), link.everyone) + 1e-6
    lifted = cheapest_lift(link, target)
    assert largest_gain(link, lifted) < 1e-6 * max(1.0, float(np.abs(lifted.payoff).max()))
    assert lifted.spend <= cheapest_lift(hard, target).spend * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_no_contracts_on_a_grid_are_cheaper(seed):
    """Two owners, the large one without use for the joint model: brute force over 250 x 250 budgets with the least
    payments that hold."""
    rng = np.random.default_rng(seed)
    rows = np.array([500.0, 40_000.0])
    game = budget_game(
        rows, rng.uniform(20, 300, 2), [("linear", float(w)) for w in rng.uniform(0.2, 2, 2)], bias=0.003, keep_own=True
    )
    target, n = 3 * game.fitness(np.full(2, 10.0), BOTH), rows.sum()
    grid = np.geomspace(*game.budget_range, 250)
    pairs = np.array(list(itertools.product(grid, grid)))
    noise = NOISE / pairs**2

    def payoff(epsilon, total):
        return game.value * np.maximum(50 / rows - 50 / n - 0.003 - total / n**2, 0.0) - game.privacy_cost(epsilon)

    here = payoff(pairs, noise.sum(axis=1, keepdims=True))
    others = noise[:, ::-1]
    best = np.max([payoff(np.full(2, each), others + NOISE / each**2) for each in grid[::5]], axis=0)
    paid = np.maximum(np.maximum(best, 0.0) - here, 0.0).sum(axis=1)
    brute = paid[0.003 + noise.sum(axis=1) / n**2 <= target].min()
    ours = contracts(game, BOTH, target).spend
    assert ours <= brute * (1 + 1e-3) + 1e-9
    assert ours >= 0.9 * brute - 1e-3


def test_at_a_price_owners_join_for_the_money_and_add_noise():
    """By hand: cost e^eps - 1 and a price of 2 make log 2 the best budget of whoever keeps its own model, as the large
    owner does."""
    game = budget_game(
        [500, 100_000], [2000, 2000], [("exponential", 1.0)] * 2, bias=0.01, noise_price=1000.0, keep_own=True
    )
    deal = free_deal(game, 2.0)
    assert deal.members.all()
    assert deal.epsilon[1] == pytest.approx(np.log(2), rel=1e-3)
    assert deal.payoff[1] == pytest.approx(2 * np.log(2) - 1, rel=1e-5)
    assert largest_gain(game, deal) < 1e-6
    assert game.gains(deal.epsilon, deal.members)[1] == 0
    assert not free_deal(replace(game, keep_own=False), 2.0).members.any()


@pytest.mark.parametrize("seed", range(12))
def test_at_any_price_nobody_gains_by_another_choice(seed):
    game = replace(random_budget_game(seed), keep_own=True)
    for price in (0.3, 3.0, 30.0):
        deal = free_deal(game, price)
        assert largest_gain(game, deal) < 1e-5 * max(1.0, float(np.abs(deal.payoff).max()))


@pytest.mark.parametrize("noise", [{}, {"privacy": {"noise": "shared"}, "hosts": ["a", "b", "c"]}])
def test_the_option_reaches_the_negotiation(noise):
    pilot = regression_table(3000, seed=9)
    pilot["y"] += 3 * np.random.default_rng(2).standard_normal(3000)
    terms = make_terms(
        300, 400, 60_000, privacy__clip=60.0, learning__horizon=20, learning__step=1.0, model__radius=60.0, **GAUSSIAN
    )
    each = {name: {"value": 10.0, "privacy_cost": {"kind": "linear", "weight": 0.01}} for name in "abc"}
    terms = terms.changed(owners=each, **noise)
    fitness = 1.5 * negotiate(terms, pilot, target=1e3).game.fitness(np.full(3, 10.0), np.ones(3, dtype=bool))
    kept, plain = (negotiate(terms, pilot, fitness, keep_own=keep) for keep in (True, False))
    assert (kept.to_json()["keep_own"], plain.to_json()["keep_own"]) == (True, False)
    assert all(owner.gain >= 0 for owner in kept.owners)
    assert kept.deal.spend <= plain.deal.spend * (1 + 1e-6) + 1e-9
