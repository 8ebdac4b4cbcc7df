"""What a peer offers its neighbours, bytes in, bytes out; and its connections to them and to its own daemon.

Formal guarantee: every byte that leaves is a mixture of answers that owners released, a public number, a reply on this
daemon's health, or one of a fixed set of sentences. Mixtures and public numbers leave only to a caller whose
certificate names a neighbour of this owner on the terms' graph (with the key that the settings give for it, if they
do). Mixtures of released answers are post-processing: they tell no more about a person than the answers' own epsilon
and delta.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from parley.data.public_numbers import STEP_TOLERANCE
from parley.errors import ContradictionError, Malformed, Refusal, SettingError, UnknownTerms
from parley.network.exchange import peer_pb2 as wire
from parley.network.exchange.messages import (
    Piece,
    parsed,
    put_numbers,
    read_agreement,
    read_outcome,
    read_piece,
    write_agreement,
)
from parley.network.exchange.remote import RemoteDaemon, RemoteOwner
from parley.network.exchange.share_bundle import CONTENT_PATTERN
from parley.network.identity.certificates import revoked_serials
from parley.network.identity.settings import Identity, OwnerSettings, PeerSettings, Pinned
from parley.network.peering.neighbourhood import Board, Graph, Place, Run
from parley.network.serving.acceptance import Caller
from parley.network.serving.daemon import SEND_TIMEOUT_S, open_files
from parley.network.serving.log import Log
from parley.network.serving.network import Network, exit_if_dead, identity_reminders, maintain
from parley.network.serving.server import (
    WORKER_THREADS,
    CallSlots,
    Endpoint,
    make_server,
    on_network,
    start_serving,
    start_workers,
)
from parley.network.serving.service import Replies, caller_facts
from parley.validate import LARGEST, Floats

SERVICE = "parley.v1.Peer"
MAX_ROUND = 1 << 31
MAX_STEP = 1 << 16
_FLOATS = np.dtype("<f8")


def write_question(terms: str, place: Place) -> bytes:
    """The message that asks what a peer said there."""
    return bytes(wire.PeerQuestion(terms=terms, round=place[0], step=place[1]).SerializeToString())


def read_question(content: bytes) -> tuple[str, Place]:
    """(terms hash, place), or a refusal."""
    message = parsed(wire.PeerQuestion, content)
    if not CONTENT_PATTERN.fullmatch(message.terms) or not 1 <= message.round < MAX_ROUND or message.step >= MAX_STEP:
        raise Malformed("question: expected the hash of the terms, a round from 1 and a step of the round")
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
    """The public numbers that a peer resolved, from a place on, and how far from it everybody has agreed on
    them."""
    reply = wire.PeerReply()
    put_numbers(run.numbers, first, reply.numbers)
    reply.numbers.agreed = agreed
    return bytes(reply.SerializeToString())


def read_numbers(content: bytes, owner: str) -> Piece:
    """The same as they were sent; or the refusal, raised."""
    return read_piece(read_outcome(wire.PeerReply, content, owner, "numbers").numbers, owner)


def write_reply(**outcome: bool | str) -> bytes:
    """Return a reply of one word: `later=True` (not at that place yet) or `alive=NAME`."""
    return bytes(wire.PeerReply(**outcome).SerializeToString())  # type: ignore[arg-type]


def write_refusal(refusal: Refusal) -> bytes:
    """A code for programs, a sentence for people."""
    return bytes(wire.PeerReply(refusal=wire.PeerRefusal(code=refusal.code, sentence=str(refusal))).SerializeToString())


def read_words(content: bytes, run: Run, owner: str, place: Place, shape: tuple[int, int]) -> Floats | None:
    """What this owner's peer said at this place of this run, vectors of this shape; None: not yet; or its refusal,
    raised.

    Formal guarantee: numbers that are returned are finite, at most `LARGEST` in size, and as many as expected; whatever
    else a neighbour sends is a `ContradictionError`, except bytes that are no message, which may be asked for again.
    """
    reply = read_outcome(wire.PeerReply, content, owner)
    outcome, words = reply.WhichOneof("outcome"), reply.words
    if outcome == "later":
        return None
    origin = words.place.terms, (words.place.round, words.place.step), words.owner
    if outcome != "words" or origin != (run.terms_hash, place, owner):
        raise ContradictionError(f"{owner}: expected the message of {name_of(place)}, received another reply")
    # rounded to six digits, at an edge to neighbouring ones
    if not abs(words.length - run.length) <= STEP_TOLERANCE * run.length:
        raise ContradictionError(
            f"{owner}: the neighbour takes steps of {words.length:g}, but this peer takes steps of {run.length:g}, "
            "because the libraries compute different steps; state learning.step in the terms"
        )
    return _vectors(words, owner, place, shape)


def name_of(place: Place) -> str:
    """The name of a place for people to read, such as in a warning."""
    return f"round {place[0]}, step {place[1]}"


def _vectors(words: wire.PeerWords, owner: str, place: Place, shape: tuple[int, int]) -> Floats:
    data = words.data  # each look copies it
    if words.rows != shape[0] or len(data) != 8 * shape[0] * shape[1]:
        raise ContradictionError(
            f"{owner}: expected {shape[0]} x {shape[1]} numbers in the message of {name_of(place)}"
        )
    vectors = np.frombuffer(data, dtype=_FLOATS).astype(np.float64).reshape(shape)
    if not (np.abs(vectors) <= LARGEST).all():
        raise ContradictionError(
            f"{owner}: the message of {name_of(place)} contains numbers that are not finite, or are larger than "
            f"{LARGEST:g}"
        )
    return vectors


LOOPBACK_OF_WILDCARD = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - who listens on all addresses is reached on this machine's own


class RemoteNeighbour(RemoteDaemon):
    """A neighbour's peer: whoever holds the key of the owner's own certificate (`RemoteDaemon`)."""

    service = SERVICE

    def hear(self, run: Run, place: Place, shape: tuple[int, int], timeout: float) -> Floats | None:
        """What it said at this place; None if it has not come to it yet."""
        content = self._call("Hear", write_question(run.terms_hash, place), timeout)
        return read_words(content, run, self.name, place, shape)

    def numbers(self, run: Run, first: int, timeout: float) -> Piece:
        """The public numbers that it resolved, from place `first` on."""
        asked = write_agreement(run.terms_hash, self.name, numbers=first)
        return read_numbers(self._call("Stand", asked, timeout), self.name)


def peer_settings(settings: OwnerSettings) -> tuple[PeerSettings, Identity]:
    """What a peer needs of an owner's settings, or a sentence about what is missing."""
    if settings.peer is None:
        raise SettingError(
            "owner.toml: peer: missing; expected [peer] with `listen`, and [peer.neighbours] with the neighbours' "
            "addresses"
        )
    if settings.identity is None:
        raise SettingError("owner.toml: identity: missing; a peer uses the owner's own certificate (parley certs)")
    return settings.peer, settings.identity


