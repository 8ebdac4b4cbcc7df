"""Two hosts draw one noise: its law and its arithmetic."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from noise_laws import p_value, whole_law
from two_hosts import LAWS, WIDE, drawn_by, in_the_clear, opened

from parley.privacy.mechanisms.tabled_recipe import PLACE_BITS, PLACES, AliasTable
from parley.privacy.sharing import pair as pair_module
from parley.privacy.sharing import paired_noise
from parley.privacy.sharing.paired_noise import make_paired_plan


@pytest.mark.parametrize("recipe", LAWS, ids=["laplace", "gaussian"])
def test_draws_through_the_protocol_have_the_law(recipe):
    drawn = opened(recipe, 20_000)
    assert p_value(drawn, *whole_law(recipe)) > 1e-3
    error = np.sqrt(5 / drawn.size)
    due = recipe.recipe.variance + recipe.recipe.low_variance
    assert abs(np.mean(drawn.astype(float) ** 2) / due - 1) < 6 * error


def test_wrong_tables_are_told():
    recipe = LAWS[0]
    for mutant in (
        dataclasses.replace(recipe, top=AliasTable((0,) * PLACES, recipe.top.aliases)),
        dataclasses.replace(recipe, top=AliasTable(recipe.top.thresholds, (0,) * PLACES)),
        dataclasses.replace(recipe, recipe=dataclasses.replace(recipe.recipe, exponent=2)),
    ):
        assert p_value(opened(mutant, 20_000), *whole_law(recipe)) < 1e-6


@pytest.mark.parametrize("recipe", WIDE, ids=[f"{each.recipe.law}-{each.recipe.exponent}" for each in WIDE])
def test_the_protocol_computes_the_definition(recipe):
    seeds = ("one", "other")
    first, second = drawn_by(seeds, recipe, 3_500)
    assert (first + second).view(np.int64).tolist() == in_the_clear(seeds, recipe, 3_500).tolist()


def test_the_circuit_is_small_and_no_message_is_too_long():
    gates = {make_paired_plan(recipe).circuit.gates for recipe in WIDE}
    assert gates <= set(range(300, 320))
    depths = {len(make_paired_plan(recipe).circuit.rounds) for recipe in WIDE}
    assert max(depths) <= 13
    lanes = paired_noise.BATCH_COORDINATES // 64
    assert 128 * 8 * max(pair_module.PIECE_WORDS, 2 * PLACE_BITS * lanes) < 1 << 22  # columns of transfers
    assert 8 * 64 * 2 * PLACE_BITS * lanes < 1 << 22  # what is sent for sums
    widest = max(step.left.size for recipe in WIDE for step in make_paired_plan(recipe).circuit.rounds)
    assert 2 * 8 * widest * lanes < 1 << 22
    assert all(a < b for a, b in pairwise(sorted(recipe.recipe.distance for recipe in WIDE)) if a != b)
    assert all(recipe.recipe.distance < 2**-58 for recipe in WIDE)
