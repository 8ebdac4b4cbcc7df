"""Which shared vectors keep their bounds: a bit for each, and nothing else about it.

An owner's answer is shared, so nobody sees whether it is one that its rows could give. The hosts compute on the shares
whether each coordinate lies in its range, and whether the L1 norm, or the square of the L2 norm, is at most a limit.
All of it is exact, for any words that an owner may have shared: sums of squares are as wide as they need to be.

- The three shares are added up inside a circuit: a number of 64 digits, the highest of which is its sign.
- A number of h + 1 digits is compared with both ends of its range, which are public.
- Its square is a sum of products of digits. With sign s and lower digits L it is 2^2h s - 2^(h+1) s L + L^2; instead of
  -v for a digit v, 1 - v is added and the ones are taken off in the end.
- Sums over coordinates go on as two rows of digits: three rows become two by one AND a digit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from parley.errors import SettingError
from parley.privacy.events import Norm
from parley.privacy.mechanisms.exact_samplers import Integers, Words
from parley.privacy.sharing.circuits import (
    WORD_LANES,
    Builder,
    Circuit,
    Output,
    Wire,
    add_columns,
    carry,
    evaluate,
    two_rows,
)
from parley.privacy.sharing.conversion import planes_of
from parley.privacy.sharing.party import HOST_COUNT, Party
from parley.privacy.sharing.ring import Replicated

BATCH_WORDS = 1 << 9  # words of 64 coordinates that are checked at a time, for memory's sake
HALVES = tuple(np.uint64(lanes) for lanes in (32, 16, 8, 4, 2, 1))
MAX_DIGITS = 61  # of a coordinate, without its sign


@dataclass(frozen=True, eq=False)
class VectorBounds:
    """A vector's coordinates lie from `low` to `high` [size], and their absolute values (L1) or squares (L2) add up to
    at most `limit`."""

    low: Integers
    high: Integers
    norm: Norm
    limit: int

    @property
    def digits(self) -> int:
        """h: how many digits a coordinate within the range has at most, with one to spare."""
        return int(max(abs(int(self.low.min())), abs(int(self.high.max()))) + 1).bit_length()

    def holds(self, words: Words) -> bool:
        """Return whether a vector keeps the bounds, in the clear."""
        values = [int(each) for each in words.view(np.int64)]
        inside = all(low <= v <= high for v, low, high in zip(values, self.low, self.high, strict=True))
        return inside and sum(abs(v) if self.norm == "l1" else v * v for v in values) <= self.limit


@dataclass(frozen=True)
class _Layout:
    """What the circuits of vectors of one size have in common: digits of a coordinate, and of a sum."""

    norm: Norm
    digits: int
    lanes: int

    @property
    def term_columns(self) -> int:
        return self.digits + 1 if self.norm == "l1" else 2 * self.digits + 2

    @property
    def columns(self) -> int:
        return self.term_columns + (self.lanes - 1).bit_length()

    @property
    def excess(self) -> int:
        """What the terms of all lanes have too much."""
        return 0 if self.norm == "l1" else self.lanes * ((1 << 2 * self.digits + 1) - (1 << self.digits + 1))


def find_kept_bounds(party: Party, vectors: Sequence[Replicated], bounds: Sequence[VectorBounds]) -> list[bool]:
    """Return which vectors, all of one size, keep their bounds; all three hosts call it alike.

    Formal guarantee: the hosts learn these bits. Whatever else they receive is uniform. With a `VerifiedParty` a host
    that departs from the protocol changes no bit: before bits are opened all ANDs are verified.
    """
    size = vectors[0].first.size
    words = -(-size // WORD_LANES)
    layout = _Layout(bounds[0].norm, max(each.digits for each in bounds), words * WORD_LANES)
    if layout.digits > MAX_DIGITS or len({each.norm for each in bounds}) > 1:
        raise SettingError("bounds: expected one norm, and ranges of at most 61 binary digits")
    try:
        inside, rows = _check_coordinates(party, vectors, bounds, layout)
        shape = len(vectors), words
        rows = _sum_lanes(party, rows.map(lambda side: side.reshape(2, layout.columns, *shape)))
        small = _compare_sums(party, layout, rows, [each.limit + layout.excess for each in bounds])
        kept = party.conjunction(small, all_lanes(party, inside.map(lambda side: side.reshape(shape))))
        return [bool(bit) for bit in party.reveal(kept.map(lambda side: side & np.uint64(1)))]
    except BaseException:
        party.give_up()
        raise


def _check_coordinates(
    party: Party, vectors: Sequence[Replicated], bounds: Sequence[VectorBounds], layout: _Layout
) -> tuple[Replicated, Replicated]:
    """Return (whether each coordinate is in its range [words], two rows of its term's digits [2, columns, words])."""
    circuit = _coordinate_circuit(layout.norm, layout.digits)
    inputs = Replicated.concatenate([share_planes(party, vectors, layout.lanes), _range_planes(party, bounds, layout)])
    parts = []
    for start in range(0, inputs.first.shape[1], BATCH_WORDS):
        at = slice(start, start + BATCH_WORDS)
        parts.append(evaluate(party, circuit, inputs[:, at]))
        party.verify()
    made = Replicated.concatenate(parts, axis=1)
    return made[0], made[1:].map(partial(_widened, layout=layout))


@lru_cache(maxsize=64)
def _coordinate_circuit(norm: Norm, digits: int) -> Circuit:
    """Inputs: 3 x 64 planes of shares, then the ends of the range (`_range_planes`), lowest digits first."""
    shares, width = HOST_COUNT * WORD_LANES, digits + 1
    builder = Builder(shares + 2 * width)
    summed = add_columns(builder, [range(k, shares, WORD_LANES) for k in range(WORD_LANES)])
    number = [wire for wire in summed if wire is not None]
    sign = number[-1]
    lower, flipped = number[:digits], builder.parity(sign, flip=True)
    value = [*lower, flipped]  # the number + 2^digits
    beyond, below = (range(shares + k * width, shares + (k + 1) * width) for k in (0, 1))
    checks = [builder.parity(wire, sign, flip=True) for wire in number[digits:-1]]
    checks.append(_carry(builder, beyond, [builder.parity(wire, flip=True) for wire in value]))
    checks.append(_carry(builder, value, below))
    rows = two_rows(builder, _term(builder, norm, lower, sign))
    outputs = [Output((builder.all_of(checks),))]
    for k in (0, 1):
        outputs += [Output((row[k],) if len(row) > k else ()) for row in rows]
    return builder.build(outputs)


def _term(builder: Builder, norm: Norm, lower: Sequence[Wire], sign: Wire) -> list[list[Wire]]:
    """Return the columns of a number's absolute value or square."""
    digits = len(lower)
    if norm == "l1":  # the flipped digits of a negative number are one less than its absolute value
        return [[builder.parity(wire, sign)] + [sign] * (k == 0) for k, wire in enumerate(lower)] + [[]]
    columns: list[list[Wire]] = [[] for _ in range(2 * digits + 2)]
    for i, wire in enumerate(lower):
        columns[2 * i].append(wire)
        columns[digits + 1 + i].append(builder.parity(builder.conjunction(wire, sign), flip=True))
        for j in range(i):
            columns[i + j + 1].append(builder.conjunction(lower[j], wire))
    columns[2 * digits].append(sign)
    return columns


def _carry(builder: Builder, a: Sequence[Wire], b: Sequence[Wire]) -> Wire:
    """Return whether a + b has one more digit; lowest digits first."""
    return carry(builder, list(a)[::-1], list(b)[::-1])


def share_planes(party: Party, vectors: Sequence[Replicated], lanes: int) -> Replicated:
    """Return shares of the planes of each of the three shares; share j alone knows them."""

    def padded(side: str) -> Words:
        made = np.zeros((len(vectors), lanes), dtype=np.uint64)
        for row, vector in zip(made, vectors, strict=True):
            row[: vector.first.size] = getattr(vector, side)
        return planes_of(made.reshape(-1))

    def placed(share: int, planes: Words) -> Words:
        made = np.zeros((HOST_COUNT, *planes.shape), dtype=np.uint64)
        made[share] = planes
        return made.reshape(-1, planes.shape[1])

    after = (party.index + 1) % HOST_COUNT
    return Replicated(placed(party.index, padded("first")), placed(after, padded("second")))


def _range_planes(party: Party, bounds: Sequence[VectorBounds], layout: _Layout) -> Replicated:
    """Return high + 1 and the flipped digits of low - 1, both + 2^digits; a lane without a coordinate may be 0."""
    width = layout.digits + 1
    ends = np.zeros((2, len(bounds), layout.lanes), dtype=np.int64)
    for number, each in enumerate(bounds):
        ends[0, number, : each.high.size], ends[1, number, : each.low.size] = each.high, each.low
    half, full = 1 << layout.digits, (1 << width) - 1
    beyond, below = (ends[0] + (half + 1)).reshape(-1), (full - (ends[1] + (half - 1))).reshape(-1)
    return public(party, np.concatenate([planes_of(each.view(np.uint64))[:width] for each in (beyond, below)]))


def public(party: Party, words: Words) -> Replicated:
    """Return shares of public words: share 0 has them."""
    nothing = np.zeros_like(words)
    return Replicated(words if party.index == 0 else nothing, words if party.index == HOST_COUNT - 1 else nothing)


def _widened(rows: Words, layout: _Layout) -> Words:
    """Return two rows of the terms' digits as rows of a sum's."""
    made = np.zeros((2, layout.columns, rows.shape[1]), dtype=np.uint64)
    made[:, : layout.term_columns] = rows.reshape(2, layout.term_columns, -1)
    return made


def _sum_lanes(party: Party, rows: Replicated) -> Replicated:
    """Add up rows [2, columns, vectors, words] over words and lanes: the first lane of [2, columns, vectors]."""
    many = rows.map(lambda side: side.transpose(0, 3, 1, 2).reshape(-1, side.shape[1], side.shape[2]))
    summed = _two_of(party, many)
    for lanes in HALVES:
        summed = _two_of(party, Replicated.concatenate([summed, summed.map(partial(_lanes_down, by=lanes))]))
    return summed


def _two_of(party: Party, rows: Replicated) -> Replicated:
    """Return two rows [2, columns, ...] with the sum of rows [n, columns, ...]."""
    while (third := len(rows.first) // 3) > 0:
        cuts = slice(third), slice(third, 2 * third), slice(2 * third, 3 * third), slice(3 * third, None)
        a, b, c, rest = (rows[at] for at in cuts)
        carries = (a ^ party.conjunction(a ^ b, a ^ c)).map(_shifted)
        rows = Replicated.concatenate([a ^ b ^ c, carries, rest])
    return rows


def _lanes_down(words: Words, by: np.uint64) -> Words:
    return words >> by


def _shifted(rows: Words) -> Words:
    """Return carries in the columns where they belong."""
    made = np.zeros_like(rows)
    made[:, 1:] = rows[:, :-1]
    return made


def _compare_sums(party: Party, layout: _Layout, rows: Replicated, limits: Sequence[int]) -> Replicated:
    """Return in the first lane of [vectors] whether the sum of two rows is at most the limit."""
    full = 1 << layout.columns
    limit = np.array([[min(each + 1, full - 1) >> k & 1 for each in limits] for k in range(layout.columns)], np.uint64)
    sums = rows.map(lambda side: side.reshape(2 * layout.columns, -1))
    inputs = Replicated.concatenate([sums, public(party, limit)])
    return evaluate(party, _limit_circuit(layout.columns), inputs)[0]


@lru_cache(maxsize=64)
def _limit_circuit(columns: int) -> Circuit:
    """Inputs: two rows of digits and those of the limit + 1; output: whether the rows' sum is below that."""
    builder = Builder(3 * columns)
    total = add_columns(builder, [(k, columns + k) for k in range(columns)])
    flipped = [builder.parity(wire, flip=True) for wire in total if wire is not None]
    return builder.build([Output((_carry(builder, range(2 * columns, 3 * columns), flipped),))])


def all_lanes(party: Party, bits: Replicated) -> Replicated:
    """Return in the first lane of [vectors] whether all bits of [vectors, words] are set."""
    while (half := bits.first.shape[1] // 2) > 0:
        cuts = slice(half), slice(half, 2 * half), slice(2 * half, None)
        left, right, rest = (bits[:, at] for at in cuts)
        bits = Replicated.concatenate([party.conjunction(left, right), rest], axis=1)
    bits = bits[:, 0]
    for lanes in HALVES:
        bits = party.conjunction(bits, bits.map(partial(_lanes_down, by=lanes)))
    return bits
