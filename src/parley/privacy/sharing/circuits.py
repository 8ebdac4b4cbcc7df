"""Circuits on shared bits. Exclusive or is free; a round of ANDs costs one message, a bit a gate and lane. A wire is a
row of words (a plane: one bit of each of 64 lanes a word). A `Builder` writes a circuit down once; `evaluate` runs it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from parley.errors import SettingError
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.shared_noise import WORD_BITS
from parley.privacy.mechanisms.tabled_recipe import PLACE_BITS, PLACES, AliasTable
from parley.privacy.sharing.party import HOST_COUNT, Party
from parley.privacy.sharing.ring import Replicated

WORD_LANES = 64  # lanes of a word
TABLE_INPUTS = PLACE_BITS + WORD_BITS  # planes of a table's place, lowest digit first, and word, highest first
Wire = int
Rows = NDArray[np.intp]

_ALL_LANES = np.uint64(2**WORD_LANES - 1)


@dataclass(frozen=True)
class Output:
    """The exclusive or of some wires, and of 1 if flipped."""

    wires: tuple[Wire, ...]
    flip: bool = False


@dataclass(frozen=True)
class _Sums:
    """Wires `start`, ... = exclusive or of the rows of `terms` [arity, wires]; those from `flipped` on are negated."""

    start: int
    terms: Rows
    flipped: int


@dataclass(frozen=True)
class Round:
    """Wires `start`, ... = left AND right, then the exclusive ors that they make possible."""

    start: int
    left: Rows
    right: Rows
    sums: tuple[_Sums, ...]


@dataclass(frozen=True)
class Circuit:
    """Rounds of gates between `inputs` planes and the outputs."""

    inputs: int
    wires: int
    rounds: tuple[Round, ...]
    outputs: Rows  # the terms of the first output, then those of the second, ...
    starts: Rows
    flipped: Rows

    @property
    def gates(self) -> int:
        """Number of ANDs: the bits that each host sends a lane."""
        return sum(r.left.size for r in self.rounds)


class Builder:
    """A circuit while it is written. Equal gates are made once."""

    def __init__(self, inputs: int) -> None:
        self._inputs = inputs
        self._gates: list[tuple[str, tuple[Wire, ...], bool]] = [("input", (), False)] * inputs
        self._depths = [0] * inputs
        self._known: dict[tuple[str, tuple[Wire, ...], bool], Wire] = {}

    def conjunction(self, a: Wire, b: Wire) -> Wire:
        """Return a AND b, one round after the later of them."""
        return self._add("and", (min(a, b), max(a, b)), False, 1 + max(self._depths[a], self._depths[b]))

    def parity(self, *terms: Wire, flip: bool = False) -> Wire:
        """Return the exclusive or of the terms, and of 1 if `flip`."""
        depth = max(self._depths[t] for t in terms)
        flat: set[Wire] = set()
        for t in terms:
            kind, inner, flipped = self._gates[t]
            # those of one round are made at once: none is a term of another
            nested = kind == "parity" and self._depths[t] == depth
            flat ^= set(inner) if nested else {t}
            flip ^= nested and flipped
        return self._add("parity", tuple(sorted(flat)), flip, depth)

    def full_adder(self, a: Wire, b: Wire, c: Wire) -> tuple[Wire, Wire]:
        """Return (sum, carry) of three digits, by one AND: the carry is a xor (a xor b)(a xor c)."""
        both = self.conjunction(self.parity(a, b), self.parity(a, c))
        return self.parity(a, b, c), self.parity(a, both)

    def all_of(self, wires: Sequence[Wire]) -> Wire:
        """Return the AND of all wires, by halves."""
        while len(wires) > 1:
            paired = [self.conjunction(wires[k], wires[k + 1]) for k in range(0, len(wires) - 1, 2)]
            wires = paired + list(wires[len(wires) - len(wires) % 2 :])
        return wires[0]

    def half_adder(self, a: Wire, b: Wire) -> tuple[Wire, Wire]:
        """Return (sum, carry) of two digits."""
        return self.parity(a, b), self.conjunction(a, b)

    def depth(self, wire: Wire) -> int:
        """Return how many rounds of ANDs a wire takes."""
        return self._depths[wire]

    def _add(self, kind: str, terms: tuple[Wire, ...], flip: bool, depth: int) -> Wire:
        gate = (kind, terms, flip)
        if gate not in self._known:
            self._known[gate] = len(self._gates)
            self._gates.append(gate)
            self._depths.append(depth)
        return self._known[gate]

    def build(self, outputs: Sequence[Output]) -> Circuit:
        """Return the circuit, its wires numbered in the order in which they become known."""
        place = {wire: wire for wire in range(self._inputs)}
        rounds = []
        made = range(self._inputs, len(self._gates))
        for depth in range(1 + max(self._depths, default=0)):
            now = [w for w in made if self._depths[w] == depth]
            ands = [w for w in now if self._gates[w][0] == "and"]
            start = len(place)
            place.update({w: start + k for k, w in enumerate(ands)})
            left, right = (_rows(place[self._gates[w][1][side]] for w in ands) for side in (0, 1))
            parities = [w for w in now if self._gates[w][0] == "parity"]
            sums = []
            for arity in sorted({len(self._gates[w][1]) for w in parities}):
                group = sorted(
                    (w for w in parities if len(self._gates[w][1]) == arity), key=lambda w: self._gates[w][2]
                )
                terms = np.array([[place[t] for t in self._gates[w][1]] for w in group], dtype=np.intp).T
                sums.append(_Sums(len(place), terms, sum(not self._gates[w][2] for w in group)))
                place.update({w: len(place) + k for k, w in enumerate(group)})
            rounds.append(Round(start, left, right, tuple(sums)))
        out = [[place[w] for w in o.wires] or [len(place)] for o in outputs]  # the last row is 0
        return Circuit(
            inputs=self._inputs,
            wires=len(place),
            rounds=tuple(rounds),
            outputs=_rows(t for group in out for t in group),
            starts=_rows(accumulate((len(group) for group in out[:-1]), initial=0)),
            flipped=_rows(k for k, o in enumerate(outputs) if o.flip),
        )


def _rows(numbers: Iterable[int]) -> Rows:
    return np.fromiter(numbers, dtype=np.intp)


def evaluate(party: Party, circuit: Circuit, inputs: Replicated) -> Replicated:
    """Return shares of the outputs' planes [outputs, words] from shares of the inputs' [inputs, words].

    Formal guarantee: as for `Party.conjunction`.
    """
    first, second = np.empty((2, circuit.wires + 1, inputs.first.shape[1]), dtype=np.uint64)
    first[: circuit.inputs], second[: circuit.inputs] = inputs.first, inputs.second
    flips = [(party.index + k) % HOST_COUNT == 0 for k in (0, 1)]
    return Replicated(*run_circuit(circuit, [first, second], flips, partial(_conjunctions, party)))


def run_circuit(
    circuit: Circuit,
    shares: Sequence[Words],
    flips: Sequence[bool],
    conjunctions: Callable[[Round, Sequence[Words]], None],
) -> list[Words]:
    """Return a host's shares of the outputs' planes. `shares` hold wires and one more row each, with the inputs in
    front; `conjunctions` fills in a round's ANDs. Who `flips` a share carries the ones of negations."""
    for share in shares:
        share[-1] = 0
    for step in circuit.rounds:
        if step.left.size:
            conjunctions(step, shares)
        for sums in step.sums:
            for share, flip in zip(shares, flips, strict=True):
                made = _exclusive_or(share, sums.terms)
                if flip:
                    made[sums.flipped :] ^= _ALL_LANES
                share[sums.start : sums.start + len(made)] = made
    return [_gather(circuit, share, flip) for share, flip in zip(shares, flips, strict=True)]


