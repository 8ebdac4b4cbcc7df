"""Noise of a recipe's law, drawn by two hosts together: one number that neither knows, plus each host's own low part
(`mechanisms.paired_recipe`).

Formal guarantee: the sum of both shares has the recipe's law and a second low part. Given everything that one host sees
while it follows the protocol, the sum less this host's low part has the recipe's law. (A host that departs from the
protocol can take the noise away: then only the other's low part is left.)

A place's 7 digits, a word of 64 and a sign are each the exclusive or of both hosts' random bits. All products of the
place's digits make every function of the place an exclusive or: so the place chooses its threshold and its alias with
120 ANDs. One comparison, 7 choices and 7 products with the sign follow; then 14 bits are added up as numbers.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from parley.privacy.mechanisms.exact_samplers import DrawWords, Words, random_words
from parley.privacy.mechanisms.paired_recipe import INDEX_BITS, PLACES, PairedRecipe
from parley.privacy.sharing.circuits import WORD_LANES, Builder, Circuit, Output, Wire, carry
from parley.privacy.sharing.pair import Pair
from parley.validate import whole

INPUTS = INDEX_BITS + WORD_LANES + 1  # planes: the place's digits, the word's from the highest, the sign
BATCH_COORDINATES = 1 << 13  # coordinates drawn at a time: a message has less than the 4 MiB that any host takes


@dataclass(frozen=True)
class PairedPlan:
    """A paired recipe as a circuit, and the weights of its outputs."""

    circuit: Circuit
    weights: Words


def draw_paired(pair: Pair, recipe: PairedRecipe, size: int, words: DrawWords = random_words) -> Words:
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
def make_paired_plan(recipe: PairedRecipe) -> PairedPlan:
    """Return the circuit of a paired recipe; it is public."""
    builder = Builder(INPUTS)
    products = _products(builder)
    word, sign = range(INDEX_BITS, INDEX_BITS + WORD_LANES), INPUTS - 1
    threshold = [_function(builder, products, recipe.thresholds, WORD_LANES - 1 - k) for k in range(WORD_LANES)]
    accepted = _wire(builder, carry(builder, threshold, list(word)))
    outputs, weights = [], []
    for digit in range(INDEX_BITS):
        alias = _function(builder, products, recipe.aliases, digit)
        chosen = builder.conjunction(accepted, builder.parity(digit, alias))
        magnitude = builder.parity(alias, chosen)
        outputs += [Output((magnitude,)), Output((builder.conjunction(sign, magnitude),))]
        weights += [recipe.recipe.top << digit, -(recipe.recipe.top << digit + 1)]
    return PairedPlan(builder.build(outputs), np.array([w % 2**WORD_LANES for w in weights], dtype=np.uint64))


def _products(builder: Builder) -> list[Wire]:
    """Return the products of each set of the place's digits, a set by its bits; place 0 is not used."""
    made = [0] * PLACES
    for chosen in range(1, PLACES):
        digits = [digit for digit in range(INDEX_BITS) if chosen >> digit & 1]
        if len(digits) == 1:
            made[chosen] = digits[0]
            continue
        low = sum(1 << digit for digit in digits[: len(digits) // 2])
        made[chosen] = builder.conjunction(made[low], made[chosen ^ low])
    return made


def _function(builder: Builder, products: list[Wire], table: tuple[int, ...], digit: int) -> Wire:
    """Return bit `digit` of the table's entry at the place, as the exclusive or of products (its algebraic normal
    form)."""
    form = [entry >> digit & 1 for entry in table]
    for step in range(INDEX_BITS):
        form = [bit ^ form[place ^ 1 << step] if place >> step & 1 else bit for place, bit in enumerate(form)]
    terms = [products[chosen] for chosen in range(1, PLACES) if form[chosen]]
    if not terms:
        terms = [products[1], products[1]]  # 0
    return builder.parity(*terms, flip=bool(form[0]))


def _wire(builder: Builder, output: Output) -> Wire:
    return builder.parity(*output.wires, flip=output.flip)
