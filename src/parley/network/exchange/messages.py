"""Queries, answers and public numbers as protobuf messages; sizes, shapes and names are checked before use.

Formal guarantee: every public number is a function of the terms and public knowledge (`Setup.numbers`), so sending them
costs no privacy. Where `require_agreed` returns True, the other party's are this one's up to
`public_numbers.TOLERANCE`. It asks nothing that is debited.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np
from google.protobuf.message import DecodeError, Message

from parley.data.public_numbers import PublicNumbers
from parley.errors import ContradictionError, Malformed, NotOffered, Refusal, Unavailable
from parley.network.exchange import MAX_MESSAGE_BYTES
from parley.network.exchange import wire_pb2 as wire
from parley.network.exchange.witnesses import put_end, read_end
from parley.owner.ledger.account import Account, Head
from parley.owner.ledger.witnessed import SignedEnd
from parley.protocol.queries import Answer, Query
from parley.protocol.task import question_of
from parley.terms import PARTY
from parley.validate import Floats, printable

NUMBERS_PER_PIECE = 1 << 20  # numbers in one message
_MAX_ARRAYS = 100
_FLOATS = np.dtype("<f8")
DISAGREEMENT_ADVICE = (
    "nothing was spent for it. The two machines find different numbers for the same public sample, or one runs another "
    "version. Pin the numbers (parley pin TERMS --write PINNED) and have everybody accept those terms"
)


@dataclass(frozen=True, eq=False)
class Piece:
    """Some of a party's public numbers, with the names and shapes of all of them."""

    names: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    data: Floats
    agreed: int = 0  # of a peer: everybody that is fewer edges away found its neighbours to agree


Fetch = Callable[[int], Piece | None]  # from a place on, the first is 1; None: the party does not say


def put_numbers(numbers: PublicNumbers, first: int, message: wire.PublicNumbers) -> None:
    """Write into a reply as many numbers, from place `first` on, as a message takes."""
    message.arrays.extend(wire.PublicArray(name=name, shape=shape) for name, shape in numbers.shapes.items())
    for key, digest in numbers.names.items():
        message.names[key] = digest
    message.data = numbers.data[first - 1 : first - 1 + NUMBERS_PER_PIECE].astype(_FLOATS).tobytes()


def read_piece(message: wire.PublicNumbers, party: str) -> Piece:
    """Return the piece in a reply; an invalid one is a contradiction."""
    data = message.data
    if len(message.arrays) > _MAX_ARRAYS or len(message.names) > _MAX_ARRAYS or len(data) % 8:
        raise ContradictionError(f"{party}: the public numbers in the reply cannot be read")
    shapes = {array.name: tuple(array.shape) for array in message.arrays}
    return Piece(dict(message.names), shapes, np.frombuffer(data, dtype=_FLOATS).astype(np.float64), message.agreed)


def require_agreed(own: PublicNumbers, party: str, fetch: Fetch) -> bool:
    """Refuse a party with other public numbers, naming the largest difference; False: it reports none, as older ones.
    No more is fetched, or kept, than this party has itself."""
    pieces: list[Floats] = []
    total = sum(math.prod(shape) for shape in own.shapes.values())
    while not pieces or sum(map(len, pieces)) < total:
        try:
            piece = fetch(1 + sum(map(len, pieces)))
        except NotOffered:
            return False
        if piece is None:
            return False
        misfit = own.misfit(piece.names, piece.shapes)
        if misfit is not None:
            raise _disagreement(party, misfit)
        if len(piece.data) > total or (total and not len(piece.data)):
            raise ContradictionError(f"{party}: the public numbers in the reply cannot be read")
        pieces.append(piece.data)
    data = np.concatenate(pieces)
    if len(data) != total:
        raise ContradictionError(f"{party}: the public numbers in the reply cannot be read")
    difference = own.difference(own.with_data(data))
    if difference is not None:
        raise _disagreement(party, difference)
    return True


def _disagreement(party: str, what: str) -> ContradictionError:
    return ContradictionError(
        f"{party}: resolved other public numbers than this party did: {what}; {DISAGREEMENT_ADVICE}"
    )


def silent(party: str) -> str:
    """Return the warning about a party that does not report its numbers."""
    return (
        f"{party}: an older version, which does not report its public numbers; a difference from yours would go "
        "unnoticed"
    )


