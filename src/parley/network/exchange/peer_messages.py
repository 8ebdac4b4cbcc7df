"""What neighbours ask each other and say, as protobuf messages, read with suspicion: sizes, names and numbers are
checked before anything is made of them."""

from dataclasses import dataclass, field

import numpy as np

from parley.data.public_numbers import ROUNDED, PublicNumbers
from parley.errors import ContradictionError, Malformed, Refusal, Unavailable
from parley.network.exchange import peer_pb2 as wire
from parley.network.exchange.messages import LARGEST_MESSAGE, Piece, parsed, put_numbers, read_piece
from parley.network.exchange.share_bundle import CONTENT
from parley.validate import LARGEST, Floats, printable

SERVICE = "parley.v1.Peer"
LARGEST_ROUND = 1 << 31
LARGEST_STEP = 1 << 16
_FLOATS = np.dtype("<f8")
_REFUSALS = {kind.code: kind for kind in Refusal.__subclasses__()}

Place = tuple[int, int]  # a round, and a step of it: 0 and 1 in training; afterwards how far what is passed on has come


@dataclass(frozen=True)
class Run:
    """What two neighbours must agree on before a word of one counts for the other: the terms, the length of a step,
    public numbers."""

    terms_hash: str
    length: float
    numbers: PublicNumbers = field(default=PublicNumbers({}, {}), compare=False)


def write_question(terms: str, place: Place) -> bytes:
    """The message that asks what a peer said there."""
    return bytes(wire.PeerQuestion(terms=terms, round=place[0], step=place[1]).SerializeToString())


def read_question(content: bytes) -> tuple[str, Place]:
    """(terms hash, place), or a refusal."""
    message = parsed(wire.PeerQuestion, content)
    if not CONTENT.fullmatch(message.terms) or not 1 <= message.round < LARGEST_ROUND or message.step >= LARGEST_STEP:
        raise Malformed("question: expected the hash of the terms, a round from 1 and a step of it")
    return message.terms, (message.round, message.step)


def write_words(run: Run, owner: str, place: Place, vectors: Floats) -> bytes:
    """The reply that says these vectors [rows, numbers]."""
    reply = wire.PeerReply()
    words = reply.words
    words.place.terms, words.place.round, words.place.step = run.terms_hash, *place
    words.owner, words.length, words.rows = owner, run.length, len(vectors)
    words.data = np.ascontiguousarray(vectors, dtype=_FLOATS).tobytes()
    return bytes(reply.SerializeToString())


def write_numbers(run: Run, first: int, agreed: int) -> bytes:
    """The public numbers that a peer resolved, from a place on, and how far from it everybody has agreed on them."""
    reply = wire.PeerReply()
    put_numbers(run.numbers, first, reply.numbers)
    reply.numbers.agreed = agreed
    return bytes(reply.SerializeToString())


def read_numbers(content: bytes, owner: str) -> Piece:
    """The same as they were sent; or the refusal, raised."""
    reply = _reply(content, owner)
    if reply.WhichOneof("outcome") != "numbers":
        raise ContradictionError(f"{owner}: sent something other than the public numbers that it resolved")
    return read_piece(reply.numbers, owner)


def write_later() -> bytes:
    """That it has not come to that place yet."""
    return bytes(wire.PeerReply(later=True).SerializeToString())


def write_alive(name: str) -> bytes:
    """The reply that says that a peer of this name is there."""
    return bytes(wire.PeerReply(alive=name).SerializeToString())


def write_refusal(refusal: Refusal) -> bytes:
    """A code for programs, a sentence for people."""
    return bytes(wire.PeerReply(refusal=wire.PeerRefusal(code=refusal.code, sentence=str(refusal))).SerializeToString())


def read_words(content: bytes, run: Run, owner: str, place: Place, shape: tuple[int, int]) -> Floats | None:
    """What this owner's peer said at this place of this run, vectors of this shape; None: not yet; or its refusal,
    raised.

    Formal guarantee: numbers that are returned are finite, at most `LARGEST` in size, and as many as expected; whatever
    else a neighbour sends is a `ContradictionError`, but for bytes that are no message, which may be asked for again.
    """
    reply = _reply(content, owner)
    outcome, words = reply.WhichOneof("outcome"), reply.words
    if outcome == "later":
        return None
    said = words.place.terms, (words.place.round, words.place.step), words.owner
    if outcome != "words" or said != (run.terms_hash, place, owner):
        raise ContradictionError(f"{owner}: sent something other than what it said in {name_of(place)}")
    # rounded to six digits, at an edge to neighbouring ones
    if not abs(words.length - run.length) <= ROUNDED * run.length:
        raise ContradictionError(
            f"{owner}: takes steps of {words.length:g}, this peer of {run.length:g}: their libraries choose "
            "differently; write learning.step into the terms"
        )
    return _vectors(words, owner, place, shape)


def _reply(content: bytes, owner: str) -> wire.PeerReply:
    try:
        reply = parsed(wire.PeerReply, content)
    except Malformed:
        raise Unavailable(f"{owner}: its reply was damaged on the way") from None
    if reply.WhichOneof("outcome") == "refusal":
        raise _REFUSALS.get(reply.refusal.code, Refusal)(f"{owner}: {printable(reply.refusal.sentence)}")
    return reply


def require_short(rows: int, numbers: int) -> None:
    """Refuse vectors that no message could carry."""
    if 8 * rows * numbers + 1024 > LARGEST_MESSAGE:
        raise Malformed(
            f"model: {rows} vectors of {numbers} numbers are longer than a message may be, {LARGEST_MESSAGE} bytes"
        )


def name_of(place: Place) -> str:
    """The name of a place for people to read, such as in a warning."""
    return f"round {place[0]}, step {place[1]}"


def _vectors(words: wire.PeerWords, owner: str, place: Place, shape: tuple[int, int]) -> Floats:
    data = words.data  # each look copies it
    if words.rows != shape[0] or len(data) != 8 * shape[0] * shape[1]:
        raise ContradictionError(
            f"{owner}: expected {shape[0]} x {shape[1]} numbers as what it said in {name_of(place)}"
        )
    vectors = np.frombuffer(data, dtype=_FLOATS).astype(np.float64).reshape(shape)
    if not (np.abs(vectors) <= LARGEST).all():
        raise ContradictionError(
            f"{owner}: said numbers in {name_of(place)} that are not finite, or beyond {LARGEST:g}"
        )
    return vectors
