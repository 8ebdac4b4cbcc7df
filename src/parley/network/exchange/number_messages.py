"""Public numbers as messages, in pieces, read with suspicion; and the comparison that comes before the first question.

Formal guarantee: every number is a function of the terms and public knowledge (`Setup.numbers`), so sending them costs
no privacy; and where `require_agreed` returns True, the other party's are this one's but for
`public_numbers.TOLERANCE`. It asks nothing that is debited.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from parley.data.public_numbers import PublicNumbers
from parley.errors import ContradictionError, NotOffered
from parley.network.exchange import wire_pb2 as wire
from parley.validate import Floats

PIECE = 1 << 20  # numbers in one message
_MOST_ARRAYS = 100
_FLOATS = np.dtype("<f8")
REMEDY = (
    "nothing was spent for it. Their machines find different numbers for the same public sample, or one runs "
    "another version: pin them (parley pin TERMS --write PINNED), and let everybody accept those terms"
)


@dataclass(frozen=True, eq=False)
class Piece:
    """Some of a party's public numbers, and what all of them are."""

    names: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    data: Floats
    agreed: int = 0  # of a peer: everybody that is fewer edges away found its neighbours to agree


Fetch = Callable[[int], Piece | None]  # from a place on, the first is 1; None: the party does not say


def put_numbers(numbers: PublicNumbers, first: int, message: wire.PublicNumbers) -> None:
    """Write a piece into its place in a reply: as many numbers from place `first` on as a message takes."""
    message.arrays.extend(wire.PublicArray(name=name, shape=shape) for name, shape in numbers.shapes.items())
    for key, digest in numbers.names.items():
        message.names[key] = digest
    message.data = numbers.data[first - 1 : first - 1 + PIECE].astype(_FLOATS).tobytes()


def read_piece(message: wire.PublicNumbers, party: str) -> Piece:
    """The piece in a reply; one that is none is a contradiction."""
    data = message.data
    if len(message.arrays) > _MOST_ARRAYS or len(message.names) > _MOST_ARRAYS or len(data) % 8:
        raise ContradictionError(f"{party}: sent public numbers that cannot be read")
    shapes = {array.name: tuple(array.shape) for array in message.arrays}
    return Piece(dict(message.names), shapes, np.frombuffer(data, dtype=_FLOATS).astype(np.float64), message.agreed)


def require_agreed(own: PublicNumbers, party: str, fetch: Fetch) -> bool:
    """Refuse a party that resolved other public numbers, with the one that lies furthest off; False: it does not say,
    as older ones do not.

    No more is fetched, or kept, than this party has itself.
    """
    found: list[Floats] = []
    total = sum(math.prod(shape) for shape in own.shapes.values())
    while not found or sum(map(len, found)) < total:
        try:
            piece = fetch(1 + sum(map(len, found)))
        except NotOffered:
            return False
        if piece is None:
            return False
        misfit = own.misfit(piece.names, piece.shapes)
        if misfit is not None:
            raise _disagreement(party, misfit)
        if len(piece.data) > total or (total and not len(piece.data)):
            raise ContradictionError(f"{party}: sent public numbers that cannot be read")
        found.append(piece.data)
    data = np.concatenate(found)
    if len(data) != total:
        raise ContradictionError(f"{party}: sent public numbers that cannot be read")
    difference = own.difference(own.with_data(data))
    if difference is not None:
        raise _disagreement(party, difference)
    return True


def _disagreement(party: str, what: str) -> ContradictionError:
    return ContradictionError(f"{party}: resolved other public numbers than this party did: {what}; {REMEDY}")


def silent(party: str) -> str:
    """What there is to say about a party that does not say its numbers."""
    return (
        f"{party}: does not say which public numbers it resolved, as older versions do not: whether they are these "
        f"goes unseen"
    )
