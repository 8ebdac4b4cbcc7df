"""Noise of a recipe's law, drawn by three hosts together and known to none of them.

Formal guarantee: the sum of the three shares has the recipe's law, also given everything that one host sees: its two
keys and what it receives. Each random word is the exclusive or of three streams, one of them of the key that this host
lacks, and what it receives is masked by further words of that key. Two hosts together have all keys: they can compute
the number.

- A word and a threshold: a comparison in six rounds of ANDs, everybody's at once (`circuits`).
- The ladder: c_1 >= c_2 >= ... say whether one word is below the descending thresholds. Digit j of their number T is
  the exclusive or of c_(m 2^j), m = 1, 2, ...; with a fair sign s and J digits, (1 - 2 s) T is the sum of 2^j (digit j
  xor s), less (2^J - 1) s. No gate is needed.
- Fair bits of weights w, 2 w, 4 w, ..., L of them, are w times a uniform number below 2^L: u + c modulo 2^L, with u
  known to host 0 only and c to hosts 1 and 2 only. That is u + c less 2^L times the carry: one bit to convert, not L.
- Bits become a sum with two messages: `weighted_sum`, and the one that makes the shares replicated.
"""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.shared_noise import Recipe
from parley.privacy.sharing.circuits import WORD_LANES, Builder, Circuit, Output, below, carry, evaluate
from parley.privacy.sharing.party import HOST_COUNT, Party
from parley.privacy.sharing.ring import Replicated
from parley.validate import whole

BATCH_COORDINATES = 1 << 14  # coordinates drawn at a time, for memory's sake


@dataclass(frozen=True)
class Plan:
    """A recipe as a circuit: random planes for words, sign and fair bits in; bits out, to be weighed."""

    circuit: Circuit
    plain: int  # planes of words and sign; those of the fair bits follow, once for u and once for c
    fair: Words  # their weights
    weights: Words  # of the circuit's outputs
    offset: int


def draw(party: Party, recipe: Recipe, size: int) -> Replicated:
    """Return this host's two shares of `size` independent numbers of the recipe's law; all hosts call it alike."""
    whole(size, "size")
    plan = make_plan(recipe)
    try:
        batches = [
            _batch(party, plan, min(BATCH_COORDINATES, size - start)) for start in range(0, size, BATCH_COORDINATES)
        ]
    except BaseException:
        party.give_up()
        raise
    return Replicated(np.concatenate([b.first for b in batches]), np.concatenate([b.second for b in batches]))


