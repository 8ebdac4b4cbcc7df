"""Sums over pieces of a table on the owner's own Dask cluster, whose workers keep their pieces between rounds.

Pieces are divided among the workers, and their sums are added up in the order of the pieces: a result does not depend
on the number of workers.

Formal guarantee: rows never leave the memory of the process that read them. Objects that hold rows refuse to be
pickled, so Dask, whatever its settings, can neither send them to another worker nor spill them to a disk. Before a
worker reads a row, it is told not to spill sums (`stay_in_memory`), or refused.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NoReturn, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from parley.data.blocks import add, one_blas_thread
from parley.errors import GuaranteeError, SettingError, Unavailable
from parley.validate import Floats

KEPT_MEMORY_SHARE = 0.5  # of a worker's memory limit, for rows that it keeps
FULL_MEMORY_SHARE = 0.7  # of it, beyond which nothing more is kept: Dask lets a worker pause at 0.8
MAX_BATCH_BYTES = 32 << 20  # bytes of sums that travel at once

B = TypeVar("B")
P = TypeVar("P")
B_co = TypeVar("B_co", covariant=True)
P_contra = TypeVar("P_contra", contravariant=True)


class Reader(Protocol[P_contra, B_co]):
    """Reads pieces of a table, block by block."""

    def blocks(self, piece: P_contra, /) -> Iterator[B_co]: ...
    def held(self, piece: P_contra, /) -> Sequence[B_co]: ...
    def size(self, piece: P_contra, /) -> int: ...


class Held(ABC):
    """Rows or pieces held by one worker, never pickled."""

    def __init__(self) -> None:
        stay_in_memory()

    def __reduce__(self) -> NoReturn:
        raise TypeError("rows must stay in the memory of the worker that read them")

    def sums(self, part: Callable[[Any], Floats], first: int) -> list[Floats]:
        """Return one sum for each of its pieces from number `first` on, as many as travel at once."""
        values, size = list[Floats](), 0
        with one_blas_thread():
            for value in self._sums(part, first):
                values.append(value)
                size += value.nbytes
                if size >= MAX_BATCH_BYTES:
                    break
        return values

    @abstractmethod
    def _sums(self, part: Callable[[Any], Floats], first: int) -> Iterator[Floats]:
        """Yield those sums one by one."""


class HeldBlocks(Held, Generic[B]):
    """Blocks of a table in a study, each a piece of its own."""

    def __init__(self, blocks: Sequence[B]) -> None:
        super().__init__()
        self._blocks = blocks

    def _sums(self, part: Callable[[B], Floats], first: int) -> Iterator[Floats]:
        return map(part, self._blocks[first:])


class HeldPieces(Held, Generic[P, B]):
    """Pieces of a table on a disk, kept in memory from their second sum on if there is room."""

    def __init__(self, reader: Reader[P, B], pieces: Sequence[P]) -> None:
        super().__init__()
        self._reader, self._pieces = reader, pieces
        self._kept: dict[int, Sequence[B]] = {}
        self._read, self.reserved, self._keeping = set[int](), 0, threading.Lock()
        _holders.add(self)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.reserved

    def _sums(self, part: Callable[[B], Floats], first: int) -> Iterator[Floats]:
        return (add(map(part, self._blocks(number))) for number in range(first, len(self._pieces)))

    def _blocks(self, number: int) -> Iterable[B]:
        piece, again = self._pieces[number], number in self._read
        self._read.add(number)
        if not again:
            return self._reader.blocks(piece)
        with self._keeping:  # who asks at the same time waits, rather than read it too
            if number not in self._kept and self._reserve(self._reader.size(piece)):
                try:
                    self._kept[number] = self._reader.held(piece)
                except BaseException:
                    self.reserved -= self._reader.size(piece)
                    raise
        return self._kept.get(number) or self._reader.blocks(piece)

    def _reserve(self, size: int) -> bool:
        """Reserve so many bytes; False if there is no room."""
        with _reserving:
            limit, used = memory()
            if (
                sum(holder.reserved for holder in _holders) + size > KEPT_MEMORY_SHARE * limit
                or used + size > FULL_MEMORY_SHARE * limit
            ):
                return False
            self.reserved += size
            return True


_holders: WeakSet[HeldPieces[Any, Any]] = WeakSet()  # of this process
_reserving = threading.Lock()


def memory() -> tuple[int, int]:
    """Return (bytes that this worker may use, bytes that its process uses)."""
    from distributed import get_worker
    from distributed.system import MEMORY_LIMIT

    worker: Any = get_worker()
    return worker.memory_manager.memory_limit or MEMORY_LIMIT, worker.monitor.get_process_memory()


def stay_in_memory() -> None:
    """Keep this worker from writing what it holds to its disk; refuse a worker that may still do so."""
    from distributed import get_worker
    from distributed.spill import SpillBuffer

    worker: Any = get_worker()
    manager = worker.memory_manager
    if isinstance(manager.data, SpillBuffer):
        manager.memory_target_fraction = manager.memory_spill_fraction = False
        manager.data.n = float("inf")
    if spills(worker):
        raise GuaranteeError(
            "cluster: a worker could write exact sums to its disk; set distributed.worker.memory.target and "
            "distributed.worker.memory.spill to False and start the worker again"
        )


def spills(worker: Any) -> bool:
    """Whether a Dask worker may write what it holds to its disk."""
    manager = worker.memory_manager
    if isinstance(manager.data, dict):
        return False
    return not (manager.memory_spill_fraction is False and getattr(manager.data, "n", 0) == float("inf"))


CONNECT_TIMEOUT_S = 10.0  # at the start
RECONNECT_TIMEOUT_S = 30.0  # to a scheduler that was there before, and again to its first worker
RETRY_S = 0.2  # between two attempts
WORKER_CHECK_INTERVAL_S = 5.0  # seconds after which it is asked whether all workers are still there
MAX_ARRIVAL_CHECKS = (
    12  # times as long may sums travel that are there: who waits without end waits for a lost worker's for ever
)
MAX_ATTEMPTS = 3  # of one sum, where workers or the connection are lost, and of its way here


Connect = Callable[[float], Any]  # a client of the scheduler, which has so many seconds to answer; else an OSError

_thread = threading.local()


class _WorkerLost(Exception):  # noqa: N818 - never seen outside
    """A worker is gone with what it held."""


class _ConnectionLost(Exception):  # noqa: N818 - never seen outside
    """The scheduler, or the connection to it, is gone with all that was dealt out."""


@dataclass(frozen=True, eq=False)
class Dealt:
    """The workers' threads and what each of them holds; freed with this object."""

    client: Any
    threads: Mapping[str, int]
    seats: tuple[str, ...]
    holders: tuple[Any, ...]


