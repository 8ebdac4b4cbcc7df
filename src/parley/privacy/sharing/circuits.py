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
from parley.privacy.sharing.party import HOST_COUNT, Party
from parley.privacy.sharing.ring import Replicated

WORD_LANES = 64  # lanes of a word
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

    Formal guarantee: a gate's message, x_i y_i + x_i y_{i+1} + x_{i+1} y_i plus a part of zero, is uniform to the host
    that receives it, because the part of zero holds a word of the key that this host lacks.
    """
    first, second = party.scratch(2, circuit.wires + 1, inputs.first.shape[1])
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
                made = np.zeros((sums.terms.shape[1], share.shape[1]), dtype=np.uint64)
                for terms in sums.terms:
                    made ^= share[terms]
                if flip:
                    made[sums.flipped :] ^= _ALL_LANES
                share[sums.start : sums.start + len(made)] = made
    return [_gather(circuit, share, flip) for share, flip in zip(shares, flips, strict=True)]


@dataclass(frozen=True)
class _Digits:
    """Some digits of two numbers: whether the first is below the second (None: never), whether they are equal. Gates
    are made on demand, as the lowest digits never need `equal`."""

    below: Callable[[], Wire | None]
    equal: Callable[[], Wire]


def below(builder: Builder, word: Sequence[Wire], threshold: int) -> Output:
    """Return [word < threshold]: an even number of wires, most significant first; a public threshold up to 2^digits."""
    if not 0 <= threshold <= 1 << len(word):
        raise SettingError(f"threshold: expected a whole number from 0 to 2^{len(word)}")
    if threshold == 1 << len(word):
        return Output((), flip=True)
    places = range(0, len(word), 2)
    pairs = [_pair(builder, word[k], word[k + 1], threshold >> (len(word) - 2 - k) & 3) for k in places]
    found = _join_all_digits(builder, pairs).below()
    return Output(() if found is None else (found,))


def carry(builder: Builder, a: Sequence[Wire], b: Sequence[Wire]) -> Output:
    """Return whether the sum of two numbers of equal length, most significant digit first, needs one more digit."""
    found = _join_all_digits(builder, [_adder(builder, x, y) for x, y in zip(a, b, strict=True)]).below()
    return Output(() if found is None else (found,))


def _conjunctions(party: Party, step: Round, shares: Sequence[Words]) -> None:
    first, second = shares
    made = slice(step.start, step.start + step.left.size)
    x, y = first[step.left], first[step.right]
    part = second[step.right]
    part ^= y
    part &= x
    y &= second[step.left]
    part ^= y
    part ^= party.zero_bits(*part.shape)
    whole = party.complete(part)
    first[made], second[made] = whole.first, whole.second


def _gather(circuit: Circuit, share: Words, flips: bool) -> Words:
    planes = np.bitwise_xor.reduceat(share[circuit.outputs], circuit.starts, axis=0)
    if flips:
        planes[circuit.flipped] ^= _ALL_LANES
    return planes


def _pair(builder: Builder, r1: Wire, r0: Wire, threshold: int) -> _Digits:
    """Compare two digits of a secret word with two of a threshold: all is affine in r1, r0 and r1 r0."""

    def below() -> Wire | None:
        if threshold == 0:
            return None
        if threshold == 2:
            return builder.parity(r1, flip=True)
        both = builder.conjunction(r1, r0)
        return builder.parity(r1, r0, both, flip=True) if threshold == 1 else builder.parity(both, flip=True)

    def equal() -> Wire:
        both = builder.conjunction(r1, r0)
        if threshold == 0:
            return builder.parity(r1, r0, both, flip=True)
        return both if threshold == 3 else builder.parity(r0 if threshold == 1 else r1, both)

    return _Digits(below, equal)


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

    def below() -> Wire | None:
        above, under = high.below(), low.below()
        if under is None:
            return above
        both = builder.conjunction(high.equal(), under)
        return both if above is None else builder.parity(above, both)

    return _Digits(below, cache(lambda: builder.conjunction(high.equal(), low.equal())))
