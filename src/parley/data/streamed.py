"""Tables larger than memory: a folder of Parquet files, read piece by piece whenever a sum over the rows is asked for.

Formal guarantee: the sums carry the rounding bound of a table in memory (`summation_slack`). Rows are added up in blocks of `BLOCK`
inside a piece, blocks inside a piece one after the other, then pieces. With N = ceil(n/BLOCK) blocks in all, a piece of M blocks and
every piece but the last at least `PIECE` blocks long, a number passes at most (BLOCK - 1) + (M - 1) + (pieces - 1) <= BLOCK + N
additions, because the other pieces hold at least PIECE blocks for each addition that they cost.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from parley.data.blocks import add, sum_afar
from parley.data.design import BLOCK, Design, Summable, pooled
from parley.data.table import Rows, Table, read_table
from parley.errors import DataError
from parley.validate import Floats

PIECE = 64  # blocks that a piece has at least
AT_ONCE = 16  # blocks in memory at a time, for each core
BUFFERS = 32 << 20  # bytes read at a time for each core, shared out among the columns

Part = Callable[[Design], Floats]
Prepare = Callable[[Rows, str, bool], Design]


@dataclass(frozen=True)
class ParquetFolder:
    """The .parquet files of a folder, in the order of their names, as one table."""

    path: Path

    @cached_property
    def files(self) -> tuple[Path, ...]:
        found = tuple(sorted(self.path.glob("*.parquet")))
        if not found:
            raise DataError(f"{self.path}: expected .parquet files in this folder")
        return found

    @cached_property
    def groups(self) -> tuple[tuple[Path, int, int], ...]:
        """(file, row group, rows) for all of them."""
        found = []
        self.require_unchanged()
        with discreet(self.files[0]):
            columns = pq.read_schema(self.files[0])
        for file in self.files:
            with discreet(file):
                about = pq.read_metadata(file)
                alike = pq.read_schema(file).equals(columns)
            if not alike:
                raise DataError(
                    f"{file}: its columns or their types differ from those of {self.files[0].name}; write all files alike"
                )
            found += [(file, g, about.row_group(g).num_rows) for g in range(about.num_row_groups)]
        self.require_unchanged()
        return tuple(found)

    @cached_property
    def _stamps(self) -> tuple[tuple[str, int, int, int], ...]:
        return _stamped(self.files)

    def require_unchanged(self) -> None:
        """Refuse if a file was changed, added or taken away since the folder was first looked at: places and sizes are promises."""
        if tuple(sorted(self.path.glob("*.parquet"))) != self.files or _stamped(self.files) != self._stamps:
            raise DataError(
                f"{self.path}: its files changed since the table was opened; put them back, or open a table that stays as it is"
            )

    def __len__(self) -> int:
        return sum(rows for _, _, rows in self.groups)

    def example(self) -> pd.DataFrame:
        """No rows: the names and kinds of the columns."""
        with discreet(self.files[0]):
            return pd.DataFrame(pq.read_schema(self.files[0]).empty_table().to_pandas())


@dataclass(frozen=True)
class Piece:
    """Consecutive row groups; `start` is the place of their first row in the table."""

    groups: tuple[tuple[Path, int, int], ...]
    start: int


@dataclass(frozen=True, eq=False)
class StreamedDesign(Summable):
    """A prepared table on disk. Sums over its rows are all it offers: gradients and second moments, not the rows themselves.

    `kept` marks the rows that belong to it, None all; `prepare` makes a design of some rows of these `columns`, `width` numbers each, and
    knows whether they were drawn in secret (`secret`): then rows are prepared, too, as if each were alone.
    """

    folder: ParquetFolder
    columns: list[str]
    kept: NDArray[np.bool_] | None
    row_width: int
    prepare: Prepare
    secret: bool = False

    def __len__(self) -> int:
        return len(self.folder) if self.kept is None else int(self.kept.sum())

    @property
    def width(self) -> int:
        return self.row_width

    @cached_property
    def places(self) -> list[Piece]:
        """The row groups gathered into pieces of at least `PIECE` blocks of kept rows, but for the last."""
        pieces, gathered, start, end, count = [], [], 0, 0, 0
        for file, group, rows in self.folder.groups:
            gathered.append((file, group, rows))
            count += rows if self.kept is None else int(self.kept[end : end + rows].sum())
            end += rows
            if count >= PIECE * BLOCK:
                pieces.append(Piece(tuple(gathered), start))
                gathered, start, count = [], end, 0
        return [*pieces, Piece(tuple(gathered), start)] if count else pieces

    def sum(self, part: Part) -> Floats:
        """Every row once, or an error: the sensitivity counts on it."""
        self.folder.require_unchanged()
        total = sum_afar(lambda piece: add(part(block) for block in self._blocks(piece)), self.places)
        self.folder.require_unchanged()
        return total

    def batch(self, places: NDArray[np.int64]) -> "StreamedDesign":
        """Marked among all rows: every batch reads the folder once."""
        marked = np.zeros(len(self.folder), dtype=bool)
        marked[places if self.kept is None else np.flatnonzero(self.kept)[places]] = True
        return replace(self, kept=marked)

    def drawn(self, places: NDArray[np.int64]) -> "StreamedDesign":
        return replace(self.batch(places), secret=True)

    def in_memory(self) -> Design:
        raise DataError("a streamed table offers sums over its rows only; for studies and scores give one file")

    @property
    def studied(self) -> None:
        """Read from the disk, sums take the time of all rows anyway."""
        return

    def for_studies(self) -> "StreamedDesign":
        return self

    def check(self) -> None:
        """Prepare every row once, so that a cell that cannot be read is found now rather than in the middle of a run."""
        if len(self):
            self.sum(lambda _: np.zeros(1))

    @cached_property
    def statistics(self) -> tuple[Floats, Floats, float]:
        p = self.width

        def part(block: Design) -> Floats:
            z = np.column_stack([block.X, block.y])
            return np.asarray((z * block.weight[:, None]).T @ z)

        moments = self.sum(part) / len(self)
        return moments[:p, :p], moments[:p, p], float(moments[p, p])

    def _blocks(self, piece: Piece) -> Iterator[Design]:
        """The piece's kept rows in blocks of exactly `BLOCK`, but for the last."""
        return _aligned(self._prepared(piece))

    def _prepared(self, piece: Piece) -> Iterator[Design]:
        """The piece's kept rows as they come."""
        place, each = piece.start, buffer_size(len(self.columns))
        for file, groups in groupby(piece.groups, key=itemgetter(0)):
            with discreet(file), pq.ParquetFile(file, pre_buffer=False, buffer_size=each) as source:
                for _, group, rows in groups:
                    begun = place
                    for batch in source.iter_batches(AT_ONCE * BLOCK, row_groups=[group], columns=self.columns, use_threads=False):
                        if place + len(batch) - begun > rows:
                            raise DataError(f"{file}: it holds more rows than when the table was opened")
                        kept = batch if self.kept is None else batch.filter(pa.array(self.kept[place : place + len(batch)]))
                        yield self.prepare(kept, f"{self.folder.path}, counted from row {place + 1} on", self.secret)
                        place += len(batch)
                    if place - begun != rows:
                        raise DataError(f"{file}: it holds fewer rows than when the table was opened")


