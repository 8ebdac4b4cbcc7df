"""Values of shared rows as words modulo 2^64, and whether each row keeps its owner's clip.

A value of h + 1 digits becomes three additive shares as noise does (`conversion`): hosts 0 and 2 see it plus two masks.
With one AND a digit the sum takes as many rounds as a word has digits, which many values share.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.sharing.bounds import all_lanes, share_planes
from parley.privacy.sharing.circuits import WORD_LANES, Builder, Circuit, Output, Wire, evaluate, two_rows
from parley.privacy.sharing.conversion import MASK_PLANES, mask_wires, masked_inputs, unmask
from parley.privacy.sharing.matching.packed_rows import RefusedTableError, TableShape, batches, planes_of_values
from parley.privacy.sharing.party import HOST_COUNT, Party
from parley.privacy.sharing.ring import Replicated


class LargeRowsError(RefusedTableError):
    """A row exceeds its owner's clip."""

    def __init__(self, table: int) -> None:
        super().__init__(table, "a row exceeds the clip, so nothing was matched; its owner must clip its rows")


def share_values(party: Party, rows: Replicated, shape: TableShape) -> Replicated:
    """Return shares, as words, of the values [n, columns] of shared packed rows."""
    rows_and_columns = len(rows.first), shape.columns
    parts = []
    for at in batches(*rows_and_columns) if shape.columns else []:
        planes = rows[at].map(lambda side: planes_of_values(side, shape))
        parts.append(share_numbers(party, planes, (at.stop - at.start) * shape.columns, signed=True))
    if not parts:
        return rows.map(lambda side: np.zeros(rows_and_columns, dtype=np.uint64))
    return Replicated.concatenate(parts).map(lambda side: side.reshape(rows_and_columns))


def share_numbers(party: Party, planes: Replicated, size: int, signed: bool) -> Replicated:
    """Return shares, as words, of the first `size` numbers whose digits are shared in planes [digits, words]."""
    digits = len(planes.first)
    masks, mask_planes = masked_inputs(party, planes.first.shape[1])
    made = evaluate(party, _masking(digits, signed), Replicated.concatenate([planes, mask_planes]))
    return unmask(party, made, masks, size, offset=-(1 << digits - 1) if signed else 0)


@lru_cache(maxsize=64)
def _masking(digits: int, signed: bool) -> Circuit:
    """Inputs: a number's digits, then those of two masks; outputs: the digits of their sum, which is 2^(digits - 1) too
    large if the number is signed."""
    builder = Builder(digits + MASK_PLANES)
    columns: list[list[Wire]] = [[] for _ in range(WORD_LANES)]
    for place in range(digits):
        flipped = signed and place == digits - 1
        columns[place].append(builder.parity(place, flip=True) if flipped else place)
    for mask in mask_wires(digits):
        for place, wire in enumerate(mask):
            columns[place].append(wire)
    return builder.build([Output((wire,)) for wire in _added_in_turn(builder, two_rows(builder, columns))])


def _added_in_turn(builder: Builder, rows: Sequence[Sequence[Wire]]) -> list[Wire]:
    """Return the digits of the sum of two numbers, each digit after the carry of the one below it."""
    digits, carries = list[Wire](), list[Wire]()
    for place, column in enumerate(rows):
        wires, carries = [*column, *carries], []
        if len(wires) > 1 and place + 1 < len(rows):
            digit, carry = builder.full_adder(*wires) if len(wires) == 3 else builder.half_adder(*wires)
            carries = [carry]
        else:
            digit = builder.parity(*wires)
        digits.append(digit)
    return digits


def require_small_rows(party: Party, values: Replicated, shape: TableShape, table: int) -> None:
    """Refuse a table of which a row's squares add up to more than `shape.largest_square`.

    Formal guarantee: exact, for whatever an owner shared: each square is at most 2^(2 digits), and all of a row's stay
    below 2^62. The hosts learn this one bit.
    """
    if not party.reveal(_all_small(party, values, shape))[0] & np.uint64(1):
        raise LargeRowsError(table)


def _all_small(party: Party, values: Replicated, shape: TableShape) -> Replicated:
    """Return in the first lane of [1] whether all rows are small."""
    norms = party.complete(_own_squares(values) + party.zero_words(len(values.first)))
    limit = np.uint64(shape.largest_square)
    room = Replicated(
        (limit if party.index == 0 else np.uint64(0)) - norms.first,
        (limit if party.index == HOST_COUNT - 1 else np.uint64(0)) - norms.second,
    )
    words = max(1, -(-len(values.first) // WORD_LANES))
    small = evaluate(party, _not_negative(), share_planes(party, [room], words * WORD_LANES))
    return all_lanes(party, small)


def _own_squares(values: Replicated) -> Words:
    """Return this host's part of the sum of each row's squares: the three products of it are (x_i + x_j)^2 - x_j^2."""
    both = values.first + values.second
    return np.asarray((both * both - values.second * values.second).sum(axis=1, dtype=np.uint64))


@lru_cache(maxsize=1)
def _not_negative() -> Circuit:
    """Inputs: the digits of three shares, lowest first; output: whether their sum's highest digit is 0."""
    builder = Builder(HOST_COUNT * WORD_LANES)
    rows = two_rows(builder, [range(place, HOST_COUNT * WORD_LANES, WORD_LANES) for place in range(WORD_LANES)])
    return builder.build([Output((_added_in_turn(builder, rows)[-1],), flip=True)])
