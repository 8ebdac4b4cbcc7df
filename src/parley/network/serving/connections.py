"""The TCP connections to a daemon's port: whose they are, and which are too many. `front.py` carries their bytes.

A connection is *silent* (nothing came yet), *knocking* (it has begun TLS and waits to be let in), *entering* (gRPC has
it, no call came yet) or *served* (a call came, so a certificate of the authority was proven). Strangers get no further
than the third stage.

Formal guarantee: at every look (`front.MIN_CHECK_INTERVAL_S` after one came) there stay at most `MAX_UNSERVED`
connections that are not served (fewer where the system allows few descriptors), `MAX_UNSERVED_PER_ADDRESS` of one
address, and `MAX_ENTERING` with gRPC (twice as many where calls came from their addresses before). The excess is cut,
the oldest connections of the address that has most first, addresses from which calls came last. Each stage ends in time
(`TLS_BEGIN_TIMEOUT_S`, `FIRST_CALL_TIMEOUT_S`). Served connections are never cut for strangers; of one certificate the
`MAX_SERVED_PER_CERTIFICATE` newest stay. A connection with more than `UNACCOUNTED_BYTES` bytes that no message of an
admitted caller accounts for is cut before those bytes reach gRPC, which bounds neither a block of headers nor its
memory. A message accounts for its length, and on its way for that of the longest question that accepted terms can ask.
A message that any member may send accounts for its length (and `MESSAGE_OVERHEAD_BYTES`) once it has come, if that is
no more than it may be, and for nothing before; while one is on its way, no other message accounts for more than its own
length. Whose connection was cut for its bytes, certificate or address, gets no new one for a while (`BAN_RANGE_S`,
twice as long each time). An address from which calls came is not shut out, as others may be behind it: after a flood
its connections are let in one at a time, the oldest first, `SLOWED_ENTRY_INTERVAL_S` apart. What a cut connection was
sending is lost; nothing is answered twice or debited for it.
"""

import heapq
import ipaddress
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from urllib.parse import unquote

from parley.network.serving.acceptance import Caller
from parley.network.serving.log import Log

MAX_UNSERVED = 1024  # connections that are not served
MAX_UNSERVED_PER_ADDRESS = 64  # of these from one address
# of these with gRPC: each takes a handshake's work and memory; addresses from which calls came get as many more
MAX_ENTERING = 32
MAX_ENTERING_PER_ADDRESS = 8
ENTERING_TURN_S = 2.0  # seconds for which a connection keeps its place among them while others wait
TLS_BEGIN_TIMEOUT_S = 10.0  # seconds in which a connection begins TLS
FIRST_CALL_TIMEOUT_S = (
    30.0  # seconds in which it is let in, and again until its first call: a machine under load is slow
)
MAX_SERVED_PER_CERTIFICATE = 8  # connections of one certificate
# bytes that no message accounts for: a window's worth of one not read yet, TLS, headers, pings
UNACCOUNTED_BYTES = (1 << 18) + (1 << 16)
BAN_RANGE_S = (1.0, 10.0)  # seconds, at first and at most
SLOWDOWN_S = 10.0  # seconds after a flood for which an address from which calls came is slowed down
SLOWED_ENTRY_INTERVAL_S = 0.1  # seconds between two connections of such an address that are let in
MESSAGE_OVERHEAD_BYTES = 4096  # bytes around a message: its headers and frames
MAX_KNOWN_ADDRESSES = 4096  # addresses from which calls came that are remembered

FLOOD_REASON = "more bytes than its messages account for"
CROWD_REASON = "too many without a call"

Address = tuple[str, int]
Place = str  # the path of the socket by which gRPC knows a connection
Holder = Caller | str  # a certificate, or the addresses of connections that brought no call yet


class Stage(IntEnum):
    """How far a connection has come."""

    SILENT = 0
    KNOCKING = 1
    ENTERING = 2
    SERVED = 3