SERVICE = "parley.v1.Owner"
_MAX_ROUND = 1 << 31
_MAX_FIELDS = 100  # of one question
_MAX_COUNT = (1 << 63) - 1  # SQLite counts no further
_HASH = re.compile(r"[0-9a-f]{64}")
_BUDGET = re.compile(r"[0-9]{1,100}(/[1-9][0-9]{0,99})?")
_REFUSALS = {kind.code: kind for kind in Refusal.__subclasses__()}

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class AccountStatement:
    """Where an agreement stands at one owner, by its own word. `head` is its chain's end (None: not reported),
    `earlier_hash` the hash at the length asked about (None: not asked, or the ledger is shorter)."""

    epsilon: Fraction
    spent: Fraction
    answered: int
    rounds: int
    head: Head | None = None
    earlier_hash: str | None = None

    @property
    def left(self) -> Fraction:
        return self.epsilon - self.spent

    @classmethod
    def from_account(cls, account: Account, earlier_hash: str | None = None) -> "AccountStatement":
        return cls(account.epsilon, account.spent, account.answered, account.rounds, account.head, earlier_hash)


@dataclass(frozen=True)
class AnswerReply:
    """An owner's answer and where the agreement stood afterwards."""

    answer: Answer
    statement: AccountStatement


def write_query(query: Query, seen: SignedEnd | None = None) -> bytes:
    """Return the message that asks this query; `seen`: the end of the owner's ledger that the learner saw."""
    message = wire.Query(id=query.id, round=query.round, kind=query.kind, counts=query.counts)
    message.agreement.terms, message.agreement.learner = query.terms_hash, query.learner
    if seen is not None:
        put_end(seen, message.agreement.seen)
    for name, array in query.arrays.items():
        _put(array, message.arrays[name])
    return bytes(message.SerializeToString())


def read_query(content: bytes) -> Query:
    """Return the query in a message, or a refusal that depends only on the kind of mistake."""
    return read_asked(content)[0]


def read_asked(content: bytes) -> tuple[Query, SignedEnd | None]:
    """Return the query in a message and the end of the ledger that the learner saw, or a refusal that depends only on
    the kind of mistake."""
    message = parsed(wire.Query, content)
    terms_hash, learner = _agreement(message.agreement)
    if not 1 <= len(message.id) <= 200 or not 1 <= message.round < _MAX_ROUND:
        raise Malformed("query: expected an id of 1 to 200 characters and a round from 1")
    question = question_of(message.kind)
    if question is None or len(message.arrays) + len(message.counts) > _MAX_FIELDS:
        raise Malformed("query: expected a kind of question that this version of Parley can answer")
    matrices = question.asks.matrices
    arrays = {name: _numbers(each, 2 if name in matrices else 1) for name, each in message.arrays.items()}
    query = question.asks.read(message.id, terms_hash, learner, message.round, arrays, dict(message.counts))
    return query, read_end(message.agreement.seen) if message.agreement.HasField("seen") else None


def write_agreement(terms: str, learner: str, entries: int = 0, numbers: int = 0) -> bytes:
    """Return the message that asks where an agreement stands, for the hash at this many `entries`, and for the public
    numbers from a place on (0: not asked)."""
    return bytes(wire.Agreement(terms=terms, learner=learner, entries=entries, numbers=numbers).SerializeToString())


def read_agreement(content: bytes) -> tuple[str, str, int, int]:
    """Return (terms hash, learner, entries, numbers) of a message, or refuse it."""
    message = parsed(wire.Agreement, content)
    return *_agreement(message), min(message.entries, _MAX_COUNT), min(message.numbers, _MAX_COUNT)


def write_answer(answer: Answer, statement: AccountStatement) -> bytes:
    """Return the reply that brings a stored answer."""
    reply = wire.Reply()
    message = reply.answer
    message.query, message.owner, message.records = answer.query, answer.owner, answer.records
    _put_statement(answer.owner, statement, message.statement)
    _put(answer.value, message.value)
    return bytes(reply.SerializeToString())


def write_statement(owner: str, statement: AccountStatement, numbers: tuple[PublicNumbers, int] | None = None) -> bytes:
    """Return the reply that says where an agreement stands, with public `numbers` if they were asked for."""
    reply = wire.Reply()
    _put_statement(owner, statement, reply.statement)
    if numbers is not None:
        put_numbers(*numbers, reply.statement.numbers)
    return bytes(reply.SerializeToString())


