"""An owner's neighbours on the graph: what is said to them and heard from them, however often connections break.
Everybody says its words at a place and then hears its neighbours' there, so nobody is more than one place ahead of a
neighbour. Nothing is pushed: a peer that was killed asks again, and hears the same."""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol, TypeVar

import numpy as np

from parley.data.public_numbers import PublicNumbers
from parley.errors import (
    ContradictionError,
    ExchangeError,
    GuaranteeError,
    Malformed,
    NotOffered,
    OutOfOrder,
    Refusal,
    Unavailable,
)
from parley.network.exchange import MAX_MESSAGE_BYTES
from parley.network.exchange.messages import Piece, require_agreed, silent
from parley.terms.topology import Edges
from parley.validate import Floats

Place = tuple[int, int]  # a round, and a step of it: 0 and 1 in training; afterwards how far what is passed on has come


@dataclass(frozen=True)
class Run:
    """What neighbours must agree on before their words count: the terms, the length of a step, public numbers."""

    terms_hash: str
    length: float
    numbers: PublicNumbers = field(default=PublicNumbers({}, {}), compare=False)


def require_short(rows: int, numbers: int) -> None:
    """Refuse vectors that no message could carry."""
    if 8 * rows * numbers + 1024 > MAX_MESSAGE_BYTES:
        raise Malformed(
            f"model: {rows} vectors of {numbers} numbers do not fit into a message of at most {MAX_MESSAGE_BYTES} "
            "bytes; use a smaller model"
        )


class Board:
    """Vectors by place. A neighbour is at most a step away, or after a crash at its round's start, so only the round
    before this one is kept."""

    def __init__(self, first: int = 1) -> None:
        self._first, self._said = first, dict[Place, Floats]()
        self._changed = threading.Condition()
        # everybody that is fewer edges away found the public numbers of all its neighbours to be its own
        self.agreed = 0

    def say(self, place: Place, vectors: Floats) -> None:
        """Say this there from now on; refuse to change it, as a neighbour may have heard it."""
        with self._changed:
            before = self._said.setdefault(place, vectors.copy())
            if before.tobytes() != vectors.tobytes():
                raise GuaranteeError(
                    f"round {place[0]}: this peer sent different numbers before, so it sent nothing now"
                )
            self._changed.notify_all()

    def read(self, place: Place, patience: float) -> Floats | None:
        """Return what was said there, after at most `patience` seconds, or None; refuse places that were forgotten."""
        with self._changed:
            self._changed.wait_for(lambda: place in self._said or place[0] < self._first, patience)
            if place in self._said:
                return self._said[place]
            if place[0] < self._first:
                raise OutOfOrder(
                    f"round {place[0]} is over for this peer, which stores rounds from {self._first} on. Put the "
                    "latest checkpoint back. If the checkpoint is lost, all peers must move their checkpoints away "
                    "and begin again. Beginning again costs no budget while the owners keep all answers"
                )
            return None

    def forget(self, before: int) -> None:
        """Let go of rounds before this one."""
        with self._changed:
            self._first = max(self._first, before)
            for place in [place for place in self._said if place[0] < self._first]:
                del self._said[place]
            self._changed.notify_all()


@dataclass(frozen=True)
class Graph:
    """Owners in the order of the terms, and who is joined to whom.

    >>> ring = Graph(tuple("abcd"), (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")))
    >>> ring.neighbours("a"), ring.at("a", 2), ring.diameter
    (('b', 'd'), ('c',), 2)
    """

    names: tuple[str, ...]
    joined: Edges

    def neighbours(self, name: str) -> tuple[str, ...]:
        """Return the owners next to this one on the graph."""
        return tuple(other for other in self.names if other in self._near[name])

    def at(self, name: str, distance: int) -> tuple[str, ...]:
        """Return the owners this many edges away."""
        return tuple(other for other in self.names if self._distances[name][other] == distance)

    @cached_property
    def diameter(self) -> int:
        """The largest distance between two owners."""
        return max(far for distances in self._distances.values() for far in distances.values())

    @cached_property
    def _near(self) -> Mapping[str, frozenset[str]]:
        return {
            name: frozenset(end for pair in self.joined if name in pair for end in pair) - {name} for name in self.names
        }

    @cached_property
    def _distances(self) -> Mapping[str, Mapping[str, int]]:
        return {name: self._from(name) for name in self.names}

    def _from(self, name: str) -> Mapping[str, int]:
        distances, front, far = {name: 0}, {name}, 0
        while front and len(distances) < len(self.names):
            far += 1
            front = {other for each in front for other in self._near[each]} - distances.keys()
            distances |= dict.fromkeys(front, far)
        return distances