def buffer_size(columns: int) -> int:
    """Bytes of one column read at a time: few long reads for a disk, yet no more memory where there are many columns."""
    return max(BUFFERS // columns, 1 << 16)


def _stamped(files: tuple[Path, ...]) -> tuple[tuple[str, int, int, int], ...]:
    """Name, size, time of change and place on the disk of every file."""
    try:
        facts = [(file.name, file.stat()) for file in files]
    except OSError as error:
        raise DataError(f"{files[0].parent}: its files cannot be looked at ({type(error).__name__})") from None
    return tuple((name, about.st_size, about.st_mtime_ns, about.st_ino) for name, about in facts)


@contextmanager
def discreet(file: Path) -> Iterator[None]:
    """What pyarrow says about a file may quote its cells."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise DataError(f"{file}: cannot be read as parquet ({type(error).__name__})") from None


def open_table(table: Table) -> pd.DataFrame | ParquetFolder:
    """A folder is streamed, a file or a data frame is read into memory."""
    if isinstance(table, str | Path) and Path(table).is_dir():
        return ParquetFolder(Path(table))
    return read_table(table)


def _aligned(designs: Iterator[Design]) -> Iterator[Design]:
    """The same rows in blocks of exactly `BLOCK`, but for the last. Only rows on both sides of a seam are copied."""
    waiting: Design | None = None
    for design in designs:
        start = 0
        if waiting is not None:
            start = BLOCK - len(waiting)
            waiting = pooled([waiting, design.cut(slice(start))])
            if len(waiting) < BLOCK:
                continue
            yield waiting
        full = start + (len(design) - start) // BLOCK * BLOCK
        for place in range(start, full, BLOCK):
            yield design.cut(slice(place, place + BLOCK))
        waiting = design.cut(slice(full, None)) if full < len(design) else None
    if waiting is not None:
        yield waiting