class Cluster:
    """A connection to a Dask scheduler, renewed when it is lost, and what workers hold of tables for it."""

    def __init__(self, connect: Connect) -> None:
        self._connect, self._client = connect, connect(CONNECT_TIMEOUT_S)
        self._dealt: WeakKeyDictionary[object, Dealt] = WeakKeyDictionary()  # by table: gone with it
        self._connecting, self._dealing = threading.Lock(), threading.Lock()
        self._failed_at = 0.0  # when a scheduler that was lost was last waited for in vain

    def sum(
        self, table: object, hold: Callable[[Sequence[P]], Held], pieces: Sequence[P], part: Callable[[Any], Floats]
    ) -> Floats:
        """Return the sum over a table's pieces in order; `hold` makes the object that holds some of them on a
        worker."""
        for _ in range(MAX_ATTEMPTS):
            client = self._connected()
            try:
                return add(self._sums(self._deal(client, table, hold, pieces), len(pieces), part))
            except _WorkerLost:
                pass
            except _ConnectionLost:
                self._disconnect(client)
            except BaseException:
                with self._dealing:
                    self._dealt.pop(table, None)  # what was dealt may be what fails
                raise
        raise Unavailable(
            f"cluster: workers stopped or lost their connection {MAX_ATTEMPTS} times; check the workers and try again"
        )

    def close(self) -> None:
        """Leave the cluster, which frees what its workers hold."""
        self._disconnect(self._client)

    def _connected(self) -> Any:
        """Return a client of the scheduler; threads that wait for a lost scheduler share the outcome."""
        asked_at = time.monotonic()
        with self._connecting:
            if self._client is None and self._failed_at < asked_at:
                self._client = self._connected_again()
            if self._client is None:
                self._failed_at = time.monotonic()
                raise Unavailable("cluster: the scheduler does not answer; start the scheduler and try again")
            return self._client

    def _connected_again(self) -> Any:
        """Return a client of a scheduler that was lost; None if it does not come back in time."""
        until = time.monotonic() + RECONNECT_TIMEOUT_S
        while (left := until - time.monotonic()) > 0:
            try:
                return self._connect(left)
            except OSError:  # also at once, where something else accepts connections for it
                time.sleep(min(RETRY_S, left))
        return None

    def _disconnect(self, client: Any) -> None:
        """Give up a client and what it dealt, unless another thread did."""
        with self._connecting:
            if client is None or self._client is not client:
                return
            self._client = None
        with suppress(Exception):  # of a connection that is broken already
            client.close()

    def _sums(self, dealt: Dealt, pieces: int, part: Callable[[Any], Floats]) -> Iterator[Floats]:
        """Yield the sums of all pieces in order; each thread has an equal share of any first pieces."""
        first, threads = 0, len(dealt.seats)
        while first * threads < pieces:
            seats = zip(dealt.holders, dealt.seats, strict=True)
            with _connection_errors(dealt.client):
                tasks = [self._submit(dealt.client, seat, _sums_of, holder, part, first) for holder, seat in seats]
            results = self._told(dealt, tasks)
            yield from _in_order(results, pieces - first * threads)
            first += len(results[0])

    def _told(self, dealt: Dealt, tasks: list[Any]) -> list[list[Floats]]:
        """Return the results of these tasks; a lost worker's pieces are lost, and then all is dealt again."""
        from distributed import KilledWorker, wait

        late_arrivals = 0
        while late_arrivals < MAX_ATTEMPTS:
            computed = False
            try:
                with _connection_errors(dealt.client, tasks), dealt.client.as_current():  # which is nobody's default
                    wait(tasks, timeout=WORKER_CHECK_INTERVAL_S)  # type: ignore[no-untyped-call, unused-ignore]
                    computed = True
                    return [each.result(timeout=MAX_ARRIVAL_CHECKS * WORKER_CHECK_INTERVAL_S) for each in tasks]
            except KilledWorker:
                raise _WorkerLost from None
            except TimeoutError:
                with _connection_errors(dealt.client):
                    gone = dealt.client.nthreads() != dealt.threads
                if gone:
                    raise _WorkerLost from None
            late_arrivals += computed  # who still computes is waited for
        raise Unavailable(
            f"cluster: computed sums did not arrive in {MAX_ATTEMPTS} attempts of "
            f"{MAX_ARRIVAL_CHECKS * WORKER_CHECK_INTERVAL_S:g} seconds each; check the network to the workers and try "
            "again"
        )

    def _deal(self, client: Any, table: object, hold: Callable[[Sequence[P]], Held], pieces: Sequence[P]) -> Dealt:
        """Deal each thread an equal share of the pieces; again if workers changed or the connection was lost."""
        with _connection_errors(client):
            threads = client.nthreads()
            if not threads:  # as when all of them restart
                with suppress(TimeoutError):
                    client.wait_for_workers(1, timeout=RECONNECT_TIMEOUT_S)
                threads = client.nthreads()
        if not threads:
            raise Unavailable("cluster: the scheduler has no workers; start workers and try again")
        with self._dealing, _connection_errors(client):
            dealt = self._dealt.get(table)
            if dealt is None or dealt.client is not client or dealt.threads != threads:
                turns = sorted((turn, worker) for worker, count in threads.items() for turn in range(count))
                seats = tuple(worker for _, worker in turns)[: len(pieces)]
                holders = [
                    self._submit(client, seat, hold, pieces[turn :: len(seats)]) for turn, seat in enumerate(seats)
                ]
                self._dealt[table] = dealt = Dealt(client, threads, seats, tuple(holders))
            return dealt

    def _submit(self, client: Any, worker: str, work: Callable[..., Any], *about: Any) -> Any:
        """Submit work to one worker only, where its data is held."""
        return client.submit(work, *about, workers=[worker], pure=False)