def own_daemon(settings: OwnerSettings) -> RemoteOwner:
    """The connection to the owner's own daemon; nobody is called yet."""
    peer, identity = peer_settings(settings)
    address = peer.daemon or settings.listen
    if address is None:
        raise SettingError("owner.toml: listen: missing; the owner's own peer connects to the daemon at this address")
    host, _, port = address.rpartition(":")
    return RemoteOwner(
        settings.name, f"{LOOPBACK_OF_WILDCARD.get(host, host)}:{port}", identity, revoked=revoked_serials(identity)
    )


def neighbour_connections(
    settings: OwnerSettings, graph: Graph
) -> tuple[list[RemoteNeighbour], Mapping[str, str | None]]:
    """Connections to this owner's neighbours and to nobody else, and the keys that they must show; nobody is called
    yet."""
    peer, identity = peer_settings(settings)
    revoked, connections, keys = revoked_serials(identity), list[RemoteNeighbour](), dict[str, str | None]()
    for name in graph.neighbours(settings.name):
        if name not in peer.neighbours:
            raise SettingError(
                f"owner.toml: peer.neighbours: expected the address of {name!r}, a neighbour in these terms"
            )
        where = peer.neighbours[name]
        address, keys[name] = (where.address, where.fingerprint) if isinstance(where, Pinned) else (where, None)
        connections.append(RemoteNeighbour(name, address, identity, keys[name], revoked))
    return connections, keys


MAX_CALLS_PER_CALLER = 4  # of one caller at once
MAX_QUESTION_BYTES = 1024  # bytes of a question
STOP_GRACE_S = 2.0  # seconds for the last replies
# the same whether the terms or the caller are unknown
NOT_NEIGHBOURS_MESSAGE = "these terms do not make this peer and this caller neighbours"
FAILURE_MESSAGE = "the peer cannot answer at the moment; ask the same question again"
ANSWER_WAIT_S = 2.0  # seconds that a question waits for what is not said yet

