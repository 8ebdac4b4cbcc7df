"""AES-128 on shared blocks under a shared key. The linear steps need no message; an S-box takes 36 ANDs in 4 rounds.

A byte is inverted in a tower of fields: x = a Y + b with a and b of four bits, each of them c Z + d, c and d of two.
Y^2 = Y + nu and Z^2 = Z + 2 make (a Y + b)^-1 = (a Y + a + b)/D with D = a^2 nu + a b + b^2; likewise for Z. So a
multiplication of two bits takes 3 ANDs, of four bits 9, and an inversion of eight bits three of those and 9 more.
Squares and multiples are linear. `_basis` finds how AES's bytes are written in the tower.

State and keys are planes [8 digits, 16 bytes, words]: byte 4 c + r stands in column c and row r.
"""

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.sharing.bounds import public
from parley.privacy.sharing.circuits import WORD_LANES, Builder, Circuit, Output, Wire, evaluate
from parley.privacy.sharing.conversion import planes_of, unpack_bits
from parley.privacy.sharing.party import Party
from parley.privacy.sharing.ring import Replicated

BYTES, DIGITS, ROUNDS = 16, 8, 10  # of a block and its key, of a byte, and of AES-128
BATCH_WORDS = 1 << 10  # words of 64 blocks that are encrypted at a time, for memory's sake
_POLYNOMIAL, _AFFINE = 0x11B, 0x63  # of AES's bytes, and what its S-box adds
_NU = 8  # Y^2 + Y + nu has no root among the sixteen

Number = list[Wire | None]  # digits, lowest first; None is 0


def encrypt(party: Party, blocks: Replicated, key: Replicated) -> Replicated:
    """Return shares of the encrypted blocks [n, 2] from shares of the blocks and of the key [2], in words of which byte
    0 is the lowest; all hosts call it alike.

    Formal guarantee: as for `Party.conjunction`.
    """
    keys = _round_keys(party, key)
    rows, parts = len(blocks.first), []
    for start in range(0, rows, BATCH_WORDS * WORD_LANES):
        part = blocks[start : start + BATCH_WORDS * WORD_LANES]
        state = _encrypt_planes(party, part.map(_to_planes), keys)
        parts.append(state.map(partial(_from_planes, size=len(part.first))))
    return Replicated.concatenate(parts) if parts else blocks


def _encrypt_planes(party: Party, state: Replicated, keys: Sequence[Replicated]) -> Replicated:
    state = _added(state, keys[0])
    for number in range(1, ROUNDS + 1):
        state = _substituted(party, state).map(_rows_shifted)
        if number < ROUNDS:
            state = state.map(_columns_mixed)
        state = _added(state, keys[number])
    return state


def _round_keys(party: Party, key: Replicated) -> list[Replicated]:
    """Return the round keys as planes [8, 16, 1], each digit in all 64 lanes."""
    first = key.map(lambda words: _in_all_lanes(_to_planes(words.reshape(1, 2))))
    keys, constant = [first], 1
    for _ in range(ROUNDS):
        last = keys[-1].map(lambda planes: planes.reshape(DIGITS, 4, 4, 1))
        turned = _substituted(party, last[:, 3].map(lambda word: np.roll(word, -1, axis=1)))
        column = turned ^ public(party, _constant_planes(constant))
        columns = []
        for number in range(4):
            column = column ^ last[:, number]
            columns.append(column.map(lambda word: word[:, None]))
        keys.append(Replicated.concatenate(columns, axis=1).map(lambda planes: planes.reshape(DIGITS, BYTES, 1)))
        constant = _times(constant, 2, _POLYNOMIAL)
    return keys


def _added(state: Replicated, key: Replicated) -> Replicated:
    return Replicated(state.first ^ key.first, state.second ^ key.second)


def _substituted(party: Party, state: Replicated) -> Replicated:
    """Return the S-box of each byte, of planes [8, ...]."""
    shape = state.first.shape
    return evaluate(party, substitution(), state.map(lambda planes: planes.reshape(DIGITS, -1))).map(
        lambda planes: planes.reshape(shape)
    )


