"""Terms proposed to an owner, and what became of them, as protobuf messages that are read with suspicion."""

import hashlib
import re
from dataclasses import dataclass
from typing import Literal, cast, get_args

from parley.errors import ContradictionError, Malformed
from parley.network.exchange import wire_pb2 as wire
from parley.network.exchange.messages import parsed, read_reply
from parley.validate import printable

LARGEST_TEXT = 1 << 17  # bytes: terms of two thousand owners
LARGEST = LARGEST_TEXT + 256  # bytes of a message: its text, its hash and what is around them

State = Literal["open", "accepted", "refused", "lapsed", "withdrawn"]


@dataclass(frozen=True)
class ProposalState:
    """What became of proposed terms, and why, if they were refused or lapsed."""

    state: State
    reason: str = ""


def write_proposal(terms: str, text: str = "") -> bytes:
    """The message that proposes terms by their hash and canonical text, or, without it, asks what became of them."""
    return bytes(wire.Proposal(terms=terms, text=text).SerializeToString())


def read_proposal(content: bytes) -> tuple[str, str]:
    """(terms hash, text) of a message, or a refusal; the text is empty, or has that hash."""
    if len(content) > LARGEST:
        raise Malformed(f"proposal: expected terms of at most {LARGEST_TEXT:,} bytes")
    message = parsed(wire.Proposal, content)
    if not re.fullmatch("[0-9a-f]{64}", message.terms):
        raise Malformed("proposal: expected the hash of the terms, 64 hexadecimal digits")
    if message.text and hashlib.sha256(message.text.encode()).hexdigest() != message.terms:
        raise Malformed("proposal: expected the text of the terms that has their hash")
    return message.terms, message.text


def write_state(owner: str, terms: str, state: ProposalState) -> bytes:
    """The reply that says what became of proposed terms."""
    said = wire.ProposalState(owner=owner, terms=terms, state=state.state, reason=state.reason)
    return bytes(wire.Reply(proposal=said).SerializeToString())


def read_state(content: bytes, owner: str, terms: str) -> ProposalState:
    """What an owner says became of these terms, or its refusal, raised."""
    reply = read_reply(content, owner)
    said = reply.proposal
    ours = reply.WhichOneof("outcome") == "proposal" and (said.owner, said.terms) == (owner, terms)
    if not ours or said.state not in get_args(State):
        raise ContradictionError(f"{owner}: sent something other than what became of the proposal")
    return ProposalState(cast(State, said.state), printable(said.reason))
