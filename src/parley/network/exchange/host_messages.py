"""What hosts are told and say, as protobuf messages, read with suspicion: sizes, names and numbers are checked before
anything is made of them."""

import re

from parley.data.public_numbers import PublicNumbers
from parley.errors import ContradictionError, Malformed, Refusal, Unavailable
from parley.network.exchange import host_pb2 as wire
from parley.network.exchange.messages import LARGEST_MESSAGE, Piece, parsed, put_numbers, read_piece
from parley.network.exchange.share_bundle import CONTENT, Opening, Shape, ShareBundle, to_words
from parley.privacy.mechanisms.shared_noise import Law
from parley.privacy.sharing.ring import to_bytes
from parley.terms import PARTY
from parley.validate import printable

SERVICE = "parley.v1.Host"
LARGEST_ROUND = 1 << 31
LARGEST_SIZE = LARGEST_MESSAGE // 8
_REFUSALS = {kind.code: kind for kind in Refusal.__subclasses__()}

Question = tuple[str, int, str]  # the hash of the terms, the round, the hash of what was asked


def write_question(terms: str, number: int, content: str) -> bytes:
    """The message that asks about a round."""
    return bytes(wire.SharedQuestion(terms=terms, round=number, content=content).SerializeToString())


def read_question(content: bytes) -> Question:
    """The question in a message, or a refusal."""
    return _question(parsed(wire.SharedQuestion, content))


def write_share_bundle(bundle: ShareBundle) -> bytes:
    """The message that brings a share bundle."""
    question = wire.SharedQuestion(terms=bundle.terms_hash, round=bundle.round, content=bundle.content)
    shape, (first, second) = bundle.shape, bundle.shares
    return bytes(
        wire.Parcel(
            question=question, owner=bundle.owner, records=bundle.records, law=shape.law, exponent=shape.exponent,
            size=shape.size, first=first, second=second,
        ).SerializeToString()
    )  # fmt: skip


def read_share_bundle(content: bytes) -> ShareBundle:
    """The share bundle in a message, or a refusal. Whether it fits the terms is the host's to say."""
    message = parsed(wire.Parcel, content)
    terms, number, asked = _question(message.question)
    if not re.fullmatch(PARTY, message.owner) or not 1 <= message.size <= LARGEST_SIZE or message.law not in tuple(Law):
        raise Malformed("share bundle: expected an owner's name, a known law and a size")
    shape = Shape(Law(message.law), message.exponent, message.size)
    return ShareBundle(terms, number, asked, message.owner, message.records, shape, (message.first, message.second))


def write_frame(terms: str, channel: str, number: int, payload: bytes) -> bytes:
    """The bytes of one numbered message of a channel between hosts."""
    return bytes(wire.Frame(terms=terms, channel=channel, number=number, payload=payload).SerializeToString())


def read_frame(content: bytes) -> tuple[str, str, int, bytes]:
    """(terms, channel, number, payload), or a refusal."""
    message = parsed(wire.Frame, content)
    if not CONTENT.fullmatch(message.terms) or not CONTENT.fullmatch(message.channel):
        raise Malformed("frame: expected the hash of the terms and the name of a channel")
    return message.terms, message.channel, message.number, message.payload


def write_done() -> bytes:
    """The reply that says that the call was done."""
    return bytes(wire.HostReply(done=True).SerializeToString())


def write_alive(name: str) -> bytes:
    """The reply that says that a host of this name is there."""
    return bytes(wire.HostReply(alive=name).SerializeToString())


def write_refusal(refusal: Refusal) -> bytes:
    """A code for programs, a sentence for people."""
    return bytes(wire.HostReply(refusal=wire.HostRefusal(code=refusal.code, sentence=str(refusal))).SerializeToString())


def write_proposal(text: str) -> bytes:
    """The reply that says what a host holds for a round."""
    return bytes(wire.HostReply(proposal=text).SerializeToString())


def write_record(digest: str) -> bytes:
    """The digest of what it recorded."""
    return bytes(wire.HostReply(record=digest).SerializeToString())


def write_opening(opening: Opening) -> bytes:
    """The reply with a host's part of the noisy sum."""
    question = wire.SharedQuestion(terms=opening.terms_hash, round=opening.round, content=opening.content)
    said = wire.HostOpening(
        question=question, owners=opening.owners, words=to_bytes(opening.words), digest=opening.digest
    )
    return bytes(wire.HostReply(opening=said).SerializeToString())


def write_numbers(numbers: PublicNumbers, first: int) -> bytes:
    """The public numbers that a host resolved, from a place on."""
    reply = wire.HostReply()
    put_numbers(numbers, first, reply.numbers)
    return bytes(reply.SerializeToString())


def read_numbers(content: bytes, host: str) -> Piece:
    """The same as they were sent; or the refusal, raised."""
    return read_piece(_reply(content, host, "numbers").numbers, host)


def read_done(content: bytes, host: str) -> None:
    """Nothing, or the refusal, raised."""
    if not _reply(content, host, "done").done:
        raise ContradictionError(f"{host}: sent something other than that it is done")


def read_proposal(content: bytes, host: str) -> str:
    """What a host holds, as it was sent; or the refusal, raised."""
    return str(_reply(content, host, "proposal").proposal)


def read_record(content: bytes, host: str) -> str:
    """The digest of what it recorded; or the refusal, raised."""
    return str(_reply(content, host, "record").record)


def read_opening(content: bytes, host: str, size: int) -> Opening:
    """The opening of so many words, or the refusal, raised."""
    message = _reply(content, host, "opening").opening
    try:
        question, words = _question(message.question), to_words(message.words, size)
    except Malformed:
        raise ContradictionError(f"{host}: sent an opening that cannot be read") from None
    if len(message.digest) != 32 or not all(re.fullmatch(PARTY, owner) for owner in message.owners):
        raise ContradictionError(f"{host}: sent an opening that cannot be read")
    return Opening(*question, tuple(message.owners), words, message.digest)


def _question(message: wire.SharedQuestion) -> Question:
    if (
        not CONTENT.fullmatch(message.terms)
        or not CONTENT.fullmatch(message.content)
        or not 1 <= message.round < LARGEST_ROUND
    ):
        raise Malformed("question: expected the hash of the terms, a round from 1 and the hash of what was asked")
    return message.terms, message.round, message.content


def _reply(content: bytes, host: str, expected: str) -> wire.HostReply:
    try:
        reply = parsed(wire.HostReply, content)
    except Malformed:
        raise Unavailable(f"{host}: its reply was damaged on the way") from None
    outcome = reply.WhichOneof("outcome")
    if outcome == "refusal":
        raise _REFUSALS.get(reply.refusal.code, Refusal)(f"{host}: {printable(reply.refusal.sentence)}")
    if outcome != expected:
        raise ContradictionError(f"{host}: sent something other than was asked")
    return reply