def _rows_shifted(state: Words) -> Words:
    square = state.reshape(DIGITS, 4, 4, -1)
    return np.stack([np.roll(square[:, :, row], -row, axis=1) for row in range(4)], axis=2).reshape(state.shape)


def _columns_mixed(state: Words) -> Words:
    square = state.reshape(DIGITS, 4, 4, -1)
    below = np.roll(square, -1, axis=2)
    others = below ^ np.roll(square, -2, axis=2) ^ np.roll(square, -3, axis=2)
    return (_doubled(square ^ below) ^ others).reshape(state.shape)


def _doubled(planes: Words) -> Words:
    """Return twice each byte, in AES's field."""
    made = np.roll(planes, 1, axis=0)
    for digit in range(1, DIGITS):
        if _POLYNOMIAL >> digit & 1:
            made[digit] ^= planes[7]
    return made


def _constant_planes(byte: int) -> Words:
    """Return the planes [8, 4, 1] of a word whose first byte is this one."""
    planes = np.zeros((DIGITS, 4, 1), dtype=np.uint64)
    for digit in range(DIGITS):
        planes[digit, 0] = -(byte >> digit & 1) % 2**WORD_LANES
    return planes


def _to_planes(blocks: Words) -> Words:
    """Return planes [8, 16, words] of blocks [n, 2]."""
    halves = [planes_of(np.ascontiguousarray(half)).reshape(8, DIGITS, -1) for half in blocks.T]
    return np.ascontiguousarray(np.concatenate(halves).transpose(1, 0, 2))


def _from_planes(planes: Words, size: int) -> Words:
    """Return the first `size` blocks [n, 2] of planes."""
    bits = unpack_bits(planes, size)  # [8, 16, n]
    packed = np.packbits(np.ascontiguousarray(bits.transpose(2, 1, 0)), axis=2, bitorder="little").reshape(size, BYTES)
    return packed.view("<u8").astype(np.uint64, copy=False)


def _in_all_lanes(planes: Words) -> Words:
    """Return the first lane's bits in all lanes."""
    return -(planes & np.uint64(1))


@lru_cache(maxsize=1)
def substitution() -> Circuit:
    """Return AES's S-box: eight planes in and out, lowest digit first."""
    builder = Builder(DIGITS)
    into, back = _basis()
    x = [_parity(builder, [wire for wire in range(DIGITS) if into[digit] >> wire & 1]) for digit in range(DIGITS)]
    inverse = _inverse(builder, x, _NU)
    outputs = []
    for digit in range(DIGITS):  # the affine step adds five digits of the inverse
        mask = 0
        for turn in range(5):
            mask ^= back[(digit - turn) % DIGITS]
        wires = [wire for place, wire in enumerate(inverse) if mask >> place & 1 and wire is not None]
        outputs.append(Output(tuple(wires), flip=bool(_AFFINE >> digit & 1)))
    return builder.build(outputs)


def _inverse(builder: Builder, x: Number, constant: int) -> Number:
    """Return 1/x (0 for 0) of 8, 4 or 2 digits; with two, it is the square."""
    if len(x) == 2:
        return _square(builder, x)
    half = len(x) // 2
    b, a = x[:half], x[half:]
    divisor = _sum(
        builder, _scaled(builder, _square(builder, a), constant), _product(builder, a, b), _square(builder, b)
    )
    inverted = _inverse(builder, divisor, 2)
    return [*_product(builder, _sum(builder, a, b), inverted), *_product(builder, a, inverted)]


