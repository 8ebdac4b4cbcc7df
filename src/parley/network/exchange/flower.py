"""Parley over an existing Flower federation, which carries the messages; the owners' daemons stay as they are. The
ServerApp is the learner. The ClientApp, which Flower runs beside each owner, only relays bytes to the daemon's Unix
socket and its reply back. So code that a run's submitter sends to an owner meets no data, no ledger and no noise; run
as another user than the daemon, it can at most ask, and gain answers that were accepted and debited. Node settings:
socket (the path of the daemon's)."""

import threading
import time

import grpc
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from parley.errors import ExchangeError, ParleyError, Unavailable
from parley.network.exchange import MAX_MESSAGE_BYTES, messages
from parley.network.exchange.messages import SERVICE, AccountStatement, AnswerReply, Piece
from parley.network.exchange.remote import Seen
from parley.protocol.queries import Query

METHODS = ("Ask", "Stand", "Health")
POLL_INTERVAL_S = 0.1  # seconds between two looks for replies
RETRY_PAUSE_S = 2.0  # seconds before a node that failed is asked again
RECORD_NAME = "parley"  # the record's name

client_app = ClientApp()


@client_app.query()  # type: ignore[untyped-decorator]
def relay(message: Message, context: Context) -> Message:
    """Hand the message to the owner's daemon; on any error only a fixed sentence travels."""
    try:
        request = message.content[RECORD_NAME]
        method = METHODS[METHODS.index(str(request["method"]))]
        options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
        with grpc.insecure_channel(f"unix:{context.node_config['socket']}", options=options) as channel:
            reply = channel.unary_unary(f"/{SERVICE}/{method}")(request["content"], timeout=600)
    except Exception:  # its text could travel to the learner
        reply = messages.write_refusal(Unavailable("the relay did not reach the owner's daemon"))
    return Message(RecordDict({RECORD_NAME: ConfigRecord({"content": reply})}), reply_to=message)


class Carrier:
    """Brings bytes to a node and its reply back; threads share one grid."""

    def __init__(self, grid: Grid) -> None:
        self._grid, self._lock = grid, threading.Lock()

    def nodes(self) -> list[int]:
        with self._lock:
            return list(self._grid.get_node_ids())

    def send(self, node: int, method: str, content: bytes, timeout: float) -> str:
        """Hand a message to Flower; return the id by which its reply can be fetched."""
        record = RecordDict({RECORD_NAME: ConfigRecord({"method": method, "content": content})})
        message = Message(record, dst_node_id=node, message_type="query", ttl=timeout)
        with self._lock:
            sent = next(iter(self._grid.push_messages([message])), None)
        if not sent:
            raise Unavailable(
                f"node {node}: the federation accepts no message for this node; check that the node is connected"
            )
        return str(sent)

    def fetch(self, node: int, sent: str) -> bytes | None:
        """Return the reply if it is there; `Unavailable` if it failed or is not Parley's: a node may run any app."""
        with self._lock:
            replies = list(self._grid.pull_messages([sent]))
        if not replies:
            return None
        content = None if replies[0].has_error() else replies[0].content.get(RECORD_NAME)
        reply = content.get("content") if isinstance(content, ConfigRecord) else None
        if not isinstance(reply, bytes):
            raise Unavailable(f"node {node}: the node's relay failed, or the node does not run Parley's relay")
        return reply

    def carry(self, node: int, method: str, content: bytes, timeout: float) -> bytes:
        until, sent = time.monotonic() + timeout, self.send(node, method, content, timeout)
        while time.monotonic() < until:
            reply = self.fetch(node, sent)
            if reply is not None:
                return reply
            time.sleep(POLL_INTERVAL_S)
        raise Unavailable(f"node {node}: no reply arrived within {timeout:g} s")


class FlowerOwner(Seen):
    """An owner behind a node of a Flower federation."""

    def __init__(self, name: str, node: int, carrier: Carrier) -> None:
        self.name, self._node, self._carrier = name, node, carrier

    def ask(self, query: Query, records: int, size: int, timeout: float) -> AnswerReply:
        reply = self._carrier.carry(self._node, "Ask", messages.write_query(query, self.seen_end(query)), timeout)
        return messages.read_answer(reply, query, self.name, records, size)

    def statement(self, terms: str, learner: str, timeout: float, entries: int = 0) -> AccountStatement:
        reply = self._carrier.carry(self._node, "Stand", messages.write_agreement(terms, learner, entries), timeout)
        return messages.read_statement(reply, self.name)

    def numbers(self, terms: str, learner: str, timeout: float, first: int) -> Piece | None:
        reply = self._carrier.carry(
            self._node, "Stand", messages.write_agreement(terms, learner, numbers=first), timeout
        )
        return messages.read_numbers(reply, self.name)

    def close(self) -> None:
        """Close nothing: the grid belongs to Flower."""


def find_owners(carrier: Carrier, names: list[str], deadline: float) -> list[FlowerOwner]:
    """Find the owners of the terms among the federation's nodes, each by the word of its daemon. All nodes are asked at
    once, and failed ones again after a pause until the deadline, because a daemon may come up late. Flower's node keys
    do not say which node is which owner."""
    owners: dict[str, FlowerOwner] = {}
    message_ids: dict[int, str | None] = {}  # None: it had its say
    rests: dict[int, float] = {}  # until when a node that failed is left alone
    until = time.monotonic() + deadline
    while len(owners) < len(names) and time.monotonic() < until:
        for node in carrier.nodes():
            if rests.get(node, 0.0) > time.monotonic():
                continue
            try:
                if node not in message_ids:
                    message_ids[node] = carrier.send(node, "Health", b"", deadline)
                sent = message_ids[node]
                reply = None if sent is None else carrier.fetch(node, sent)
                if reply is None:
                    continue
                name = messages.read_health(reply)
            except ParleyError:
                message_ids.pop(node, None)
                rests[node] = time.monotonic() + RETRY_PAUSE_S
                continue
            message_ids[node] = None
            if name in owners:
                raise ExchangeError(f"two nodes of the federation claim to be {name!r}; stop the wrong node")
            if name in names:
                owners[name] = FlowerOwner(name, node, carrier)
        time.sleep(POLL_INTERVAL_S)
    missing = [name for name in names if name not in owners]
    if missing:
        raise ExchangeError(
            f"no node of the federation claims to be {', '.join(missing)}; check that the daemons and relays of these "
            "owners run"
        )
    return list(owners.values())
