"""What each owner would choose in the best company, and what it lacks."""

from dataclasses import replace

import numpy as np
import pytest
from game_samples import random_budget_game, random_weakest_link

from parley.decisions.games.wishes import wishes
from parley.decisions.knowledge.privacy_cost import PrivacyCosts


def scaled(game, by):
    costs = game.privacy_cost
    return replace(game, privacy_cost=PrivacyCosts({kind: by * weight for kind, weight in costs.weights.items()}))


@pytest.mark.parametrize("make", [random_budget_game, random_weakest_link])
def test_what_an_owner_lacks_is_what_its_payoff_lacks_in_that_company(make):
    """Where privacy is dear for all; a mutant that forgets the price, or the company, is off. No budget is worth more
    than no noise."""
    lacking = 0
    for seed in range(12):
        game = scaled(make(seed), 30.0)
        names = [f"o{place}" for place in range(game.owners)]
        found = wishes(game, names)
        members = np.array([wish.asked for wish in found])
        epsilon = np.array([wish.epsilon for wish in found])
        payoff = (
            game.joining(epsilon, epsilon, members) if make is random_budget_game else game.payoff(epsilon, members)
        )
        for place, wish in enumerate(found):
            assert wish.worth - wish.privacy_cost == pytest.approx(payoff[place], abs=1e-9)
            assert wish.short == pytest.approx(max(-payoff[place], 0.0), abs=1e-9)
            assert wish.worth == pytest.approx(wish.gain * game.value[place], abs=1e-12)
            assert wish.worth <= wish.most * (1 + 1e-9) + 1e-12
            assert 0 <= wish.bearable <= 1
            lacking += wish.short > 0
        assert members.sum() > 1
    assert lacking > 12


def test_privacy_that_costs_the_bearable_share_brings_an_owner_to_the_line():
    """At its budget it then gets nothing and lacks nothing; a tenth less, and it gains."""
    game = scaled(random_budget_game(3), 30.0)
    names = [f"o{place}" for place in range(game.owners)]
    for place, wish in enumerate(wishes(game, names)):
        if not 0 < wish.bearable < 1:
            continue
        cheaper = [
            scaled(game, share * wish.bearable).privacy_cost(np.full(game.owners, wish.epsilon))[place]
            for share in (1.0, 0.9)
        ]
        assert cheaper[0] == pytest.approx(wish.worth)
        assert cheaper[1] < wish.worth
