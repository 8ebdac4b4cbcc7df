"""Whether a table's keys rise strictly from row to row, so that none comes twice: one bit, from the shares alone.

Tags cannot be asked for this. Once they are open beside those of other tables, a tag that stands twice in one table
names a person whom its owner chose, and shows whether others hold that person. So keys are compared before that: a key
x is below y if y + (2^128 - 1 - x) needs one more digit. It takes less than a tenth of an encryption's ANDs.
"""

from functools import lru_cache

import numpy as np

from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.sharing.bounds import all_lanes, public
from parley.privacy.sharing.circuits import WORD_LANES, Builder, Circuit, Output, carry, evaluate
from parley.privacy.sharing.conversion import planes_of
from parley.privacy.sharing.matching.keyed_rows import KEY_WORDS
from parley.privacy.sharing.matching.packed_rows import RefusedTableError
from parley.privacy.sharing.party import Party
from parley.privacy.sharing.ring import Replicated

KEY_DIGITS = KEY_WORDS * WORD_LANES
BATCH_WORDS = 1 << 10  # words of 64 pairs of rows that are compared at a time, for memory's sake


class RepeatedKeysError(RefusedTableError):
    """A table holds a key twice, or its rows are in another order."""

    def __init__(self, table: int) -> None:
        super().__init__(
            table,
            "a key comes twice, or rows are not in the order of their keys, so nothing was matched; its owner must "
            "give each person one row",
        )


def require_rising_keys(party: Party, rows: Replicated, table: int) -> None:
    """Refuse a table of packed rows unless each row's key is larger than that of the row before.

    Formal guarantee: exact, for whatever an owner shared. The hosts learn this one bit, a function of this table.
    """
    keys = rows[:, :KEY_WORDS]
    if len(keys.first) > 1 and not party.reveal(_all_rise(party, keys))[0] & np.uint64(1):
        raise RepeatedKeysError(table)


def _all_rise(party: Party, keys: Replicated) -> Replicated:
    """Return in the first lane of [1] whether the keys [n, 2] rise."""
    below, above = (part.map(_key_planes) for part in (keys[:-1], keys[1:]))
    inputs, parts = Replicated.concatenate([below, above]), []
    for start in range(0, inputs.first.shape[1], BATCH_WORDS):
        parts.append(evaluate(party, _below(), inputs[:, start : start + BATCH_WORDS]))
    rising = Replicated.concatenate(parts, axis=1)
    return all_lanes(party, rising ^ public(party, _unused_lanes(len(keys.first) - 1)))


def _key_planes(keys: Words) -> Words:
    """Return the planes [128, words] of keys [n, 2], the lowest digit first; the first word counts most."""
    return np.concatenate([planes_of(np.ascontiguousarray(word)) for word in keys.T[::-1]])


def _unused_lanes(lanes: int) -> Words:
    """Return a plane [1, words] with a 1 in the lanes after the first `lanes`, which hold two keys of 0."""
    words = -(-lanes // WORD_LANES)
    plane = np.zeros((1, words), dtype=np.uint64)
    if used := lanes % WORD_LANES:
        plane[0, -1] = 2**WORD_LANES - 2**used
    return plane


@lru_cache(maxsize=1)
def _below() -> Circuit:
    """Inputs: the digits of two keys, the lowest first; output: whether the first is below the second."""
    builder = Builder(2 * KEY_DIGITS)
    flipped = [builder.parity(wire, flip=True) for wire in range(KEY_DIGITS)]
    return builder.build([Output((carry(builder, range(KEY_DIGITS, 2 * KEY_DIGITS)[::-1], flipped[::-1]),))])
