"""One host and the learner: they cannot take the one noise off again, unless one host drew it."""

import math

import numpy as np
import pytest
from every_kind import OTHERWISE
from mutants import shared_noise_drawn_by_one_host
from samples import make_terms

from parley.audit.host_view import audit_hosts, draw_together, guessed
from parley.privacy.mechanisms.recipe import make_recipe
from parley.privacy.sharing.party import Party
from parley.privacy.sharing.ring import Replicated
from parley.protocol.setup import resolve

HOSTED = OTHERWISE["one noise for all"]


@pytest.mark.parametrize(("mechanism", "least"), [("laplace", 0.2), ("gaussian", 0.0)])  # a delta so small needs more
def test_no_host_learns_more_than_is_claimed_and_the_attack_has_power(mechanism, least):
    found = audit_hosts(resolve(HOSTED.changed(privacy={"mechanism": mechanism})), "a", seed=1)
    assert [each.host for each in found] == ["a", "b", "h"]
    assert all(least <= each.lower_bound <= each.claimed_epsilon for each in found)
    assert found[0].to_json().keys() >= {"host", "guess", "claimed_epsilon", "delta", "lower_bound", "draws", "holds"}


def test_noise_that_one_host_drew_is_told():
    with shared_noise_drawn_by_one_host():
        found = audit_hosts(resolve(HOSTED), "a", draws=256, seed=1)
    assert [each.holds for each in found] == [False, True, True]
    assert (found[0].guess, found[0].lower_bound) == ("both of its shares", math.inf)
    assert found[0].to_json()["lower_bound"] is None


def test_noise_of_two_keys_is_told(monkeypatch):
    """Who has both can play the protocol through."""
    honest = Party.random

    def without_share_2(self, *shape):
        drawn = honest(self, *shape)
        none = np.zeros_like(drawn.first)
        return Replicated(none if self.index == 2 else drawn.first, none if self.index == 1 else drawn.second)

    monkeypatch.setattr(Party, "random", without_share_2)
    found = audit_hosts(resolve(HOSTED), "a", draws=256, seed=1)
    assert [each.holds for each in found] == [False, True, True]
    assert found[0].guess == "what the protocol gives with a key of its own"


def test_each_owners_own_noise_needs_no_host():
    assert audit_hosts(resolve(make_terms(40, learning__horizon=1)), "a") == []


def test_two_hosts_together_know_everything():
    keys = [bytes([place]) * 32 for place in range(3)]
    shares = draw_together(make_recipe("laplace", 3), keys, 8)
    again = draw_together(make_recipe("laplace", 3), keys, 8)
    assert np.array_equal(shares[0].first, again[0].first)
    assert len(guessed(make_recipe("laplace", 3), keys, 0, shares[0], keys[2])) == 5