def _exclusive_or(share: Words, terms: Rows) -> Words:
    """Return the exclusive or of the rows that each column of `terms` names, in as few calls as it takes."""
    arity, wires = terms.shape
    if arity > wires:
        return np.stack([np.bitwise_xor.reduce(share[column], axis=0) for column in terms.T])
    made = np.zeros((wires, share.shape[1]), dtype=np.uint64)
    for row in terms:
        made ^= share[row]
    return made


@dataclass(frozen=True)
class _Digits:
    """Some digits of two numbers: whether the first is below the second, whether they are equal (None: never). Gates
    are made on demand, as the lowest digits never need `equal`."""

    below: Callable[[], Wire | None]
    equal: Callable[[], Wire | None]


def carry(builder: Builder, a: Sequence[Wire], b: Sequence[Wire]) -> Wire:
    """Return whether the sum of two numbers of equal length, most significant digit first, needs one more digit."""
    found = _join_all_digits(builder, [_adder(builder, x, y) for x, y in zip(a, b, strict=True)]).below()
    if found is None:
        raise SettingError("carry: expected numbers of at least one digit")
    return found


def add_columns(builder: Builder, columns: Sequence[Sequence[Wire]]) -> list[Wire | None]:
    """Return the digits of a sum, lowest first, modulo 2^columns; None is a digit that is always 0. Column k holds the
    wires of weight 2^k."""
    return _add_rows(builder, two_rows(builder, columns))


