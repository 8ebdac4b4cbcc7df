"""Tables larger than memory, such as a folder of Parquet files, read piece by piece for every sum over the rows.

Formal guarantee: the sums have the rounding bound of a table in memory (`summation_slack`). Rows are added up in blocks
of `BLOCK_ROWS` inside a piece, blocks inside a piece one after the other, then pieces. Let there be N =
ceil(n/BLOCK_ROWS) blocks in all, M of them in a piece, and at least `MIN_PIECE_BLOCKS` in every piece except the last.
A number passes at most (BLOCK_ROWS - 1) + (M - 1) + (pieces - 1) <= BLOCK_ROWS + N additions, because the other pieces
hold at least MIN_PIECE_BLOCKS blocks for each addition that they cost. Pieces follow from the table alone, and their
sums are added up in order: a sum is the same to the bit whoever computes it, from rows that are read or kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from parley.data.blocks import add, sum_pieces
from parley.data.cluster import HeldPieces, current_cluster
from parley.data.design import BLOCK_ROWS, Design, Summable, pooled
from parley.data.holdout import Choice, Marked
from parley.data.sources import Chunk, Rows, TableSource
from parley.data.sources.files import discreet
from parley.data.sources.source import chosen_rows
from parley.errors import DataError
from parley.validate import Floats

MIN_PIECE_BLOCKS = 64  # blocks that a piece has at least
MAX_PIECES = 256  # of a table at most: they grow with it
BATCH_BLOCKS = 16  # blocks in memory at a time, for each core

Part = Callable[[Design], Floats]
Prepare = Callable[[Rows, str, bool], Design]


@dataclass(frozen=True)
class Piece:
    """Consecutive chunks from row `start` of the table; `kept` marks the rows that belong, None for all; `rows` counts
    them."""

    chunks: tuple[Chunk, ...]
    start: int
    kept: Choice | None
    rows: int


@dataclass(frozen=True, eq=False)
class PieceReader:
    """All that is needed to read pieces of a table, here or on another machine."""

    table: TableSource
    columns: list[str]
    row_width: int
    prepare: Prepare
    secret: bool

    def blocks(self, piece: Piece) -> Iterator[Design]:
        """Yield the piece's kept rows in blocks of exactly `BLOCK_ROWS`; the last may be shorter."""
        return _aligned(self._prepared(piece))

    def size(self, piece: Piece) -> int:
        """Return the bytes of its kept rows with targets, weights, and three cached numbers a row."""
        return 8 * piece.rows * (self.row_width + 5)

    def held(self, piece: Piece) -> list[Design]:
        """Return the same blocks, each in memory of its own: sums are the same to the bit, and faster."""
        return [block.apart() for block in self.blocks(piece)]

    def sum(self, part: Part, piece: Piece) -> Floats:
        """Add up part(block) over the piece."""
        return add(map(part, self.blocks(piece)))

    def _prepared(self, piece: Piece) -> Iterator[Design]:
        """Yield the piece's kept rows, prepared, batch by batch."""
        place, end = piece.start, piece.start + sum(chunk.rows for chunk in piece.chunks)
        for batch in self.table.chunk_batches(piece.chunks, self.columns, BATCH_BLOCKS * BLOCK_ROWS):
            after = place + len(batch)
            if after > end:
                raise DataError(
                    f"{self.table.where}: the table has more rows than when it was opened; open the table again"
                )
            with discreet(self.table.where):
                kept = batch if piece.kept is None else chosen_rows(batch, piece.kept.marks(place, after))
                design = self.prepare(kept, f"{self.table.where}, counted from row {place + 1} on", self.secret)
            yield design
            place = after
        if place != end:
            raise DataError(
                f"{self.table.where}: the table has fewer rows than when it was opened; open the table again"
            )