HungUp = Callable[[], bool]


class PeerService:
    """What neighbours may call; `keys` are theirs, None where any key that the authority certified for the name will
    do."""

    full_name = SERVICE

    def __init__(
        self, owner: str, run: Run, keys: Mapping[str, str | None], board: Board, end: Place, log: Log
    ) -> None:
        self._owner, self._run, self._keys, self._board, self._end, self._log = owner, run, keys, board, end, log
        self._replies = Replies(log, write_refusal, FAILURE_MESSAGE)
        self._callers = set[str]()  # that were heard of
        self.told = set[str]()  # neighbours that know that this peer has finished

    @property
    def methods(self) -> dict[str, Callable[[bytes, Caller, HungUp], bytes]]:
        return {
            "Hear": lambda content, caller, hung_up: self.hear(content, caller),
            "Stand": lambda content, caller, hung_up: self.stand(content, caller),
        }

    def rejection(self, caller: Caller) -> bytes | None:
        """None for a neighbour; for others the refusal: not even their message is read."""
        name = self._neighbour(caller)
        if name is None:
            self._log.rate_limited("stranger", **caller_facts(caller))
            return write_refusal(UnknownTerms(NOT_NEIGHBOURS_MESSAGE))
        if name not in self._callers:
            self._callers.add(name)
            self._log("neighbour", **caller_facts(caller))
        return None

    def health(self) -> bytes:
        """The reply that says that this peer is there."""
        return write_reply(alive=self._owner)

    def hear(self, content: bytes, caller: Caller) -> bytes:
        """What this peer said at the place in this message. Too many of them to log."""

        def work(facts: dict[str, Any]) -> bytes:
            terms, place = read_question(content)
            name = self._neighbour(caller)
            if terms != self._run.terms_hash or name is None:
                raise UnknownTerms(NOT_NEIGHBOURS_MESSAGE)
            facts |= {"terms": terms, "round": place[0]}
            vectors = self._board.read(place, ANSWER_WAIT_S)
            if vectors is None:
                return write_reply(later=True)
            if place == self._end:
                self.told.add(name)
            return write_words(self._run, self._owner, place, vectors)

        return self._replies.reply(None, caller, work)

    def stand(self, content: bytes, caller: Caller) -> bytes:
        """The public numbers that this peer resolved, which a neighbour compares with its own before anything
        is asked."""

        def work(facts: dict[str, Any]) -> bytes:
            terms, _, _, first = read_agreement(content)
            if terms != self._run.terms_hash or self._neighbour(caller) is None:
                raise UnknownTerms(NOT_NEIGHBOURS_MESSAGE)
            return write_numbers(self._run, max(1, first), self._board.agreed)

        return self._replies.reply(None, caller, work)

    def _neighbour(self, caller: Caller) -> str | None:
        """Which of them calls; None for a stranger, and for somebody with such a name and another key than was written
        down."""
        matching = [name for name in self._keys if name in caller.names]
        return matching[0] if len(matching) == 1 and self._keys[matching[0]] in (None, caller.fingerprint) else None


@contextmanager
def listening(
    name: str, identity: Identity, address: str, service: PeerService, neighbours: int, log: Log
) -> Iterator[int]:
    """Where a peer listens for its neighbours: gRPC over mutual TLS, watched like a daemon's port.

    Answer neighbours at this address until the end of the context; the port.
    """
    open_files()
    network, slots = (
        Network(identity, name, log, lambda: MAX_QUESTION_BYTES),
        CallSlots(MAX_CALLS_PER_CALLER, SEND_TIMEOUT_S),
    )
    over = threading.Event()
    with ExitStack() as after:
        # a question may wait for what is not said yet, and keeps nobody else waiting
        pool = start_workers(WORKER_THREADS + MAX_CALLS_PER_CALLER * neighbours)
        after.callback(pool.shutdown)
        server = make_server(pool)
        endpoint = Endpoint(service, slots, lambda: True, log)
        port = after.enter_context(on_network(server, endpoint, network, address))
        after.callback(lambda: server.stop(STOP_GRACE_S).wait())
        alive = partial(exit_if_dead, start_serving([server]), network, log)
        looking = threading.Thread(
            target=maintain,
            args=(network, identity_reminders(identity), over, log, slots.cancel_overdue, alive),
            name="parley-maintenance",
            daemon=True,
        )
        looking.start()
        after.callback(looking.join)
        after.callback(over.set)
        yield port
