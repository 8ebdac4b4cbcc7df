"""Noise of a recipe's law, drawn by two hosts together: one number that neither knows, plus each host's own low part
(`mechanisms.tabled_recipe`).

Formal guarantee: the sum of both shares has the recipe's law and a second low part. Given everything that one host sees
while it follows the protocol, the sum less this host's low part has the recipe's law. (A host that departs from the
protocol can take the noise away: then only the other's low part is left.)

A place's 7 digits, a word of 64 and a sign are each the exclusive or of both hosts' random bits. The place and the word
draw a magnitude; 7 products with the sign follow, then 14 bits are added up as numbers.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from parley.privacy.mechanisms.exact_samplers import DrawWords, Words, random_words
from parley.privacy.mechanisms.tabled_recipe import TabledRecipe
from parley.privacy.sharing.circuits import TABLE_INPUTS, WORD_LANES, Builder, Circuit, Output, draw_from_table
from parley.privacy.sharing.pair import Pair
from parley.validate import whole

INPUTS = TABLE_INPUTS + 1  # planes: of the table, and the sign
BATCH_COORDINATES = 1 << 13  # coordinates drawn at a time: a message has less than the 4 MiB that any host takes


@dataclass(frozen=True)
class PairedPlan:
    """A recipe as two hosts' circuit, and the weights of its outputs."""

    circuit: Circuit
    weights: Words


def draw_paired(pair: Pair, recipe: TabledRecipe, size: int, words: DrawWords = random_words) -> Words:
    """Return this host's share of `size` independent numbers; both hosts call it alike. Its own low parts are drawn
    from `words`."""
    whole(size, "size")
    plan = make_paired_plan(recipe)
    try:
        batches = []
        for start in range(0, size, BATCH_COORDINATES):
            count = min(BATCH_COORDINATES, size - start)
            bits = pair.evaluate(plan.circuit, pair.random(INPUTS, -(-count // WORD_LANES)))
            batches.append(pair.weighted_sum(bits, plan.weights)[:count])
    except BaseException:
        pair.give_up()
        raise
    return np.concatenate(batches) + recipe.draw_low(size, words).view(np.uint64)


@lru_cache(maxsize=16)
def make_paired_plan(recipe: TabledRecipe) -> PairedPlan:
    """Return the circuit of a recipe for two hosts; it is public."""
    builder = Builder(INPUTS)
    outputs, weights = [], []
    for digit, magnitude in enumerate(draw_from_table(builder, recipe.top, 0)):
        outputs += [Output((magnitude,)), Output((builder.conjunction(INPUTS - 1, magnitude),))]
        weights += [recipe.recipe.top << digit, -(recipe.recipe.top << digit + 1)]
    return PairedPlan(builder.build(outputs), np.array([w % 2**WORD_LANES for w in weights], dtype=np.uint64))