@dataclass(frozen=True, eq=False)
class StreamedDesign(Summable):
    """A prepared table on disk, which offers only sums over its rows. `kept` marks its rows, None for all. `prepare`
    makes a design from rows of these `columns`; rows drawn in secret (`secret`) are each prepared as if alone."""

    table: TableSource
    columns: list[str]
    kept: Choice | None
    row_width: int
    prepare: Prepare
    secret: bool = False

    def __len__(self) -> int:
        return len(self.table) if self.kept is None else len(self.kept)

    @property
    def width(self) -> int:
        return self.row_width

    @cached_property
    def reader(self) -> PieceReader:
        return PieceReader(self.table, self.columns, self.row_width, self.prepare, self.secret)

    @cached_property
    def places(self) -> list[Piece]:
        """The chunks gathered into pieces of at least `MIN_PIECE_BLOCKS` blocks of kept rows, except the last; of more
        if there would be more than `MAX_PIECES` pieces."""
        least = BLOCK_ROWS * max(MIN_PIECE_BLOCKS, -(-len(self) // (MAX_PIECES * BLOCK_ROWS)))
        pieces, gathered, start, end, count = list[Piece](), list[Chunk](), 0, 0, 0
        for chunk in self.table.chunks:
            gathered.append(chunk)
            count += chunk.rows if self.kept is None else self.kept.count(end, end + chunk.rows)
            end += chunk.rows
            if count >= least:
                pieces.append(self._piece(gathered, start, end, count))
                gathered, start, count = [], end, 0
        return [*pieces, self._piece(gathered, start, end, count)] if count else pieces

    def _piece(self, chunks: list[Chunk], start: int, end: int, rows: int) -> Piece:
        return Piece(tuple(chunks), start, None if self.kept is None else self.kept.within(start, end), rows)

    def sum(self, part: Part) -> Floats:
        """Add up every row once, or raise an error: the sensitivity depends on it."""
        self.table.require_unchanged()
        cluster = current_cluster()
        if cluster is None:
            total = sum_pieces(partial(self.reader.sum, part), self.places)
        else:
            total = cluster.sum(self, partial(HeldPieces, self.reader), self.places, part)
        self.table.require_unchanged()
        return total

    def batch(self, places: NDArray[np.int64]) -> "StreamedDesign":
        """Return the rows at these places; every batch reads the whole table once."""
        marked = np.zeros(len(self.table), dtype=bool)
        among = None if self.kept is None else np.flatnonzero(self.kept.marks(0, len(marked)))
        marked[places if among is None else among[places]] = True
        return replace(self, kept=Marked.from_marks(marked))

    def drawn(self, places: NDArray[np.int64]) -> "StreamedDesign":
        return replace(self.batch(places), secret=True)

    def in_memory(self) -> Design:
        raise DataError(
            "a streamed table offers only sums over its rows; for scores, open the table with "
            "parley.data.sources.held_table"
        )

    @property
    def studied(self) -> None:
        """None: sums from the disk take the time of all rows anyway."""
        return

    def for_studies(self) -> "StreamedDesign":
        return self

    def check(self) -> None:
        """Prepare every row once, so that an unreadable cell is found now rather than in the middle of a run."""
        self.untargeted  # noqa: B018 - counted in a pass over all rows

    @cached_property
    def untargeted(self) -> int:
        return int(self.sum(lambda block: np.array([float(block.untargeted)]))[0]) if len(self) else 0

    @cached_property
    def statistics(self) -> tuple[Floats, Floats, float]:
        p = self.width

        def part(block: Design) -> Floats:
            z = np.column_stack([block.X, block.y])
            return np.asarray((z * block.weight[:, None]).T @ z)

        moments = self.sum(part) / self.divisor
        return moments[:p, :p], moments[:p, p], float(moments[p, p])

    def _blocks(self, piece: Piece) -> Iterator[Design]:
        return self.reader.blocks(piece)


def _aligned(designs: Iterator[Design]) -> Iterator[Design]:
    """Yield the same rows in blocks of exactly `BLOCK_ROWS`, the last maybe shorter, copying only rows at seams."""
    partial_block: Design | None = None
    for design in designs:
        start = 0
        if partial_block is not None:
            start = BLOCK_ROWS - len(partial_block)
            partial_block = pooled([partial_block, design.cut(slice(start))])
            if len(partial_block) < BLOCK_ROWS:
                continue
            yield partial_block
        full = start + (len(design) - start) // BLOCK_ROWS * BLOCK_ROWS
        for place in range(start, full, BLOCK_ROWS):
            yield design.cut(slice(place, place + BLOCK_ROWS))
        partial_block = design.cut(slice(full, None)) if full < len(design) else None
    if partial_block is not None:
        yield partial_block
