"""A total order: every row has a place of its own, which its key alone decides."""

from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from parley.errors import DataError


def in_order(batches: Iterator[pa.RecordBatch], keys: Sequence[str], where: str) -> Iterator[pa.RecordBatch]:
    """The same batches, if keys have no gaps and every row's is larger than the one before.

    Text is compared by its bytes, so a database that sorts by a language's rules does not pass for one that does not.
    """
    named, last = ", ".join(keys), None
    for batch in batches:
        if not len(batch):
            continue
        held = batch.select(list(keys))
        if any(column.null_count for column in held.columns):
            raise DataError(f"{where}: {named} is missing in some row; expected an --order-by that every row has")
        if not _ascends(held if last is None else pa.concat_batches([last, held])):
            raise DataError(
                f"{where}: {named} does not give every row a place of its own; expected an --order-by of which no two "
                "rows have the same, such as a primary key"
            )
        last = held.slice(len(held) - 1)
        yield batch


def _ascends(keys: pa.RecordBatch) -> bool:
    """Whether every row is larger than the one before: by the first column, where that is equal by the second, ..."""
    pairs = [(column.slice(0, len(column) - 1), column.slice(1)) for column in keys.columns]

    def lexically(later: pa.Array, pair: tuple[pa.Array, pa.Array]) -> pa.Array:
        return pc.or_(pc.less(*pair), pc.and_(pc.equal(*pair), later))

    (*before, last) = pairs
    return bool(pc.all(reduce(lexically, reversed(before), pc.less(*last)), min_count=0).as_py())
