"""Noise of a recipe's law, drawn by three hosts together and known to none of them.

Formal guarantee: the sum of the three shares has the recipe's law, also given everything that one host sees: its two
keys and what it receives. Each random bit is the exclusive or of three streams, one of them of the key that this host
lacks, and what it receives is masked by further words of that key. Two hosts together have all keys: they can compute
the number. With a party that verifies its ANDs (`verified.VerifiedParty`), one host may do anything: the number has the
recipe's law, or no host gets a share.

A number is one sum of bits (`mechanisms.tabled_recipe`): the magnitude on top with its sign, uniform numbers or digits
from tables below it, and two words r1 and r2, of which hosts 0 and 1 know the first and hosts 1 and 2 the second. The
sum is revealed to hosts 0 and 2. It is share 0, -r1 is share 1 and -r2 is share 2. So ANDs are all there is to verify.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from parley.privacy.mechanisms.tabled_recipe import PLACE_BITS, TabledRecipe
from parley.privacy.sharing.circuits import (
    TABLE_INPUTS,
    WORD_LANES,
    Builder,
    Circuit,
    Output,
    Wire,
    add_columns,
    draw_from_table,
    evaluate,
)
from parley.privacy.sharing.conversion import MASK_PLANES, mask_wires, masked_inputs, unmask
from parley.privacy.sharing.party import Party
from parley.privacy.sharing.ring import Replicated
from parley.validate import whole

BATCH_COORDINATES = 1 << 12  # coordinates drawn at a time: a message has less than the 4 MiB that any host takes


@dataclass(frozen=True)
class NoisePlan:
    """A recipe as a circuit: random planes in, then those of the masks; the digits of number + masks out. `offset` is
    added to what they say."""

    circuit: Circuit
    drawn: int  # random planes
    offset: int


def draw(party: Party, recipe: TabledRecipe, size: int) -> Replicated:
    """Return this host's two shares of `size` independent numbers of the recipe's law; all hosts call it alike."""
    whole(size, "size")
    plan = make_noise_plan(recipe)
    try:
        batches = [
            _draw_batch(party, plan, min(BATCH_COORDINATES, size - start))
            for start in range(0, size, BATCH_COORDINATES)
        ]
    except BaseException:
        party.give_up()
        raise
    return Replicated.concatenate(batches)


def _draw_batch(party: Party, plan: NoisePlan, size: int) -> Replicated:
    words = -(-size // WORD_LANES)
    masks, planes = masked_inputs(party, words)
    drawn = party.random(plan.drawn, words)
    digits = evaluate(party, plan.circuit, Replicated.concatenate([drawn, planes]))
    return unmask(party, digits, masks, size, plan.offset)


@lru_cache(maxsize=16)
def make_noise_plan(recipe: TabledRecipe) -> NoisePlan:
    """Return the circuit of a recipe for three hosts; it is public."""
    exponent = recipe.recipe.top.bit_length() - 1
    tables, uniform = 1 + len(recipe.digits), recipe.uniforms * exponent
    sign = tables * TABLE_INPUTS
    drawn = sign + 1 + uniform
    builder = Builder(drawn + MASK_PLANES)
    columns: list[list[Wire]] = [[] for _ in range(WORD_LANES)]
    offset = recipe.recipe.offset + _add_signed(
        builder, columns, draw_from_table(builder, recipe.top, 0), sign, exponent
    )
    for number, each in enumerate(recipe.digits, start=1):
        digits = draw_from_table(builder, each.table, number * TABLE_INPUTS)[: each.bits]
        if each.subtracted:  # -v is the number of the flipped digits, less 2^bits - 1
            digits = [builder.parity(digit, flip=True) for digit in digits]
            offset -= (1 << each.bits + each.exponent) - (1 << each.exponent)
        _add(columns, digits, each.exponent)
    for number in range(recipe.uniforms):
        _add(columns, range(sign + 1 + number * exponent, sign + 1 + (number + 1) * exponent), 0)
    for mask in mask_wires(drawn):
        _add(columns, mask, 0)
    outputs = [Output(() if wire is None else (wire,)) for wire in add_columns(builder, columns)]
    return NoisePlan(builder.build(outputs), drawn, offset)


def _add_signed(builder: Builder, columns: list[list[Wire]], magnitude: list[Wire], sign: Wire, exponent: int) -> int:
    """Add the magnitude, or less it if the sign is 1, times 2^exponent; return what is to be added, besides.

    With m the magnitude, s the sign and J digits, (1 - 2 s) m = (m xor s...s) + s + 2^J (1 - s) - 2^J.
    """
    _add(columns, [builder.parity(digit, sign) for digit in magnitude], exponent)
    columns[exponent].append(sign)
    _add(columns, [builder.parity(sign, flip=True)], exponent + PLACE_BITS)
    return -(1 << exponent + PLACE_BITS)


def _add(columns: list[list[Wire]], digits: Iterable[Wire], exponent: int) -> None:
    """Put digits, lowest first, into the columns from 2^exponent on."""
    for place, digit in enumerate(digits):
        columns[exponent + place].append(digit)
