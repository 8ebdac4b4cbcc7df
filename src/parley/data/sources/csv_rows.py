"""The rows of a CSV file as text, batch by batch: a file may be larger than memory.

Cells come as they are written, without quotes; words for a missing cell come as gaps. The size of a batch does not
depend on what rows hold, so no cell changes which rows are prepared together.

Formal guarantee: how rows are read follows from the file's name, its first bytes and its line of names, which are
public, or from what was requested explicitly: no record influences separator or encoding. Whether a separator also ends
every row is read from the first row, and a file whose other rows differ is refused.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from parley.data.cells import MISSING_WORDS
from parley.data.sources.files import READ_BYTES, DataFile, discreet
from parley.data.sources.source import BATCH_ROWS
from parley.errors import DataError

HEADER_BYTES = 4 << 20  # bytes in which the line of names ends
PACKINGS = {".gz": "gzip", ".zst": "zstd"}
SEPARATORS = (",", ";", "\t", "|")
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# In every cell of a last line that is no row: text that ends inside of quotes hides it. No separator is among these.
END_MARK = "\x1e\x04"


@dataclass(frozen=True)
class CsvWays:
    """How to read a CSV file; None: as its line of names shows."""

    separator: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.separator is not None and not re.fullmatch(r"[\t !#-~]", self.separator):
            raise DataError("separator: give one character, such as ';' or a tab")
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise DataError(f"encoding: {self.encoding!r} is unknown; give a name such as latin-1") from None


AS_WRITTEN = CsvWays()


@dataclass(frozen=True)
class CsvHead:
    """What stands above the rows, in `size` bytes; `example` has no rows, `closed`: a separator also ends every row."""

    text: str
    written: tuple[str, ...]
    example: pd.DataFrame
    size: int
    separator: str
    encoding: str
    closed: bool

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.example.columns]


def read_head(file: DataFile, ways: CsvWays) -> CsvHead:
    """Read a CSV file's line of names; refuse what cannot be one."""
    with unpacked(file) as stream:
        start = stream.read(HEADER_BYTES)
    encoding, mark = _encoding(start, ways.encoding)
    text = start[len(mark) :].decode(encoding, errors="replace")
    separator = ways.separator or found_separator(text)
    lines = _Lines(text)
    above, names = lines.record(separator)
    if not names:
        raise DataError(f"{file.where}: the file or its first line is empty; put the column names in the first line")
    size = len(mark) + len(above.encode(encoding))
    if start[len(mark) : size].decode(encoding, errors="ignore") != above or "\0" in above:
        raise DataError(f"{file.where}: the header is not {encoding.upper()}; state the file's encoding")
    first = lines.record(separator)[1]
    closed = len(first) == len(names) + 1 and first[-1] in MISSING_WORDS
    try:
        example = pd.read_csv(io.StringIO(above), dtype=str, index_col=False, sep=separator)
    except ValueError as error:  # its text may quote what was taken for names
        raise DataError(
            f"{file.where}: the header cannot be read ({type(error).__name__}); check the first line of the file"
        ) from None
    return CsvHead(above, tuple(names), example, size, separator, encoding, closed)


def _encoding(start: bytes, requested: str | None) -> tuple[str, bytes]:
    """Return (the requested encoding, that of the byte order mark, or UTF-8; the mark)."""
    mark = next((mark for mark in BYTE_ORDER_MARKS if start.startswith(mark)), b"")
    name = "utf-8" if requested is None else codecs.lookup(requested).name
    if mark and name.startswith("utf"):
        return BYTE_ORDER_MARKS[mark], mark
    return {"utf-16": "utf-16-le", "utf-8-sig": "utf-8"}.get(name, name), b""


def found_separator(text: str) -> str:
    """Return the separator that the line of names has most of, the comma first: names are public.

    >>> found_separator("a;b;c,d\\n"), found_separator('"a;b;c",d\\n'), found_separator("a\\tb\\n")
    (';', ',', '\\t')
    """
    head = re.sub('"[^"]*"', "", next(iter(io.StringIO(text, newline=None)), ""))  # what is quoted separates nothing
    common = max(SEPARATORS[:2], key=head.count)
    return common if common in head else max(SEPARATORS, key=head.count)


class _Lines:
    """Records one after the other, each with its text."""

    def __init__(self, text: str) -> None:
        self._lines = io.StringIO(text, newline="")
        self._read: list[str] = []

    def record(self, separator: str) -> tuple[str, list[str]]:
        """Return all text up to the end of the next readable record that is not blank, and its cells, if any."""
        try:
            for cells in csv.reader(self._kept(), delimiter=separator):
                if any(cell.strip(" \t") for cell in cells) or len(cells) > 1:
                    return "".join(self._read), cells
        except csv.Error:
            pass
        return "".join(self._read), []

    def _kept(self) -> Iterator[str]:
        for line in self._lines:
            self._read.append(line)
            yield line


def unpacked(file: DataFile) -> pa.NativeFile:
    """Open a file without the packing that its name indicates."""
    packing = next((kind for ending, kind in PACKINGS.items() if file.name.lower().endswith(ending)), None)
    stream = file.opened()
    return stream if packing is None else pa.CompressedInputStream(stream, packing)


