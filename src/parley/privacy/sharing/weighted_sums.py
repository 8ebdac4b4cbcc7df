"""Weighted sums of shared bits, modulo 2^64."""

import numpy as np
from numpy.typing import NDArray

from parley.privacy.mechanisms.random_words import Words
from parley.privacy.sharing.channel import HOSTS
from parley.privacy.sharing.party import Party
from parley.privacy.sharing.ring import Replicated


def lanes(planes: Words, size: int) -> NDArray[np.uint8]:
    """The bits of planes [..., words], a byte each: [..., size].

    >>> lanes(np.array([[5]], dtype=np.uint64), 4)
    array([[1, 0, 1, 0]], dtype=uint8)
    """
    flat = np.ascontiguousarray(planes, dtype="<u8").view(np.uint8)
    return np.unpackbits(flat, axis=-1, count=size, bitorder="little")


def weigh(bits: NDArray[np.uint8], weights: Words) -> Words:
    """The sums of weight times bit, modulo 2^64: bits [n, size]. Bits of equal weight are counted first, in bytes."""
    total = np.zeros(bits.shape[1], dtype=np.uint64)
    for weight in np.unique(weights):
        rows = np.flatnonzero(weights == weight)
        for start in range(0, rows.size, 255):
            total += weight * bits[rows[start : start + 255]].sum(axis=0, dtype=np.uint8)
    return total


def weighted_sum(party: Party, planes: Replicated, weights: Words, size: int) -> Words:
    """This host's part of sum over k of weights[k] bit_k, modulo 2^64,
    for each of `size` lanes; the bits are shared planes [n, words].

    One message. The bits are dealt out in turn: bit k's dealer, host i = k mod 3, alone knows u = share i xor share
    i + 1; the two others know c = share i + 2, and bit = u xor c = c + u (1 - 2 c), linear in u. The dealer splits u
    into d (sent to host i + 1) and m (a stream that it has in common with host i - 1), whereupon host i + 1 computes
    c + d (1 - 2 c) and host i - 1 m (1 - 2 c).

    Formal guarantee: d is uniform to host i + 1, which lacks the stream m; host i - 1 and the dealer receive nothing.
    The parts are not yet fit to be shown to anybody: `Party.complete` them with a part of zero.
    """
    rows = [slice(i, None, HOSTS) for i in range(HOSTS)]
    counts = [len(range(i, len(weights), HOSTS)) for i in range(HOSTS)]
    mine, before, after = party.index, party.before, party.next
    secret = lanes(planes.first[rows[mine]] ^ planes.second[rows[mine]], size).astype(np.uint64)
    mask, sent = party.deal(secret, (counts[after], size), (counts[before], size))
    held = lanes(planes.first[rows[after]], size).astype(np.uint64)  # c of the next host's bits is share (i + 1) + 2
    # c of the bits of the host before is share (i - 1) + 2
    known = lanes(planes.second[rows[before]], size).astype(np.uint64)
    mask = (mask ^ -held) + held  # m (1 - 2 c), as -m is ~m + 1
    sent = (sent ^ -known) + known + known  # c + d (1 - 2 c)
    return weights[rows[after]] @ mask + weights[rows[before]] @ sent