@contextmanager
def _connection_errors(client: Any, asked: Sequence[Any] = ()) -> Iterator[None]:
    """Distinguish a lost connection from errors of the tasks themselves, such as a missing file."""
    try:
        yield
    except Exception as error:
        if asked and (isinstance(error, TimeoutError) or any(each.status == "error" for each in asked)):
            raise
        # those of a client that is closed meanwhile are of many kinds
        if isinstance(error, CancelledError | OSError) or client.status != "running":
            raise _ConnectionLost from None
        raise


def _sums_of(holder: Held, part: Callable[[Any], Floats], first: int) -> list[Floats]:
    return holder.sums(part, first)


def _in_order(results: Sequence[Sequence[Floats]], left: int) -> list[Floats]:
    """Return the threads' sums in the order of the pieces, of which `left` are left.

    Formal guarantee: each piece's sum once, or a `GuaranteeError`: the sensitivity depends on it.
    """
    threads = len(results)
    pieces = range(min(left, threads * len(results[0])))
    if not pieces or any(len(some) != len(pieces[place::threads]) for place, some in enumerate(results)):
        raise GuaranteeError(
            "cluster: a worker did not return each sum exactly once; install the same version of Parley on all workers"
        )
    return [results[piece % threads][piece // threads] for piece in pieces]


def use_cluster(cluster: Cluster | None) -> None:
    """Compute this thread's sums over tables on this cluster from now on; None: on this machine."""
    _thread.cluster = cluster


def current_cluster() -> Cluster | None:
    """Return the cluster that this thread uses, if any."""
    return getattr(_thread, "cluster", None)


@contextmanager
def joined(scheduler: str | None) -> Iterator[Callable[[], object]]:
    """Connect to a Dask cluster; each thread that uses it calls the yielded function. Without a scheduler, nothing
    changes.

    The cluster's machines read the table and send exact sums: they and the lines between them must be the owner's own.
    """
    if scheduler is None:
        yield lambda: None
        return
    try:
        import dask.config
        import distributed
        from distributed.utils import LoopRunner
    except ModuleNotFoundError:
        raise SettingError(
            "cluster: a cluster requires an extra package; run pip install 'parley-dp[cluster]'"
        ) from None
    runner = LoopRunner()  # of all clients, one after the other: none may stop it under a thread that still asks

    def connect(timeout: float) -> Any:
        return distributed.Client(scheduler, timeout=timeout, set_as_default=False, loop=runner.loop)  # type: ignore[no-untyped-call, unused-ignore]

    with ExitStack() as after:
        runner.start()
        after.callback(runner.stop)
        try:
            cluster = Cluster(connect)
        except (OSError, ValueError):
            raise SettingError(
                f"cluster = {scheduler!r}: no Dask scheduler answers at this address; check the address and the "
                "scheduler"
            ) from None
        after.callback(cluster.close)
        after.callback(use_cluster, None)
        # a study's table is sent once, as it is
        after.enter_context(dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}))
        yield partial(use_cluster, cluster)