CALL_TIMEOUT_S = 15.0  # seconds for one call; a neighbour that has not said it yet replies sooner
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between two attempts
REFUSAL_LINGER_S = 5.0  # seconds that a peer stays which will not begin

Shape = tuple[int, int]
T = TypeVar("T")


class Connection(Protocol):
    """A connection to a neighbour's peer, as the neighbourhood uses it."""

    @property
    def name(self) -> str: ...
    def hear(self, run: Run, place: Place, shape: Shape, timeout: float) -> Floats | None: ...
    def numbers(self, run: Run, first: int, timeout: float) -> Piece: ...
    def close(self) -> None: ...


class Neighbourhood:
    """This owner's peer among its neighbours; `stops`: one that is late for `deadline` seconds ends the run."""

    def __init__(
        self,
        owner: str,
        graph: Graph,
        run: Run,
        connections: Sequence[Connection],
        board: Board,
        deadline: float,
        warn: Callable[[str], None],
        stops: bool = False,
    ) -> None:
        self.owner, self.graph, self.board = owner, graph, board
        self._run, self._deadline, self._warn, self._stops = run, deadline, warn, stops
        self._connections = {connection.name: connection for connection in connections}
        if set(self._connections) != set(graph.neighbours(owner)):
            raise ExchangeError(
                f"neighbours: expected addresses of {owner}'s neighbours {graph.neighbours(owner)}, found "
                f"{sorted(self._connections)}"
            )
        self._pool = ThreadPoolExecutor(max(1, len(self._connections)), thread_name_prefix="parley-neighbour")
        self._over = threading.Event()

    def agree(self, number: int) -> None:
        """Refuse neighbours with other public numbers before round `number`, and wait until everybody on the graph
        agrees. Everybody says how far from it all have agreed: one edge further than all of its neighbours say. A peer
        that refuses stays for a moment, so that its neighbours can see why."""
        when, troubles = f"before round {number}", dict[str, str]()
        try:
            self._all(
                {name: partial(self._compare, connection, troubles) for name, connection in self._connections.items()},
                when,
                troubles,
            )
        except ContradictionError:
            time.sleep(min(self._deadline, REFUSAL_LINGER_S))
            raise
        for far in range(1, self.graph.diameter + 1):
            self.board.agreed = far
            self._all(
                {
                    name: partial(self._agreed, connection, far, troubles)
                    for name, connection in self._connections.items()
                },
                when,
                troubles,
            )
        self.agreed()

    def agreed(self) -> None:
        """Say that there is nothing left to compare."""
        self.board.agreed = self.graph.diameter + 1

    def exchange(self, place: Place, said: Floats) -> Floats:
        """Say this [1, P]; return what the neighbours and this owner said there, in the order of the terms [J, P]."""
        self.board.say(place, said)
        vectors = self._hear(place, dict.fromkeys(self._connections, (1, said.shape[-1]))) | {self.owner: said}
        return np.concatenate([vectors[name] for name in self.graph.names if name in vectors])

    def spread(self, number: int, vector: Floats) -> dict[str, Floats]:
        """Return every owner's vector [P], passed on from neighbour to neighbour; this owner's is `vector`. In step h
        everybody passes on the words of owners h - 1 edges away. Words that come on two ways must be the same."""
        graph, known = self.graph, {self.owner: vector}
        for step in range(1, graph.diameter + 1):
            own = graph.at(self.owner, step - 1)
            if own:
                self.board.say((number, step), np.stack([known[name] for name in own]))
            told = {name: graph.at(name, step - 1) for name in self._connections}
            received = self._hear(
                (number, step), {name: (len(about), len(vector)) for name, about in told.items() if about}
            )
            for name, vectors in received.items():
                for about, words in zip(told[name], vectors, strict=True):
                    if known.setdefault(about, words).tobytes() != words.tobytes():
                        raise ContradictionError(
                            f"{name} and others report different values for {about}; one of these peers did not pass "
                            "on the values that it received"
                        )
        return {name: known[name] for name in graph.names}

    def repeat(self, number: int, vectors: Mapping[str, Floats]) -> None:
        """Say what `spread` said, for neighbours that still need it."""
        for step in range(1, self.graph.diameter + 1):
            own = [vectors[name] for name in self.graph.at(self.owner, step - 1) if name in vectors]
            if own:
                self.board.say((number, step), np.stack(own))

    def finish(self, place: Place, told: Collection[str]) -> list[str]:
        """Say that this peer is done, stay until its neighbours are and know it (`told`), and name those not heard."""
        self.board.say(place, np.empty((0, 1)))
        calls = {
            name: self._pool.submit(self._finished, connection, place) for name, connection in self._connections.items()
        }
        ended = [name for name, call in calls.items() if call.result()]
        due = time.monotonic() + self._deadline
        while not set(ended) <= set(told) and time.monotonic() < due:
            time.sleep(FIRST_PAUSE)
        return [name for name in self._connections if name not in ended]

    def close(self) -> None:
        """Close the connections; calls under way end."""
        self._over.set()
        for connection in self._connections.values():
            connection.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _hear(self, place: Place, shapes: Mapping[str, Shape]) -> dict[str, Floats]:
        """Return what these neighbours said there, however long it takes."""
        for rows, numbers in shapes.values():
            require_short(rows, numbers)
        troubles: dict[str, str] = {}
        calls = {
            name: partial(self._ask, self._connections[name], place, shape, troubles) for name, shape in shapes.items()
        }
        return self._all(calls, f"round {place[0]}", troubles)

    def _all(self, actions: Mapping[str, Callable[[], T]], when: str, troubles: Mapping[str, str]) -> dict[str, T]:
        """Make these calls at once and return their results, however long it takes."""
        calls = {name: self._pool.submit(call) for name, call in actions.items()}
        while True:
            done, late = wait(calls.values(), timeout=self._deadline, return_when=FIRST_EXCEPTION)
            failed = next((error for call in done if (error := call.exception()) is not None), None)
            if failed is not None:
                self._over.set()
                raise failed
            if not late:
                return {name: call.result() for name, call in calls.items()}
            absent = "; ".join(
                troubles.get(name, f"{name}: no word yet") for name, call in calls.items() if call in late
            )
            if self._stops:
                self._over.set()
                raise ExchangeError(
                    f"{when}: not all neighbours replied within {self._deadline:g} s, so the run stops "
                    f"(learning.straggler = 'stop'): {absent}"
                )
            self._warn(f"{when}: waiting for neighbours: {absent}")

    def _compare(self, connection: Connection, troubles: dict[str, str]) -> bool:
        """Refuse a neighbour with other public numbers, asked until it reports them."""

        def compared() -> bool:
            if not require_agreed(
                self._run.numbers, connection.name, lambda first: connection.numbers(self._run, first, CALL_TIMEOUT_S)
            ):
                self._warn(silent(connection.name))
            return True

        return self._until(connection, compared, troubles)

    def _agreed(self, connection: Connection, far: int, troubles: dict[str, str]) -> bool:
        """Wait until everybody fewer than `far` edges from this neighbour has agreed."""
        beyond = self._run.numbers.data.size + 1  # none of its numbers again

        def agreed() -> bool:
            troubles[connection.name] = f"{connection.name}: not everybody near it has compared public numbers yet"
            try:
                return connection.numbers(self._run, beyond, CALL_TIMEOUT_S).agreed >= far
            except NotOffered:
                return True

        return self._until(connection, agreed, troubles)

    def _until(self, connection: Connection, done: Callable[[], bool], troubles: dict[str, str]) -> bool:
        pause = FIRST_PAUSE
        while True:
            try:
                if done():
                    return True
            except Unavailable as trouble:
                troubles[connection.name] = str(trouble)
            except Refusal as refusal:
                raise ExchangeError(f"this peer cannot compare public numbers with a neighbour: {refusal}") from None
            if self._over.wait(pause):
                raise Unavailable(f"{connection.name}: the run no longer waits for this peer")
            pause = min(2 * pause, LONGEST_PAUSE)

    def _ask(self, connection: Connection, place: Place, shape: Shape, troubles: dict[str, str]) -> Floats:
        """Return one neighbour's words, asked for again while that may help."""
        pause = FIRST_PAUSE
        while True:
            try:
                words = connection.hear(self._run, place, shape, CALL_TIMEOUT_S)
                if words is not None:
                    return words
                troubles[connection.name] = f"{connection.name}: has not come to it yet"
                pause = 0.0
            except Unavailable as trouble:
                troubles[connection.name] = str(trouble)
                pause = min(2 * max(pause, FIRST_PAUSE), LONGEST_PAUSE)
            except OutOfOrder as refusal:
                raise ExchangeError(str(refusal)) from None
            except Refusal as refusal:
                raise ExchangeError(f"round {place[0]}: the run stops. {refusal}") from None
            if self._over.wait(pause):
                raise Unavailable(f"{connection.name}: the run no longer waits for this peer")

    def _finished(self, connection: Connection, place: Place) -> bool:
        """Whether this neighbour is done, asked until it is gone for `deadline` seconds."""
        alive = time.monotonic()
        while time.monotonic() - alive < self._deadline and not self._over.is_set():
            try:
                if connection.hear(self._run, place, (0, 1), CALL_TIMEOUT_S) is not None:
                    return True
                alive = time.monotonic()
            except (Refusal, ContradictionError):
                self._over.wait(4 * FIRST_PAUSE)
        return False