def _product(builder: Builder, x: Number, y: Number) -> Number:
    """Return the product in the tower's field of as many digits: three products of half as many."""
    if len(x) == 1:
        return [None if x[0] is None or y[0] is None else builder.conjunction(x[0], y[0])]
    half = len(x) // 2
    low, high = _product(builder, x[:half], y[:half]), _product(builder, x[half:], y[half:])
    crossed = _product(builder, _sum(builder, x[:half], x[half:]), _sum(builder, y[:half], y[half:]))
    return [*_sum(builder, low, _scaled(builder, high, _modulus(len(x)))), *_sum(builder, crossed, low)]


def _square(builder: Builder, x: Number) -> Number:
    return _linear(builder, x, [_tower_times(1 << k, 1 << k, len(x)) for k in range(len(x))])


def _scaled(builder: Builder, x: Number, factor: int) -> Number:
    return _linear(builder, x, [_tower_times(1 << k, factor, len(x)) for k in range(len(x))])


def _linear(builder: Builder, x: Number, images: Sequence[int]) -> Number:
    """Return the image of x under the linear map that takes digit k to images[k]."""
    made: Number = []
    for digit in range(len(x)):
        made.append(
            _parity(
                builder,
                [wire for wire, image in zip(x, images, strict=True) if image >> digit & 1 and wire is not None],
            )
        )
    return made


def _sum(builder: Builder, *terms: Number) -> Number:
    return [_parity(builder, [wire for wire in wires if wire is not None]) for wires in zip(*terms, strict=True)]


def _parity(builder: Builder, wires: Sequence[Wire]) -> Wire | None:
    return builder.parity(*wires) if wires else None


def _modulus(digits: int) -> int:
    """Return what the square of the tower's last generator adds to it: Y^2 = Y + nu, Z^2 = Z + 2, X^2 = X + 1."""
    return {8: _NU, 4: 2, 2: 1}[digits]


def _tower_times(x: int, y: int, digits: int) -> int:
    """Return the product of two numbers of the tower, as numbers."""
    if digits == 1:
        return x & y
    half, low = digits // 2, (1 << digits // 2) - 1
    (a, b), (c, d) = (x >> half, x & low), (y >> half, y & low)
    top, bottom = _tower_times(a, c, half), _tower_times(b, d, half)
    crossed = _tower_times(a ^ b, c ^ d, half)
    return (crossed ^ bottom) << half | bottom ^ _tower_times(top, _modulus(digits), half)


def _times(x: int, y: int, polynomial: int) -> int:
    """Return the product of two polynomials of bits."""
    made = 0
    while y:
        made ^= x if y & 1 else 0
        x, y = x << 1, y >> 1
        x ^= polynomial if x >> DIGITS & 1 else 0
    return made


@lru_cache(maxsize=1)
def _basis() -> tuple[list[int], list[int]]:
    """Return which digits of AES's byte make each digit in the tower, and the other way round, as masks. The generator
    x of AES's field goes to a root of its polynomial in the tower."""
    for root in range(2, 1 << DIGITS):
        powers = [1]
        for _ in range(DIGITS):
            powers.append(_tower_times(powers[-1], root, DIGITS))
        total = 0
        for place, power in enumerate(powers):
            total ^= power if _POLYNOMIAL >> place & 1 else 0
        if total == 0:
            break
    into = np.array([[power >> digit & 1 for power in powers[:DIGITS]] for digit in range(DIGITS)])
    back = np.array([[_inverted(into)[digit, place] for place in range(DIGITS)] for digit in range(DIGITS)])
    return _masks(into), _masks(back)


def _inverted(matrix: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the inverse of a matrix of bits, by Gauss's elimination."""
    size = len(matrix)
    rows = np.concatenate([matrix, np.eye(size, dtype=matrix.dtype)], axis=1)
    for column in range(size):
        pivot = column + int(np.argmax(rows[column:, column]))
        rows[[column, pivot]] = rows[[pivot, column]]
        others = np.flatnonzero(rows[:, column])
        rows[others[others != column]] ^= rows[column]
    return rows[:, size:]


def _masks(matrix: NDArray[np.int64]) -> list[int]:
    return [sum(int(bit) << place for place, bit in enumerate(row)) for row in matrix]