@dataclass(eq=False)
class Connection:
    """One connection: its origin, stage and since when, caller, bytes received, and bytes at the last message."""

    remote: Address
    since: float
    stage: Stage = Stage.SILENT
    caller: Caller | None = None
    received: int = 0
    base: int = 0
    expected: int = 0  # messages on their way
    unexpected: int = 0  # on their way, which account for nothing before they have come

    @property
    def holder(self) -> Holder:
        return neighbourhood(self.remote[0]) if self.caller is None else self.caller

    def allowed(self, longest: int) -> int:
        return self.base + UNACCOUNTED_BYTES + self.expected * (longest + MESSAGE_OVERHEAD_BYTES)

    def on_its_way(self, count: int, expected: bool) -> None:
        """Note that `count` more messages are on their way."""
        if expected:
            self.expected += count
        else:
            self.unexpected += count

    def account(self, length: int, around: int) -> None:
        """Account for a message that came, and bytes `around` it unless these may be another's; save up nothing."""
        self.base = min(self.received, self.base + length + (0 if self.unexpected else around))


def address(host: str, port: int) -> Address:
    """Return an address in one form, as the kernel and gRPC write it differently.

    >>> address("::ffff:10.0.0.7", 7443)
    ('10.0.0.7', 7443)
    """
    try:
        ip = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host, port
    return str(getattr(ip, "ipv4_mapped", None) or ip), port


@lru_cache(maxsize=4096)
def neighbourhood(host: str) -> str:
    """Return what counts as one address: of IPv6 the network of 64 bits, which anybody has whole.

    >>> neighbourhood("10.0.0.7"), neighbourhood("2001:db8:1:2:3:4:5:6")
    ('10.0.0.7', '2001:db8:1:2::/64')
    """
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return host
    return host if ip.version == 4 else str(ipaddress.ip_network((ip, 64), strict=False))


@lru_cache(maxsize=1024)
def grpc_place(peer: str) -> Place:
    """Return where gRPC says a connection comes from in this machine; a relay's has no name.

    >>> grpc_place("unix:/run/parley-x/7"), grpc_place("unix:")
    ('/run/parley-x/7', '')
    """
    return unquote(peer).removeprefix("unix:")


def excess(
    connections: Collection[Connection],
    now: float,
    most: int = MAX_UNSERVED,
    known: Collection[str] = (),
    banned: Mapping[Holder, float] | None = None,
) -> dict[Connection, str]:
    """Return the connections to cut, and why; calls came from `known` addresses, `banned` ones must wait until then."""
    why: dict[Connection, str] = {}
    served, others = defaultdict[Caller, list[Connection]](list), defaultdict[str, list[Connection]](list)
    for connection in connections:
        if (banned or {}).get(connection.holder, now) > now:
            why[connection] = "flooded before"
        elif connection.stage is Stage.SERVED and connection.caller is not None:
            served[connection.caller].append(connection)
        elif now - connection.since > (
            TLS_BEGIN_TIMEOUT_S if connection.stage is Stage.SILENT else FIRST_CALL_TIMEOUT_S
        ):
            why[connection] = "no TLS" if connection.stage is Stage.SILENT else "no call"
        else:
            others[neighbourhood(connection.remote[0])].append(connection)
    for held in served.values():
        for connection in sorted(held, key=lambda connection: connection.since, reverse=True)[
            MAX_SERVED_PER_CERTIFICATE:
        ]:
            why[connection] = "too many of one certificate"
    for group in others.values():
        group.sort(key=lambda connection: (connection.stage, connection.since))  # who came further, and later, stays
        while len(group) > MAX_UNSERVED_PER_ADDRESS:
            why[group.pop(0)] = CROWD_REASON
    largest = [(name in known, -len(group), name) for name, group in others.items()]
    heapq.heapify(largest)
    for _ in range(sum(map(len, others.values())) - most):
        mine, _, name = heapq.heappop(largest)
        why[others[name].pop(0)] = CROWD_REASON
        if others[name]:
            heapq.heappush(largest, (mine, -len(others[name]), name))
    return why