def two_rows(builder: Builder, columns: Sequence[Sequence[Wire]]) -> list[list[Wire]]:
    """Return columns with the same sum modulo 2^columns, at most two wires in each. By Dadda's tree no column waits for
    the carries of another of the same stage."""
    rows, heights = [list(column) for column in columns], [2]
    while heights[-1] < max(map(len, rows)):
        heights.append(heights[-1] * 3 // 2)
    for height in reversed(heights):
        carries = list[Wire]()
        for place, column in enumerate(rows):
            waiting, made = sorted(column, key=builder.depth), carries
            carries = []
            while (excess := len(waiting) + len(made) - height) > 0:
                used = 2 if excess == 1 else 3
                total, carry = builder.full_adder(*waiting[:3]) if used == 3 else builder.half_adder(*waiting[:2])
                waiting = waiting[used:]
                made.append(total)
                carries.append(carry)
            rows[place] = waiting + made
    return rows


def _add_rows(builder: Builder, rows: Sequence[Sequence[Wire]]) -> list[Wire | None]:
    """Return the digits of the sum of two numbers, at most two wires a column, with all carries by Brent and Kung's
    tree: four ANDs a digit at most, in twice as many rounds as the length has digits."""
    carries = _prefixes(builder, [_column(builder, row) for row in rows])
    digits = list[Wire | None]()
    for place, row in enumerate(rows):
        wires = [*row, *([] if place == 0 or (below := carries[place - 1].below()) is None else [below])]
        digits.append(builder.parity(*wires) if wires else None)
    return digits


def _column(builder: Builder, row: Sequence[Wire]) -> "_Digits":
    if len(row) == 2:
        return _adder(builder, *row)
    return _Digits(lambda: None, lambda: row[0] if row else None)


def _prefixes(builder: Builder, digits: Sequence["_Digits"]) -> list["_Digits"]:
    """Return the first 1, 2, ... digits joined, lowest first."""
    if len(digits) == 1:
        return list(digits)
    pairs = [_join_digits(builder, digits[k + 1], digits[k]) for k in range(0, len(digits) - 1, 2)]
    joined = _prefixes(builder, pairs)
    return [
        digits[0] if k == 0 else joined[k // 2] if k % 2 else _join_digits(builder, digits[k], joined[k // 2 - 1])
        for k in range(len(digits))
    ]


def _conjunctions(party: Party, step: Round, shares: Sequence[Words]) -> None:
    first, second = shares
    made = slice(step.start, step.start + step.left.size)
    whole = party.conjunction(
        Replicated(first[step.left], second[step.left]), Replicated(first[step.right], second[step.right])
    )
    first[made], second[made] = whole.first, whole.second


def _gather(circuit: Circuit, share: Words, flips: bool) -> Words:
    planes = np.bitwise_xor.reduceat(share[circuit.outputs], circuit.starts, axis=0)
    if flips:
        planes[circuit.flipped] ^= _ALL_LANES
    return planes


def _adder(builder: Builder, a: Wire, b: Wire) -> _Digits:
    """Return a digit of a sum: "below" is that it makes a carry, "equal" that it hands one on."""
    return _Digits(lambda: builder.conjunction(a, b), lambda: builder.parity(a, b))


def _join_all_digits(builder: Builder, digits: Sequence[_Digits]) -> _Digits:
    while len(digits) > 1:
        pairs = [_join_digits(builder, digits[k], digits[k + 1]) for k in range(0, len(digits) - 1, 2)]
        digits = pairs + list(digits[len(digits) - len(digits) % 2 :])
    return digits[0]


def _join_digits(builder: Builder, high: _Digits, low: _Digits) -> _Digits:
    """Join: below = below_high xor (equal_high and below_low), equal = equal_high and equal_low."""

    def both(one: Wire | None, other: Wire | None) -> Wire | None:
        return None if one is None or other is None else builder.conjunction(one, other)

    def below() -> Wire | None:
        above, under = high.below(), low.below()
        handed_on = None if under is None else both(high.equal(), under)
        if above is None or handed_on is None:
            return handed_on if above is None else above
        return builder.parity(above, handed_on)

    return _Digits(cache(below), cache(lambda: both(high.equal(), low.equal())))


def draw_from_table(builder: Builder, table: AliasTable, start: Wire) -> list[Wire]:
    """Return the 7 digits, lowest first, of the number that the table gives for the input planes from `start` on.

    All products of the place's digits make every function of the place an exclusive or (its algebraic normal form). So
    120 ANDs choose the threshold and the alias; a comparison of 64 digits and 7 choices follow.
    """
    place, word = range(start, start + PLACE_BITS), range(start + PLACE_BITS, start + TABLE_INPUTS)
    products = _products(builder, place)
    threshold = [_function(builder, products, table.thresholds, WORD_BITS - 1 - k) for k in range(WORD_BITS)]
    accepted = carry(builder, threshold, word)
    digits = []
    for digit, wire in enumerate(place):
        alias = _function(builder, products, table.aliases, digit)
        digits.append(builder.parity(alias, builder.conjunction(accepted, builder.parity(wire, alias))))
    return digits


def _products(builder: Builder, place: Sequence[Wire]) -> list[Wire]:
    """Return the products of each set of the place's digits, a set by its bits; place 0 is not used."""
    made = [place[0]] * PLACES
    for chosen in range(1, PLACES):
        digits = [digit for digit in range(PLACE_BITS) if chosen >> digit & 1]
        if len(digits) == 1:
            made[chosen] = place[digits[0]]
            continue
        low = sum(1 << digit for digit in digits[: len(digits) // 2])
        made[chosen] = builder.conjunction(made[low], made[chosen ^ low])
    return made


def _function(builder: Builder, products: list[Wire], table: tuple[int, ...], digit: int) -> Wire:
    """Return bit `digit` of the table's entry at the place, as the exclusive or of products."""
    form = [entry >> digit & 1 for entry in table]
    for step in range(PLACE_BITS):
        form = [bit ^ form[place ^ 1 << step] if place >> step & 1 else bit for place, bit in enumerate(form)]
    terms = [products[chosen] for chosen in range(1, PLACES) if form[chosen]]
    if not terms:
        terms = [products[1], products[1]]  # 0
    return builder.parity(*terms, flip=bool(form[0]))
