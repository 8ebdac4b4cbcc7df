"""Shared words as shared digits and back. A plane holds one digit of 64 numbers a word; digits are listed from the
lowest. Both ways are sums inside a circuit, so ANDs are all there is to verify."""

import numpy as np
from numpy.typing import NDArray

from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.sharing.circuits import WORD_LANES, Wire
from parley.privacy.sharing.party import HOST_COUNT, Party
from parley.privacy.sharing.ring import Replicated

MASK_PLANES = 2 * WORD_LANES  # planes of two masks


def mask_wires(start: Wire) -> tuple[range, range]:
    """Return the wires of the two masks' digits, if their planes follow from `start` on."""
    return range(start, start + WORD_LANES), range(start + WORD_LANES, start + MASK_PLANES)


def masked_inputs(party: Party, words: int) -> tuple[Replicated, Replicated]:
    """Return (masks [64, words], their planes as a circuit's inputs [128, words]). Of random shares, 1 and 2 are the
    masks: hosts 0 and 1 know the first, hosts 1 and 2 the second, and share 0 is not used."""
    masks = party.random(WORD_LANES, words)

    def inputs(share: int, own: Words) -> Words:
        nothing = np.zeros_like(own)
        return np.concatenate([own if share == number else nothing for number in (1, 2)])

    return masks, Replicated(inputs(party.index, masks.first), inputs((party.index + 1) % HOST_COUNT, masks.second))


def unmask(party: Party, digits: Replicated, masks: Replicated, size: int, offset: int = 0) -> Replicated:
    """Return shares, as words, of the first `size` numbers plus `offset`, from digits of number + both masks.

    Formal guarantee: the ANDs are verified first. Hosts 0 and 2 get the sum, which is uniform to either, since it
    lacks one mask; host 1 gets nothing.
    """
    party.verify()
    revealed = party.reveal_to_holders(digits)

    def share(number: int, own: Words) -> Words:
        if number or revealed is None:
            return -words_of(own, size)
        return words_of(revealed, size) + np.uint64(offset % 2**WORD_LANES)

    return Replicated(share(party.index, masks.first), share((party.index + 1) % HOST_COUNT, masks.second))


def words_of(planes: Words, size: int) -> Words:
    """Return the first `size` numbers whose digits lie in planes [64, words], lowest first."""
    return pack_bits(unpack_bits(planes, size).T).reshape(-1)


def planes_of(words: Words) -> Words:
    """Return the planes [64, words] of numbers' digits, lowest first; the last word is filled up with zeros.

    >>> planes_of(np.array([5, 1], dtype=np.uint64))[:3, 0].tolist()
    [3, 0, 1]
    """
    lanes = np.zeros(-(-words.size // WORD_LANES) * WORD_LANES, dtype="<u8")
    lanes[: words.size] = words
    return pack_bits(unpack_bits(lanes.reshape(-1, 1), WORD_LANES).T)


def unpack_bits(planes: Words, size: int) -> NDArray[np.uint8]:
    """Return the bits of planes [..., words], a byte each: [..., size].

    >>> unpack_bits(np.array([[5]], dtype=np.uint64), 4)
    array([[1, 0, 1, 0]], dtype=uint8)
    """
    flat = np.ascontiguousarray(planes, dtype="<u8").view(np.uint8)
    return np.unpackbits(flat, axis=-1, count=size, bitorder="little")


def pack_bits(bits: NDArray[np.uint8], width: int | None = None) -> Words:
    """Return rows of bits, a byte each, as words, the last filled up with zeros: as many as it takes, or `width`."""
    width = -(-bits.shape[1] // WORD_LANES) if width is None else width
    packed = np.packbits(np.ascontiguousarray(bits), axis=1, bitorder="little")
    if packed.shape[1] != 8 * width:
        packed = np.pad(packed, ((0, 0), (0, 8 * width - packed.shape[1])))
    return np.ascontiguousarray(packed).view("<u8").astype(np.uint64, copy=False)