def let_in(
    connections: Collection[Connection], now: float, known: Collection[str] = ()
) -> tuple[list[Connection], list[Connection]]:
    """Return (the knocking connections that gRPC gets next, the entering ones that must leave for them). Known
    addresses come first, then those with the fewest connections inside, newest first: under a flood the oldest have
    been given up. A connection that had its `ENTERING_TURN_S` leaves for one whose address has fewer inside, or is
    known where its own is not; or for one of its own address, if that has all its places taken."""
    inside: list[Connection] = [connection for connection in connections if connection.stage is Stage.ENTERING]
    count = Counter(neighbourhood(connection.remote[0]) for connection in inside)

    def rank(connection: Connection) -> tuple[bool, int]:
        name = neighbourhood(connection.remote[0])
        return name not in known, count[name]

    entering: list[Connection] = []
    leaving: list[Connection] = []
    waiting = [connection for connection in connections if connection.stage is Stage.KNOCKING]
    for connection in sorted(waiting, key=lambda connection: (rank(connection), -connection.since)):
        name = neighbourhood(connection.remote[0])
        crowded = count[name] >= MAX_ENTERING_PER_ADDRESS
        if crowded or len(inside) - len(leaving) + len(entering) >= (
            2 * MAX_ENTERING if name in known else MAX_ENTERING
        ):
            had_turn = [each for each in inside if each not in leaving and now - each.since > ENTERING_TURN_S]
            if crowded:
                old = [each for each in had_turn if neighbourhood(each.remote[0]) == name]
            else:
                old = [each for each in had_turn if rank(each) > rank(connection)]
            if not old and crowded:
                continue
            if not old:
                break
            leaving.append(max(old, key=lambda each: (rank(each), -each.since)))
            count[neighbourhood(leaving[-1].remote[0])] -= 1
        entering.append(connection)
        count[name] += 1
    return entering, leaving


