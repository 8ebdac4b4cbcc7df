"""Numbers drawn by public tables: their law, and that the tables are exact."""

import decimal

import numpy as np
import pytest
from noise_laws import law_of, low_law, p_value, whole_law
from two_hosts import LAWS

from parley.privacy.mechanisms import shared_noise
from parley.privacy.mechanisms import tabled_recipe as tabled_recipes
from parley.privacy.mechanisms.exact_samplers import SeededWords
from parley.privacy.mechanisms.shared_noise import Law, discrete_gaussian, draw_low_plainly
from parley.privacy.mechanisms.tabled_recipe import PLACES, AliasTable, tabled_recipe


@pytest.mark.parametrize("recipe", LAWS, ids=["laplace", "gaussian"])
def test_a_million_draws_in_the_clear_have_the_law(recipe):
    rng = np.random.default_rng(0)
    place, word = rng.integers(0, PLACES, 10**6), rng.integers(0, 2**64, 10**6, dtype=np.uint64)
    drawn = recipe.recipe.top * rng.choice([-1, 1], 10**6) * recipe.top.numbers(place, word)
    one_low = drawn + recipe.draw_low(10**6, SeededWords(b"low"))
    assert p_value(one_low, *law_of(recipe)) > 1e-3
    low = draw_low_plainly(recipe.recipe, (10**6,), rng)
    assert p_value(low, *low_law(recipe)) > 1e-3  # as studies draw it
    assert p_value(one_low + low, *whole_law(recipe)) > 1e-3
    assert p_value(drawn + 2 * low, *law_of(recipe)) < 1e-6
    assert np.abs(low).max() <= recipe.recipe.low_reach
    assert 0.9 < low.var() / recipe.recipe.low_variance < 1  # rounded up


def test_the_table_is_exact():
    """Every chance, added up in whole numbers, is the law's to 2^-70."""
    for chances in (tabled_recipes._gaussian_chances(), tabled_recipes._laplace_chances()):
        made = AliasTable.from_chances(chances)
        thresholds, aliases = made.thresholds, made.aliases
        found = [0] * PLACES
        for place, (threshold, alias) in enumerate(zip(thresholds, aliases, strict=True)):
            found[place] += threshold
            found[alias] += 2**64 - threshold
        assert sum(found) == PLACES * 2**64
        assert all(abs(int(chance * 2**71) - each) <= 1 for chance, each in zip(chances[1:], found[1:], strict=False))
        assert abs(int(chances[0] * 2**71) - found[0]) <= PLACES
        assert not any(found[len(chances) :])


@pytest.mark.parametrize("digits", [6, 12])
def test_tables_do_not_depend_on_the_precision_of_the_callers_decimals(digits):
    made = [tabled_recipe(law, 9) for law in Law]
    for cached in (tabled_recipe, shared_noise.laplace_recipe, shared_noise.gaussian_recipe, discrete_gaussian):
        cached.cache_clear()
    with decimal.localcontext(prec=digits):
        assert [tabled_recipe(law, 9) for law in Law] == made
