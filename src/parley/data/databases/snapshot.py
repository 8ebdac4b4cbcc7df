"""A snapshot: the rows of a query as a folder of Parquet files, all of one moment, ordered by their key.

Formal guarantee: what `take_snapshot` returned is whole and on the disk. Whatever ends it earlier leaves no folder of
the requested name, and nothing anywhere that opens as a table: until the last moment no file has a Parquet name, and a
folder whose manifest lists other files than it has is refused. Nothing is ever resumed: rows of two transactions are no
table. Where the files and their row groups end depends on the declared columns and the number of rows, not on what they
hold.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import reduce
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parley.data.cells import READABLE_TYPES, readable
from parley.data.databases.database import Column, Database, Request, plain_batch, plain_schema
from parley.data.sources.files import file_digest
from parley.data.sources.manifest import MANIFEST_NAME, Manifest
from parley.data.sources.parquet import ParquetFolder
from parley.durable import PRIVATE_MODE, as_disk_errors, create, sync_folder, unfinished_folder
from parley.errors import DataError, SettingError

GROUP_BYTES = 32 << 20  # of a row group, about
MAX_GROUP_ROWS = 1 << 17  # of a row group
MAX_GROUP_ROWS_WITH_TEXT = 1 << 14  # where a cell may be of any length
GROUPS_PER_FILE = 16  # row groups in a file
_NUMBER_BYTES, _TEXT_BYTES = 8, 32  # bytes that a cell is taken to have

Progress = Callable[[int, int], None]


def take_snapshot(
    database: Database,
    request: Request,
    folder: Path,
    progress: Progress = lambda done, total: None,
    expected: int | None = None,
) -> Manifest:
    """Write the rows of the request to a new folder and return its manifest; `progress` gets rows done and expected."""
    if folder.exists():
        raise SettingError(
            f"{folder}: the folder already exists, and a snapshot is never replaced; choose another name"
        )
    taken, columns = datetime.now(UTC), declared_columns(database, request)
    with unfinished_folder(folder) as fresh, closing(database.batches(request, columns)) as raw:
        plain = (plain_batch(batch, columns, database.server) for batch in raw)
        ascending = in_order(plain, request.keys, database.server)
        rows, files = _write(_row_groups(ascending, columns, progress, expected), plain_schema(columns), fresh)
        if not rows:
            raise DataError(f"{database.server}: the query returns no rows; expected at least one")
        names = [file.with_suffix("") for file in files]
        manifest = Manifest(
            query=request.query,
            keys=request.keys,
            server=database.server,
            version=database.version,
            taken=taken.isoformat(timespec="seconds"),
            columns=tuple((column.name, column.declared, str(column.kind)) for column in columns),
            rows=rows,
            files=tuple(name.name for name in names),
            digest=_digest(files),
            identity=database.identity,
        )
        _finish(fresh, dict(zip(files, names, strict=True)), manifest, folder)
    return manifest


def _digest(files: Sequence[Path]) -> str:
    """Return the future digest of the folder."""
    return hashlib.sha256(ParquetFolder.kind + b"".join(map(file_digest, files))).hexdigest()


def declared_columns(database: Database, request: Request) -> tuple[Column, ...]:
    """Return a request's columns; each needs a name and a type, and the keys must give an order. No row is read."""
    columns, server = database.columns(request), database.server
    names = [column.name for column in columns]
    for column in columns:
        if not column.name or names.count(column.name) > 1:
            raise DataError(
                f"{server}: two columns of the query have the same name, or one column has no name; name the columns "
                "with AS"
            )
        if pa.types.is_null(column.kind) or not readable(column.kind):
            declared = f"has the type {column.declared}" if column.declared else "has no declared type"
            raise DataError(
                f"{server}: column {column.name!r} {declared}; in the query, cast the column to one of: "
                f"{READABLE_TYPES}. Example: CAST(income AS REAL) AS income"
            )
    if not request.keys or len({*request.keys}) < len(request.keys):
        raise SettingError("--order-by: expected one or more columns of the query, each named once")
    for key in request.keys:
        if key not in names:
            raise SettingError(f"--order-by {key}: the query has no such column; use one of {', '.join(names)}")
        collation = database.collation(request, columns[names.index(key)])
        if collation is not None:
            raise SettingError(
                f"--order-by {key}: the column is sorted by the collation {collation}, which differs between machines; "
                f'order by an integer, or write CAST({key} AS text) COLLATE "C" AS {key} in the query'
            )
    return columns


