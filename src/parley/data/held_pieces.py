"""What a worker of a cluster holds of a table between two sums: its pieces, in its memory and nowhere else.

Formal guarantee: rows never leave the memory of the process that read them. What holds them refuses to be written down
(pickled), so that no Dask of whatever settings can send it to another worker or spill it to a disk; and a worker that
spills sums is told not to before it reads a row (`stay_in_memory`), or refused.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, Protocol, TypeVar
from weakref import WeakSet

from parley.data.blocks import add, one_blas_thread
from parley.errors import GuaranteeError
from parley.validate import Floats

SHARE = 0.5  # of a worker's memory limit, for rows that it keeps
FULL = 0.7  # of it, beyond which nothing more is kept: Dask lets a worker pause at 0.8
ANSWER = 32 << 20  # bytes of sums that travel at once

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
    """Held by one worker, and never written down."""

    def __init__(self) -> None:
        stay_in_memory()

    def __reduce__(self) -> NoReturn:
        raise TypeError("rows stay in the memory of the worker that read them")

    def sums(self, part: Callable[[Any], Floats], first: int) -> list[Floats]:
        """The sums over its pieces from number `first` on, one for each, as many as travel at once."""
        found, size = list[Floats](), 0
        with one_blas_thread():
            for value in self._sums(part, first):
                found.append(value)
                size += value.nbytes
                if size >= ANSWER:
                    break
        return found

    @abstractmethod
    def _sums(self, part: Callable[[Any], Floats], first: int) -> Iterator[Floats]:
        """Those sums, one after the other, as they are asked for."""


class HeldBlocks(Held, Generic[B]):
    """Blocks of a table that is studied, each a piece of its own."""

    def __init__(self, blocks: Sequence[B]) -> None:
        super().__init__()
        self._blocks = blocks

    def _sums(self, part: Callable[[B], Floats], first: int) -> Iterator[Floats]:
        return map(part, self._blocks[first:])


class HeldPieces(Held, Generic[P, B]):
    """Pieces of a table on a disk. A piece that is summed over a second time stays, if the worker's memory has room;
    the others are read whenever they are asked for."""

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
        """Whether there is room for so many bytes, which are its own from then on."""
        with _reserving:
            limit, used = memory()
            if sum(holder.reserved for holder in _holders) + size > SHARE * limit or used + size > FULL * limit:
                return False
            self.reserved += size
            return True


_holders: WeakSet[HeldPieces[Any, Any]] = WeakSet()  # of this process
_reserving = threading.Lock()


def memory() -> tuple[int, int]:
    """(bytes that this worker may use, bytes that its process uses)."""
    from distributed import get_worker
    from distributed.system import MEMORY_LIMIT

    worker: Any = get_worker()
    return worker.memory_manager.memory_limit or MEMORY_LIMIT, worker.monitor.get_process_memory()


def stay_in_memory() -> None:
    """Keep this worker from writing what it holds to its disk; refused where it has ways of its own to do so."""
    from distributed import get_worker
    from distributed.spill import SpillBuffer

    worker: Any = get_worker()
    manager = worker.memory_manager
    if isinstance(manager.data, SpillBuffer):
        manager.memory_target_fraction = manager.memory_spill_fraction = False
        manager.data.n = float("inf")
    if spills(worker):
        raise GuaranteeError(
            "cluster: a worker may write exact sums to its disk; start it with distributed.worker.memory.target and "
            "distributed.worker.memory.spill = False"
        )


def spills(worker: Any) -> bool:
    """Whether a Dask worker may write to its disk what it holds."""
    manager = worker.memory_manager
    if isinstance(manager.data, dict):
        return False
    return not (manager.memory_spill_fraction is False and getattr(manager.data, "n", 0) == float("inf"))