def write_health(owner: str, version: str) -> bytes:
    """Return the reply of an owner that is there."""
    return bytes(wire.Reply(health=wire.Health(owner=owner, version=version)).SerializeToString())


def write_refusal(refusal: Refusal) -> bytes:
    """Return the reply that refuses: a code for programs, a sentence for people."""
    return bytes(wire.Reply(refusal=wire.Refusal(code=refusal.code, sentence=str(refusal))).SerializeToString())


def read_answer(content: bytes, query: Query, owner: str, records: int, size: int) -> AnswerReply:
    """Return this owner's answer to this query, with `size` finite numbers (0: its shares went to hosts), or raise its
    refusal. `records` comes from the terms, as an owner may not choose its weight."""
    reply = read_outcome(wire.Reply, content, owner)
    message = reply.answer
    if reply.WhichOneof("outcome") != "answer" or message.query != query.id or message.owner != owner:
        raise ContradictionError(f"{owner}: expected the answer to round {query.round}, received another reply")
    if message.records != records:
        raise ContradictionError(
            f"{owner}: the answer is for {message.records} records, but the terms state {records} records"
        )
    try:
        value = _numbers(message.value) if size or message.value.data else np.empty(0)
    except Malformed:
        raise ContradictionError(f"{owner}: the numbers in the reply cannot be read") from None
    if value.shape != (size,) or not np.isfinite(value).all():
        raise ContradictionError(f"{owner}: expected {size} finite numbers as its answer to round {query.round}")
    return AnswerReply(Answer(query.id, owner, records, value), _read_statement(message.statement, owner))


def read_statement(content: bytes, owner: str) -> AccountStatement:
    """Return the statement in a reply, or raise its refusal."""
    return _read_statement(_statement_of(content, owner), owner)


def read_numbers(content: bytes, owner: str) -> Piece | None:
    """Return the public numbers that came with a statement, or None."""
    statement = _statement_of(content, owner)
    return read_piece(statement.numbers, owner) if statement.HasField("numbers") else None


def _statement_of(content: bytes, owner: str) -> wire.AccountStatement:
    reply = read_outcome(wire.Reply, content, owner)
    if reply.WhichOneof("outcome") != "statement":
        raise ContradictionError(f"{owner}: expected the state of the agreement, received another reply")
    return reply.statement


def read_health(content: bytes) -> str:
    """Return the name of the owner that says it is there."""
    reply = read_outcome(wire.Reply, content, "owner")
    if reply.WhichOneof("outcome") != "health" or not re.fullmatch(PARTY, reply.health.owner):
        raise Unavailable("the reply does not come from an owner's daemon; check the address")
    return str(reply.health.owner)


def parsed(kind: type[M], content: bytes) -> M:
    """Return the message of this kind, or refuse it."""
    if len(content) > MAX_MESSAGE_BYTES:
        raise Malformed(f"message: expected at most {MAX_MESSAGE_BYTES} bytes")
    try:
        message: M = kind.FromString(content)
    except DecodeError:
        raise Malformed("message: expected a protobuf message of parley.v1") from None
    return message


def _agreement(message: wire.Agreement) -> tuple[str, str]:
    if not _HASH.fullmatch(message.terms) or not 1 <= len(message.learner) <= 200:
        raise Malformed("agreement: expected the hash of the terms, 64 hexadecimal digits, and the name of the learner")
    return message.terms, message.learner


def _put(values: Floats, message: wire.Numbers) -> None:
    """Write numbers into a message; long ones are copied only once."""
    message.shape.extend(values.shape)
    message.data = np.ascontiguousarray(values, dtype=_FLOATS).tobytes()


def _numbers(message: wire.Numbers, axes: int = 1) -> Floats:
    """Return a list or table of numbers; nothing is allocated on the word of `shape`."""
    shape, data = tuple(message.shape), message.data  # each look at `data` copies it
    if len(shape) != axes or 8 * math.prod(shape) != len(data) or not data:
        raise Malformed("numbers: expected float64 numbers in `data`, as many as `shape` states")
    values: Floats = np.frombuffer(data, dtype=_FLOATS).reshape(shape)
    return values if _FLOATS.isnative else values.astype(np.float64)


