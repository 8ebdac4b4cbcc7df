"""Comparisons and carries in log depth, as circuits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from parley.errors import SettingError
from parley.privacy.sharing.circuits import Builder, Output, Wire


@dataclass(frozen=True)
class _Digits:
    """Some digits of two numbers: whether the first is below the second (None: it never is), whether they are equal.

    Gates are made on demand: the lowest digits never need `equal`.
    """

    below: Callable[[], Wire | None]
    equal: Callable[[], Wire]


def below(builder: Builder, word: Sequence[Wire], threshold: int) -> Output:
    """[word < threshold]: the word's wires most significant first,
    an even number of them; the threshold public, up to 2^digits."""
    if not 0 <= threshold <= 1 << len(word):
        raise SettingError(f"threshold: expected a whole number from 0 to 2^{len(word)}")
    if threshold == 1 << len(word):
        return Output((), flip=True)
    places = range(0, len(word), 2)
    pairs = [_pair(builder, word[k], word[k + 1], threshold >> (len(word) - 2 - k) & 3) for k in places]
    found = _joined(builder, pairs).below()
    return Output(() if found is None else (found,))


def carry(builder: Builder, a: Sequence[Wire], b: Sequence[Wire]) -> Output:
    """Whether the sum of two numbers of the same number of digits, most significant first, needs one digit more."""
    found = _joined(builder, [_adder(builder, x, y) for x, y in zip(a, b, strict=True)]).below()
    return Output(() if found is None else (found,))


def _pair(builder: Builder, r1: Wire, r0: Wire, threshold: int) -> _Digits:
    """Two digits of a secret word and two of a public threshold: everything is affine in r1, r0 and r1 r0."""

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
    """A digit of a sum: it makes a carry in the place of "below", and hands one on in the place of "equal"."""
    return _Digits(lambda: builder.conjunction(a, b), lambda: builder.parity(a, b))


def _joined(builder: Builder, digits: Sequence[_Digits]) -> _Digits:
    while len(digits) > 1:
        pairs = [_two(builder, digits[k], digits[k + 1]) for k in range(0, len(digits) - 1, 2)]
        digits = pairs + list(digits[len(digits) - len(digits) % 2 :])
    return digits[0]


def _two(builder: Builder, high: _Digits, low: _Digits) -> _Digits:
    """below = below_high xor (equal_high and below_low), equal = equal_high and equal_low."""

    def below() -> Wire | None:
        above, under = high.below(), low.below()
        if under is None:
            return above
        both = builder.conjunction(high.equal(), under)
        return both if above is None else builder.parity(above, both)

    return _Digits(below, cache(lambda: builder.conjunction(high.equal(), low.equal())))
