"""The rows of a CSV file as text, batch by batch: a file may be larger than memory.

Cells reach whoever reads them as they are written, quotes apart; words for a missing cell come as gaps, as they always
did. Rows come so many at a time whatever they hold, so no cell changes which rows are prepared together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from parley.data.cells import MISSING_WORDS
from parley.data.sources.csv_text import AS_WRITTEN, END, CsvBody, CsvHead, CsvWays, read_head, unpacked
from parley.data.sources.files import DataFile, discreet
from parley.data.sources.source import AT_ONCE
from parley.errors import DataError

BLOCK = 2 << 20  # bytes of text that are parsed at a time: no row may be longer
FORM = "csv"
REST = ""  # the column of what stands behind a separator that ends every row: nothing


@dataclass(frozen=True)
class CsvRows:
    """A CSV file, and how it is read."""

    file: DataFile
    ways: CsvWays = AS_WRITTEN
    block: int = BLOCK

    @cached_property
    def head(self) -> CsvHead:
        with discreet(self.file.where, FORM):
            return read_head(self.file, self.ways)

    def batches(self, columns: Sequence[str], at_once: int = AT_ONCE) -> Iterator[pa.RecordBatch]:
        """All rows of these columns in their order, exactly so many at a time but for the last."""
        wanted = list(dict.fromkeys(columns)) or self.head.names[:1]
        return (batch.select(list(dict.fromkeys(columns))) for batch in _even(self._parsed(wanted), at_once))

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """All rows of these columns, of all if none are named, in the types in which `example` has them."""
        names = list(dict.fromkeys(columns or self.head.names))
        example = self.head.example[names]
        schema = pa.schema([(name, pa.large_string()) for name in names])
        table = pa.Table.from_batches(self._parsed(names), schema)
        kinds = {pa.large_string(): kind for kind in example.dtypes if isinstance(kind, pd.StringDtype)}
        return pd.DataFrame(table.to_pandas(types_mapper=kinds.get))

    def count(self) -> int:
        """How many rows there are."""
        return sum(len(batch) for batch in self._parsed(self.head.names[:1]))

    def _parsed(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows as they come, all of them or an error: the last line is the end that was written below them."""
        last = None
        for batch in self._whole(columns):
            if last is not None:
                yield last
            last = batch
        if last is None or not len(last) or last.column(0)[-1].as_py() != END:
            raise DataError(f"{self.file.where}: it ends inside of a quoted cell; expected a quote that closes it")
        yield last.slice(0, len(last) - 1)

    def _whole(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        head, ragged = self.head, _Ragged()
        names = [*head.names, REST] if head.closed else head.names
        read = [*columns, REST] if head.closed else columns
        try:
            with arrow_csv.open_csv(
                pa.PythonFile(CsvBody(unpacked(self.file), head), mode="r"),
                read_options=arrow_csv.ReadOptions(column_names=names, block_size=self.block, use_threads=False),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=head.separator, newlines_in_values=True, invalid_row_handler=ragged
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.large_string()),
                    include_columns=read,
                    null_values=sorted(MISSING_WORDS),
                    strings_can_be_null=True,
                ),
            ) as rows:
                for batch in rows:
                    if head.closed and batch.column(len(columns)).null_count < len(batch):
                        raise DataError(_RAGGED.format(where=self.file.where, how="more", row=""))
                    batch = batch.select(columns)
                    yield batch.filter(_not_blank(batch.column(0))) if len(names) == 1 else batch
        except (pa.ArrowException, OSError, UnicodeError) as error:
            if said := ragged.said(self.file.where):
                raise DataError(said) from None
            long = f"a row is longer than {self.block >> 20} MB" if "straddling" in str(error) else type(error).__name__
            raise DataError(f"{self.file.where}: cannot be read as {FORM} ({long})") from None


_RAGGED = "{where}: some row has {how} cells than the line of names{row}; expected one for every column"


class _Ragged:
    """Where the first row is that has another number of cells than there are names; blank lines are no rows."""

    def __init__(self) -> None:
        self.row: arrow_csv.InvalidRow | None = None

    def __call__(self, row: arrow_csv.InvalidRow) -> str:
        if not row.text.strip(" \t"):
            return "skip"
        self.row = row
        return "error"

    def said(self, where: str) -> str | None:
        """What is wrong with it; None if there is none."""
        if self.row is None:
            return None
        how = "more" if self.row.actual_columns > self.row.expected_columns else "fewer"
        return _RAGGED.format(where=where, how=how, row=f", the first of them row {self.row.number}")


def _not_blank(cells: pa.Array) -> pa.Array:
    """Which lines of a file with one column are rows."""
    return pc.fill_null(pc.not_equal(pc.utf8_trim(cells, " \t"), ""), True)


def _even(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The same rows, exactly `size` at a time but for the last."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) < size:
            continue
        rows = pa.Table.from_batches(waiting)
        full = len(rows) // size * size
        yield from (_one(rows.slice(start, size)) for start in range(0, full, size))
        waiting = rows.slice(full).to_batches()
    if waiting:
        rows = pa.Table.from_batches(waiting)
        if len(rows):
            yield _one(rows)


def _one(rows: pa.Table) -> pa.RecordBatch:
    return rows.combine_chunks().to_batches()[0]