def read_outcome(kind: type[M], content: bytes, party: str, expected: str | None = None) -> M:
    """Return a party's reply of this kind; raise the refusal in it, or refuse another outcome than expected."""
    try:
        message = parsed(kind, content)
    except Malformed:
        raise Unavailable(f"{party}: the reply was damaged in transit") from None
    reply = cast(Any, message)
    outcome = reply.WhichOneof("outcome")
    if outcome == "refusal":
        raise _REFUSALS.get(reply.refusal.code, Refusal)(f"{party}: {printable(reply.refusal.sentence)}")
    if expected not in (None, outcome):
        raise ContradictionError(f"{party}: the reply does not fit the question")
    return message


def _put_statement(owner: str, statement: AccountStatement, message: wire.AccountStatement) -> None:
    message.owner, message.epsilon, message.spent = owner, str(statement.epsilon), str(statement.spent)
    message.answered, message.rounds = statement.answered, statement.rounds
    if statement.head is not None:
        message.entries, message.head = statement.head.entries, statement.head.hash
    message.earlier_hash = statement.earlier_hash or ""


def _read_statement(message: wire.AccountStatement, owner: str) -> AccountStatement:
    try:
        budgets = _budget(message.epsilon), _budget(message.spent)
        head = Head(message.entries, _hash(message.head)) if message.entries else None
        then = _hash(message.earlier_hash) if message.earlier_hash else None
        statement = AccountStatement(*budgets, message.answered, message.rounds, head, then)
    except ValueError:
        statement = None
    if message.owner != owner or statement is None:
        raise ContradictionError(f"{owner}: the reply about this owner's agreement cannot be read")
    return statement


def _hash(text: str) -> str:
    if not _HASH.fullmatch(text):
        raise ValueError("not a hash")
    return text


@lru_cache(maxsize=64)
def _budget(text: str) -> Fraction:
    if not _BUDGET.fullmatch(text):
        raise ValueError("not a fraction")
    whole, _, part = text.partition("/")
    return Fraction(int(whole), int(part or 1))


MAX_TEXT_BYTES = 1 << 17  # bytes: terms of two thousand owners
MAX_PROPOSAL_BYTES = MAX_TEXT_BYTES + 256  # bytes of a message: its text, its hash and what is around them

State = Literal["open", "accepted", "refused", "lapsed", "withdrawn"]


@dataclass(frozen=True)
class ProposalState:
    """What became of proposed terms, and why they were refused or lapsed."""

    state: State
    reason: str = ""


def write_proposal(terms: str, text: str = "") -> bytes:
    """Return the message that proposes terms by hash and canonical text; without text it asks for their state."""
    return bytes(wire.Proposal(terms=terms, text=text).SerializeToString())


def read_proposal(content: bytes) -> tuple[str, str]:
    """Return (terms hash, text) of a message, or refuse it; the text is empty or has that hash."""
    if len(content) > MAX_PROPOSAL_BYTES:
        raise Malformed(f"proposal: expected terms of at most {MAX_TEXT_BYTES:,} bytes")
    message = parsed(wire.Proposal, content)
    if not re.fullmatch("[0-9a-f]{64}", message.terms):
        raise Malformed("proposal: expected the hash of the terms, 64 hexadecimal digits")
    if message.text and hashlib.sha256(message.text.encode()).hexdigest() != message.terms:
        raise Malformed("proposal: the hash of the text differs from the stated hash of the terms")
    return message.terms, message.text


def write_state(owner: str, terms: str, state: ProposalState) -> bytes:
    """Return the reply that says what became of proposed terms."""
    said = wire.ProposalState(owner=owner, terms=terms, state=state.state, reason=state.reason)
    return bytes(wire.Reply(proposal=said).SerializeToString())


def read_state(content: bytes, owner: str, terms: str) -> ProposalState:
    """Return what an owner says became of these terms, or raise its refusal."""
    reply = read_outcome(wire.Reply, content, owner)
    answer = reply.proposal
    ours = reply.WhichOneof("outcome") == "proposal" and (answer.owner, answer.terms) == (owner, terms)
    if not ours or answer.state not in get_args(State):
        raise ContradictionError(f"{owner}: expected the state of the proposal, received another reply")
    return ProposalState(cast(State, answer.state), printable(answer.reason))