def _batch(party: Party, plan: Plan, size: int) -> Replicated:
    drawn = party.random(plan.plain + plan.fair.size, -(-size // WORD_LANES))
    bits = evaluate(party, plan.circuit, _split(party, plan, drawn))
    part = weighted_sum(party, bits, plan.weights, size)
    fair = Replicated(drawn.first[plan.plain :], drawn.second[plan.plain :])
    if party.index == 0:
        part += sum_weighted_bits(unpack_bits(fair.first ^ fair.second, size), plan.fair)  # u
        part += np.uint64(plan.offset % 2**WORD_LANES)
    elif party.index == 1:
        part += sum_weighted_bits(unpack_bits(fair.second, size), plan.fair)  # c
    return party.complete(part + party.zero_words(size))


def _split(party: Party, plan: Plan, drawn: Replicated) -> Replicated:
    """Return the fair bits twice: u has their shares 0 and 1, c has share 2."""

    def inputs(planes: Words, share: int) -> Words:
        fair = planes[plan.plain :]
        return np.concatenate(
            [planes, np.zeros_like(fair)] if share != 2 else [planes[: plan.plain], np.zeros_like(fair), fair]
        )

    return Replicated(inputs(drawn.first, party.index), inputs(drawn.second, (party.index + 1) % HOST_COUNT))


@lru_cache(maxsize=16)
def make_plan(recipe: Recipe) -> Plan:
    """Return the circuit of a recipe; it is public."""
    singles = [(t, w) for t, w in recipe.singles if 0 < t < 1 << WORD_LANES]
    chains = doubling_chains(recipe.fair)
    words, fair = len(singles) + bool(recipe.ladder), sum(length for _, length in chains)
    sign = words * WORD_LANES
    plain = sign + bool(recipe.ladder)
    builder = Builder(plain + 2 * fair)
    weighed = [(below(builder, range(k * WORD_LANES, (k + 1) * WORD_LANES), t), w) for k, (t, w) in enumerate(singles)]
    if recipe.ladder:
        weighed += _signed_ladder(builder, recipe, range(sign - WORD_LANES, sign), sign)
    u = plain
    for weight, length in chains:
        wrapped = carry(builder, range(u, u + length), range(u + fair, u + fair + length))
        weighed.append((wrapped, -weight << length))
        u += length
    return Plan(
        circuit=builder.build([output for output, _ in weighed]),
        plain=plain,
        fair=_ring([weight << i for weight, length in chains for i in range(length - 1, -1, -1)]),
        weights=_ring([weight for _, weight in weighed]),
        offset=recipe.offset + sum(w for t, w in recipe.singles if t >= 1 << WORD_LANES),
    )


def _signed_ladder(builder: Builder, recipe: Recipe, word: range, sign: int) -> list[tuple[Output, int]]:
    rungs = [below(builder, word, t) for t in sorted(recipe.ladder, reverse=True)]
    digits = len(rungs).bit_length()
    made = [(Output((sign,)), -recipe.step * (2**digits - 1))]
    for j in range(digits):
        chosen = rungs[2**j - 1 :: 2**j]
        output = Output((sign, *(w for rung in chosen for w in rung.wires)), sum(rung.flip for rung in chosen) % 2 == 1)
        made.append((output, recipe.step << j))
    return made


def doubling_chains(weights: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return weights as chains w, 2 w, 4 w, ...: (w, how many).

    >>> doubling_chains((1, 2, 4, 1, 2, 3))
    [(1, 3), (1, 2), (3, 1)]
    """
    left = Counter(weights)
    chains = []
    for weight in sorted(left, key=abs):
        while left[weight]:
            length = 0
            while weight and left[weight << length]:
                left[weight << length] -= 1
                length += 1
            if not length:
                break
            chains.append((weight, length))
    return chains


def unpack_bits(planes: Words, size: int) -> NDArray[np.uint8]:
    """Return the bits of planes [..., words], a byte each: [..., size].

    >>> unpack_bits(np.array([[5]], dtype=np.uint64), 4)
    array([[1, 0, 1, 0]], dtype=uint8)
    """
    flat = np.ascontiguousarray(planes, dtype="<u8").view(np.uint8)
    return np.unpackbits(flat, axis=-1, count=size, bitorder="little")


def sum_weighted_bits(bits: NDArray[np.uint8], weights: Words) -> Words:
    """Return sums of weight times bit [n, size], modulo 2^64; equal weights are counted first, in bytes."""
    total = np.zeros(bits.shape[1], dtype=np.uint64)
    for weight in np.unique(weights):
        rows = np.flatnonzero(weights == weight)
        for start in range(0, rows.size, 255):
            total += weight * bits[rows[start : start + 255]].sum(axis=0, dtype=np.uint8)
    return total


def weighted_sum(party: Party, planes: Replicated, weights: Words, size: int) -> Words:
    """Return this host's part of sum over k of weights[k] bit_k, modulo 2^64, for each of `size` lanes; the bits are
    shared planes [n, words].

    One message. Bit k's dealer, host i = k mod 3, alone knows u = share i xor share i + 1; the others know c = share i
    + 2, and bit = u xor c = c + u (1 - 2 c). The dealer splits u into d (sent to host i + 1) and m (a stream in common
    with host i - 1). Host i + 1 then computes c + d (1 - 2 c), and host i - 1 m (1 - 2 c).

    Formal guarantee: d is uniform to host i + 1, which lacks the stream m; host i - 1 and the dealer receive nothing.
    The parts must not be shown to anybody yet: `Party.complete` them with a part of zero.
    """
    rows = [slice(i, None, HOST_COUNT) for i in range(HOST_COUNT)]
    counts = [len(range(i, len(weights), HOST_COUNT)) for i in range(HOST_COUNT)]
    mine, before, after = party.index, party.before, party.next
    secret = unpack_bits(planes.first[rows[mine]] ^ planes.second[rows[mine]], size).astype(np.uint64)
    mask, sent = party.deal(secret, (counts[after], size), (counts[before], size))
    held = unpack_bits(planes.first[rows[after]], size).astype(
        np.uint64
    )  # c of the next host's bits is share (i + 1) + 2
    # c of the bits of the host before is share (i - 1) + 2
    known = unpack_bits(planes.second[rows[before]], size).astype(np.uint64)
    mask = (mask ^ -held) + held  # m (1 - 2 c), as -m is ~m + 1
    sent = (sent ^ -known) + known + known  # c + d (1 - 2 c)
    return weights[rows[after]] @ mask + weights[rows[before]] @ sent


def _ring(weights: list[int]) -> Words:
    return np.array([w % 2**WORD_LANES for w in weights], dtype=np.uint64)