class Connections:
    """The connections to one port of this process; `front.Front` alone adds and removes some."""

    def __init__(self, log: Log, longest: Callable[[], int]) -> None:
        """`longest` is the length of the longest question that anybody may ask at the moment."""
        self._log, self._longest, self._lock = log, longest, threading.Lock()
        self._connections: dict[Connection, None] = {}
        self._inside: dict[Place, Connection] = {}
        self._known: OrderedDict[str, None] = OrderedDict()
        self._banned: dict[Holder, float] = {}
        self._ban_lengths: dict[Holder, float] = {}
        self._slowed: dict[str, tuple[float, float]] = {}  # by address: until when, and when the next one is let in
        self.on_served: Callable[[], None] = lambda: None  # a place is free

    def __len__(self) -> int:
        return len(self._connections)

    def stages(self) -> dict[str, int]:
        """Return how many connections are in each stage."""
        with self._lock:
            counts = Counter(connection.stage for connection in self._connections)
        return {stage.name.lower(): counts[stage] for stage in Stage}

    def origin(self, place: Place) -> Address | None:
        """Return the remote address of gRPC's connection at this place; None if it did not come by the front."""
        with self._lock:
            connection = self._inside.get(place)
        return None if connection is None else connection.remote

    def assign(self, place: Place, caller: Caller) -> None:
        """Note that a call of this caller came on the connection."""
        with self._lock:
            connection = self._inside.get(place)
            if connection is None:
                return
            first = connection.stage is not Stage.SERVED
            if first:
                connection.stage, connection.since = Stage.SERVED, time.monotonic()
            connection.caller = caller
            self._known[neighbourhood(connection.remote[0])] = None
            self._known.move_to_end(neighbourhood(connection.remote[0]))
            if len(self._known) > MAX_KNOWN_ADDRESSES:
                self._known.popitem(last=False)
        if first:
            self.on_served()

    def message(self, place: Place, read: Callable[[], bytes], longest: int | None = None) -> bytes:
        """Read a message of an admitted caller. One with a `longest` any member may send: it must fit in the bytes that
        no message accounts for, and a longer one accounts for nothing."""
        with self._lock:
            connection = self._inside.get(place) or Connection(("", 0), 0.0)
            connection.on_its_way(1, longest is None)
        content = b""
        try:
            content = read()
        finally:
            with self._lock:
                connection.on_its_way(-1, longest is None)
                if content and (longest is None or len(content) <= longest):
                    connection.account(len(content), connection.received if longest is None else MESSAGE_OVERHEAD_BYTES)
        return content

    def add(self, remote: Address) -> Connection | None:
        """Add a connection that came; None if its address has to wait."""
        connection = Connection(remote, time.monotonic())
        with self._lock:
            if self._banned.get(connection.holder, 0.0) > connection.since:
                return None
            self._connections[connection] = None
        return connection

    def move(self, connection: Connection, stage: Stage, place: Place | None = None) -> None:
        """Move the connection to this stage; gRPC knows it by this place."""
        with self._lock:
            connection.stage, connection.since = stage, time.monotonic()
            if place is not None:
                self._inside[place] = connection

    def remove(self, connection: Connection, place: Place | None) -> None:
        """Forget a connection that was closed."""
        with self._lock:
            self._connections.pop(connection, None)
            if place is not None:
                self._inside.pop(place, None)

    def count(self, connection: Connection, size: int) -> bool:
        """Count bytes that came; return whether they may pass. If not, their sender waits for new connections."""
        with self._lock:
            connection.received += size
            if connection.received <= connection.allowed(self._longest()):
                return True
            self._punish(connection.holder, time.monotonic())
            return False

    def look(self, most: int = MAX_UNSERVED) -> tuple[dict[Connection, str], list[Connection]]:
        """Return (the connections to cut now, and why; those to let in)."""
        now = time.monotonic()
        with self._lock:
            why = excess(self._connections, now, most, self._known, self._banned)
            staying = self._paced([each for each in self._connections if each not in why], now)
            entering, leaving = let_in(staying, now, self._known)
            for name in {neighbourhood(each.remote[0]) for each in entering} & self._slowed.keys():
                self._slowed[name] = self._slowed[name][0], now + SLOWED_ENTRY_INTERVAL_S
        return why | dict.fromkeys(leaving, "others wait"), entering

    def report(self, connections: Mapping[Connection, str]) -> None:
        """Log connections that were cut."""
        for connection, reason in connections.items():
            name = None if connection.caller is None else ",".join(connection.caller.names)
            self._log.rate_limited("line-cut", caller=name, reason=reason, peer=connection.remote[0])

    def trouble(self, kind: str) -> None:
        """Log an error by its kind, as its text could quote anything."""
        self._log.rate_limited("line-trouble", reason=kind)

    def _paced(self, connections: list[Connection], now: float) -> list[Connection]:
        """Return these, but of a slowed address's knocking ones only the oldest, once due."""
        self._slowed = {name: slow for name, slow in self._slowed.items() if slow[0] > now}
        if not self._slowed:
            return connections
        first: dict[str, Connection] = {}
        others = []
        for connection in connections:  # as they came
            name = neighbourhood(connection.remote[0])
            if connection.stage is not Stage.KNOCKING or name not in self._slowed:
                others.append(connection)
            elif now >= self._slowed[name][1]:
                first.setdefault(name, connection)
        return [*others, *first.values()]

    def _punish(self, who: Holder, now: float) -> None:
        """Make a flooder wait for new connections, or at a shared address for a turn."""
        if isinstance(who, str) and who in self._known:
            self._slowed[who] = now + SLOWDOWN_S, max(now, self._slowed.get(who, (0.0, now))[1])
        else:
            self._ban(who, now)

    def _ban(self, who: Holder, now: float) -> None:
        """Allow no new connections for a while, twice as long if the last ban was recent."""
        if self._banned.get(who, now) > now:
            return
        for other, until in list(self._banned.items()):
            if now - until > BAN_RANGE_S[1]:  # it has behaved since
                del self._banned[other], self._ban_lengths[other]
        length = min(2 * self._ban_lengths.get(who, BAN_RANGE_S[0] / 2), BAN_RANGE_S[1])
        self._banned[who], self._ban_lengths[who] = now + length, length