def group_rows(columns: Sequence[Column]) -> int:
    """Return the rows of a row group, by the declared types alone: it must not depend on what rows hold."""
    width = sum(_NUMBER_BYTES if pa.types.is_primitive(column.kind) else _TEXT_BYTES for column in columns)
    most = MAX_GROUP_ROWS if all(_bounded(column.kind) for column in columns) else MAX_GROUP_ROWS_WITH_TEXT
    return max(min(GROUP_BYTES // width, most), 1024)


def in_order(batches: Iterator[pa.RecordBatch], keys: Sequence[str], where: str) -> Iterator[pa.RecordBatch]:
    """Yield the same batches; refuse keys with gaps, or that do not increase from row to row (text by its bytes)."""
    named, last = ", ".join(keys), None
    for batch in batches:
        if not len(batch):
            continue
        held = batch.select(list(keys))
        if any(column.null_count for column in held.columns):
            raise DataError(
                f"{where}: {named} is missing in some rows; choose an --order-by column that has a value in every row"
            )
        if not _ascends(held if last is None else pa.concat_batches([last, held])):
            raise DataError(
                f"{where}: several rows have the same {named}; choose an --order-by column that differs in every row, "
                "such as a primary key"
            )
        last = held.slice(len(held) - 1)
        yield batch


def _bounded(kind: pa.DataType) -> bool:
    """Whether all cells of a type have one length."""
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind))


def _row_groups(
    batches: Iterator[pa.RecordBatch], columns: Sequence[Column], progress: Progress, expected: int | None
) -> Iterator[pa.Table]:
    """Yield the same rows in tables of `group_rows` each; the last may be shorter."""
    size, done = group_rows(columns), 0
    held: list[pa.RecordBatch] = []
    waiting = 0
    for batch in batches:
        held.append(batch)
        waiting += len(batch)
        while waiting >= size:
            table = pa.Table.from_batches(held)
            held, waiting, done = table.slice(size).to_batches(), waiting - size, done + size
            yield table.slice(0, size)
            del table  # it is written: nothing holds it while the next one comes
            progress(done, max(expected or 0, done))
    if waiting:
        yield pa.Table.from_batches(held)
        progress(done + waiting, done + waiting)


def _write(tables: Iterator[pa.Table], schema: pa.Schema, folder: Path) -> tuple[int, list[Path]]:
    """Write each table as one row group, in files without Parquet names yet; return (rows, files)."""
    rows, files = 0, list[Path]()
    while (first := next(tables, None)) is not None:
        files.append(folder / f"part-{len(files):06}.parquet.unfinished")
        with (
            as_disk_errors(files[-1]),
            os.fdopen(os.open(files[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE), "wb") as file,
        ):
            with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                groups = chain(iter([first]), islice(tables, GROUPS_PER_FILE - 1))
                del first  # a group is held while it is written, and no longer
                for table in groups:
                    writer.write_table(table, row_group_size=len(table))
                    rows += len(table)
                    del table
            file.flush()
            os.fsync(file.fileno())
    return rows, files


def _finish(fresh: Path, names: dict[Path, Path], manifest: Manifest, folder: Path) -> None:
    """Give files and folder their names, the folder last."""
    create(fresh / MANIFEST_NAME, json.dumps(manifest.to_json(), indent=1, ensure_ascii=False).encode() + b"\n")
    with as_disk_errors(folder):
        for file, name in names.items():
            file.rename(name)
        sync_folder(fresh)
        fresh.rename(folder)
        sync_folder(folder.parent)


def _ascends(keys: pa.RecordBatch) -> bool:
    """Whether every row is larger than the one before, comparing columns in order."""
    pairs = [(column.slice(0, len(column) - 1), column.slice(1)) for column in keys.columns]

    def lexically(later: pa.Array, pair: tuple[pa.Array, pa.Array]) -> pa.Array:
        return pc.or_(pc.less(*pair), pc.and_(pc.equal(*pair), later))

    (*before, last) = pairs
    return bool(pc.all(reduce(lexically, reversed(before), pc.less(*last)), min_count=0).as_py())
