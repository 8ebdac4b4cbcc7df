"""Which rows a round is about: batches that all parties can work out, or draws that only the owner knows.

Rows are chosen by their places, never by what they hold: two neighbouring tables have the same batches.
"""

import hashlib
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]

PIECE = 1 << 20  # rows whose words are made at once


@lru_cache(maxsize=4)
def shuffled(rows: int, seed: int, owner: str, epoch: int) -> Places:
    """The places 0 to rows - 1 in the order of an epoch: sorted by words of SHAKE-256, so that every party shuffles
    alike.

    >>> sorted(shuffled(5, 0, "bank", 1).tolist())
    [0, 1, 2, 3, 4]
    """
    order = np.argsort(_words(f"{seed}/{owner}/{epoch}".encode(), rows), kind="stable").astype(np.int64)
    order.flags.writeable = False
    return order


def batch(order: Places, batches: int, number: int) -> Places:
    """Batch `number`, from 0, of so many: disjoint, all rows together, and of sizes that differ by at most one.

    >>> [batch(np.arange(5), 2, number).tolist() for number in range(2)]
    [[0, 1], [2, 3, 4]]
    """
    rows = len(order)
    return order[number * rows // batches : (number + 1) * rows // batches]


def largest_batch(rows: int, batches: int) -> int:
    """How many rows a batch has at most."""
    return -(-rows // batches)


def drawn(rows: int, seed: bytes, rate: float) -> Places:
    """Every place with this probability, independently (never more: rounded down to a multiple of 2^-64), in ascending
    order.

    Formal guarantee: so it is for whoever cannot tell SHAKE-256 of an unknown seed of 32 bytes from random words.
    """
    return np.flatnonzero(_words(seed, rows) < np.uint64(int(Fraction(rate) * 2**64)))


def _words(seed: bytes, size: int) -> NDArray[np.uint64]:
    """64-bit words that follow from the seed."""
    pieces = [
        hashlib.shake_256(len(seed).to_bytes(8, "little") + seed + start.to_bytes(8, "little")).digest(
            8 * min(PIECE, size - start)
        )
        for start in range(0, size, PIECE)
    ]
    return np.frombuffer(b"".join(pieces), dtype="<u8").astype(np.uint64)