class CsvBody(io.RawIOBase):
    """The text below the line of names as UTF-8, and a last line of `END_MARK`s."""

    def __init__(self, stream: pa.NativeFile, head: CsvHead) -> None:
        super().__init__()
        self._stream, self._waiting, self._ended = stream, b"", False
        stream.read(head.size)
        end = head.separator.join([END_MARK] * len(head.names)) + head.separator * head.closed
        self._end = f"\n{end}\n".encode()
        self._utf8 = _to_utf8(head.encoding)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        pieces, held = [self._waiting], len(self._waiting)
        while not self._ended and not 0 <= size <= held:
            piece = self._stream.read(READ_BYTES)
            self._ended = not piece
            pieces.append(self._utf8(piece, self._ended) + self._end * self._ended)
            held += len(pieces[-1])
        whole = b"".join(pieces)
        size = held if size < 0 else size
        self._waiting = whole[size:]
        return whole[:size]

    def close(self) -> None:
        self._stream.close()
        super().close()


def _to_utf8(encoding: str) -> Callable[[bytes, bool], bytes]:
    if codecs.lookup(encoding).name == "utf-8":  # whoever reads the cells looks whether it is
        return lambda piece, final: piece
    decoder = codecs.getincrementaldecoder(encoding)()
    return lambda piece, final: decoder.decode(piece, final).encode()


BLOCK_BYTES = 2 << 20  # bytes of text that are parsed at a time: no row may be longer
FORMAT_NAME = "csv"
REST_COLUMN = ""  # the column of what stands behind a separator that ends every row: nothing


@dataclass(frozen=True)
class CsvRows:
    """A CSV file and how to read it."""

    file: DataFile
    ways: CsvWays = AS_WRITTEN
    block: int = BLOCK_BYTES

    @cached_property
    def head(self) -> CsvHead:
        with discreet(self.file.where, FORMAT_NAME):
            return read_head(self.file, self.ways)

    def batches(self, columns: Sequence[str], at_once: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield all rows of these columns in order, exactly `at_once` at a time; the last batch may be shorter."""
        wanted = list(dict.fromkeys(columns)) or self.head.names[:1]
        return (batch.select(list(dict.fromkeys(columns))) for batch in _equal_batches(self._parsed(wanted), at_once))

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return all rows of these columns, by default of all, in the types of `example`."""
        names = list(dict.fromkeys(columns or self.head.names))
        example = self.head.example[names]
        schema = pa.schema([(name, pa.large_string()) for name in names])
        table = pa.Table.from_batches(self._parsed(names), schema)
        kinds = {pa.large_string(): kind for kind in example.dtypes if isinstance(kind, pd.StringDtype)}
        return pd.DataFrame(table.to_pandas(types_mapper=kinds.get))

    def count(self) -> int:
        """Return the number of rows."""
        return sum(len(batch) for batch in self._parsed(self.head.names[:1]))

    def _parsed(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows or raise an error: the last line must be the end mark."""
        last = None
        for batch in self._whole(columns):
            if last is not None:
                yield last
            last = batch
        if last is None or not len(last) or last.column(0)[-1].as_py() != END_MARK:
            raise DataError(f"{self.file.where}: the file ends inside a quoted cell; add the closing quote")
        yield last.slice(0, len(last) - 1)

    def _whole(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        head, ragged = self.head, _Ragged()
        names = [*head.names, REST_COLUMN] if head.closed else head.names
        read = [*columns, REST_COLUMN] if head.closed else columns
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
                        raise DataError(_RAGGED_MESSAGE.format(where=self.file.where, how="more", row=""))
                    batch = batch.select(columns)
                    yield batch.filter(_not_blank(batch.column(0))) if len(names) == 1 else batch
        except (pa.ArrowException, OSError, UnicodeError) as error:
            if (message := ragged.message(self.file.where)) is not None:
                raise DataError(message) from None
            long = f"a row is longer than {self.block >> 20} MB" if "straddling" in str(error) else type(error).__name__
            raise DataError(f"{self.file.where}: cannot be read as {FORMAT_NAME} ({long})") from None


_RAGGED_MESSAGE = "{where}: a row has {how} cells than the header{row}; give every row one cell per column"


class _Ragged:
    """The first row whose number of cells differs from the names; blank lines are no rows."""

    def __init__(self) -> None:
        self.row: arrow_csv.InvalidRow | None = None

    def __call__(self, row: arrow_csv.InvalidRow) -> str:
        if not row.text.strip(" \t"):
            return "skip"
        self.row = row
        return "error"

    def message(self, where: str) -> str | None:
        """Say what is wrong with it; None if there is none."""
        if self.row is None:
            return None
        how = "more" if self.row.actual_columns > self.row.expected_columns else "fewer"
        return _RAGGED_MESSAGE.format(where=where, how=how, row=f" (first: row {self.row.number})")


def _not_blank(cells: pa.Array) -> pa.Array:
    """Mark the lines of a file with one column that are rows."""
    return pc.fill_null(pc.not_equal(pc.utf8_trim(cells, " \t"), ""), True)


def _equal_batches(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows, exactly `size` at a time; the last batch may be shorter."""
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
