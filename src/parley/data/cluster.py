"""Sums over pieces of a table on the owner's own Dask cluster, whose workers keep their pieces between rounds.

A speed setting: pieces are dealt out among the workers, their sums come back one by one and are added up in the order
of the pieces, so a result does not depend on how many workers there are. What travels in a round is the question.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from parley.data.blocks import add
from parley.data.held_pieces import Held
from parley.errors import GuaranteeError, SettingError, Unavailable
from parley.validate import Floats

JOINING = 10.0  # seconds to wait for a cluster
PATIENCE = 5.0  # seconds after which it is asked whether all workers are still there
ARRIVING = 12  # times as long may sums travel that are there: who waits without end waits for a lost worker's for ever
TRIES = 3  # of one sum, where workers are lost, and of its way here

P = TypeVar("P")

_thread = threading.local()


class _WorkerLost(Exception):  # noqa: N818 - never seen outside
    """A worker is gone with what it held."""


@dataclass(frozen=True, eq=False)
class Dealt:
    """Who holds what: the threads of the workers as they were, and what each of them holds. Freed with this object."""

    threads: Mapping[str, int]
    seats: tuple[str, ...]
    holders: tuple[Any, ...]


class Cluster:
    """A connection to a Dask scheduler, and what workers hold of tables for it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._dealt: WeakKeyDictionary[object, Dealt] = WeakKeyDictionary()  # by table: gone with it
        self._dealing = threading.Lock()

    def sum(
        self, table: object, hold: Callable[[Sequence[P]], Held], pieces: Sequence[P], part: Callable[[Any], Floats]
    ) -> Floats:
        """The sum over the pieces of a table, added up in their order. `hold` makes what a worker holds of some of
        them."""
        for _ in range(TRIES):
            with suppress(_WorkerLost):
                return add(self._sums(self._deal(table, hold, pieces), len(pieces), part))
        raise Unavailable("cluster: its workers were lost, again and again; ask again when they stay")

    def _sums(self, dealt: Dealt, pieces: int, part: Callable[[Any], Floats]) -> Iterator[Floats]:
        """The sums of all pieces in their order. Each thread has an equal share of any first so many."""
        first, threads = 0, len(dealt.seats)
        while first * threads < pieces:
            seats = zip(dealt.holders, dealt.seats, strict=True)
            told = self._told(dealt, [self._submit(seat, _asked, holder, part, first) for holder, seat in seats])
            yield from _in_order(told, pieces - first * threads)
            first += len(told[0])

    def _told(self, dealt: Dealt, asked: list[Any]) -> list[list[Floats]]:
        """What these tasks come to. What a lost worker held is lost with it: then all is dealt out anew."""
        from distributed import KilledWorker, wait

        late = 0
        while late < TRIES:
            computed = False
            try:
                with self._client.as_current():  # which is nobody's default
                    wait(asked, timeout=PATIENCE)  # type: ignore[no-untyped-call, unused-ignore]
                computed = True
                return [each.result(timeout=ARRIVING * PATIENCE) for each in asked]
            except KilledWorker:
                raise _WorkerLost from None
            except TimeoutError:
                if self._client.nthreads() != dealt.threads:
                    raise _WorkerLost from None
            late += computed  # who still computes is waited for
        raise Unavailable(
            f"cluster: sums that are computed did not arrive in {TRIES} times {ARRIVING * PATIENCE:g} seconds; see "
            "that the lines to its workers carry them, and ask again"
        )

    def _deal(self, table: object, hold: Callable[[Sequence[P]], Held], pieces: Sequence[P]) -> Dealt:
        """Every thread of every worker has a seat and is dealt each so many-th piece; dealt anew when workers came or
        went."""
        threads = self._client.nthreads()
        if not threads:
            raise Unavailable("cluster: its scheduler has no workers at the moment")
        with self._dealing:
            dealt = self._dealt.get(table)
            if dealt is None or dealt.threads != threads:
                turns = sorted((turn, worker) for worker, count in threads.items() for turn in range(count))
                seats = tuple(worker for _, worker in turns)[: len(pieces)]
                hands = [self._submit(seat, hold, pieces[place :: len(seats)]) for place, seat in enumerate(seats)]
                self._dealt[table] = dealt = Dealt(threads, seats, tuple(hands))
            return dealt

    def _submit(self, worker: str, work: Callable[..., Any], *about: Any) -> Any:
        """Work for one worker and no other, where what it is about is held."""
        return self._client.submit(work, *about, workers=[worker], pure=False)


def _asked(holder: Held, part: Callable[[Any], Floats], first: int) -> list[Floats]:
    return holder.sums(part, first)


def _in_order(told: Sequence[Sequence[Floats]], left: int) -> list[Floats]:
    """The sums that every thread told of its next pieces, in the order of the pieces, of which so many are left.

    Formal guarantee: each piece's once, or a `GuaranteeError`: the sensitivity counts on it.
    """
    threads = len(told)
    pieces = range(min(left, threads * len(told[0])))
    if not pieces or any(len(some) != len(pieces[place::threads]) for place, some in enumerate(told)):
        raise GuaranteeError(
            "cluster: a worker did not tell the sum of each of its pieces once; let all workers have the same version"
        )
    return [told[piece % threads][piece // threads] for piece in pieces]


def use(cluster: Cluster | None) -> None:
    """Let the sums over tables that this thread asks for be computed there from now on; None: here."""
    _thread.cluster = cluster


def here() -> Cluster | None:
    """The cluster that this thread uses, if any."""
    return getattr(_thread, "cluster", None)


@contextmanager
def joined(scheduler: str | None) -> Iterator[Callable[[], object]]:
    """Connected to a Dask cluster. What is yielded is to be called in each thread whose sums shall be computed there;
    without a scheduler it changes nothing.

    The cluster's machines read the table and send exact sums: they must be the owner's own, and so must the lines
    between them.
    """
    if scheduler is None:
        yield lambda: None
        return
    try:
        import dask.config
        import distributed
    except ModuleNotFoundError:
        raise SettingError("cluster: needs the extra 'cluster': pip install 'parley-dp[cluster]'") from None
    try:
        client = distributed.Client(scheduler, timeout=JOINING, set_as_default=False)  # type: ignore[no-untyped-call, unused-ignore]
    except (OSError, ValueError):
        raise SettingError(f"cluster = {scheduler!r}: no Dask scheduler answers there") from None
    try:
        # a study's table is sent once, as it is
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            yield partial(use, Cluster(client))
    finally:
        use(None)
        client.close()  # type: ignore[no-untyped-call, unused-ignore]
