"""Which table it is: a digest of its contents, so that a ledger notices another one. It is never sent, and kept only
sealed."""

from dataclasses import dataclass

from parley.data.schema import schema_digest
from parley.data.sources import Table, TableSource, find_source, open_table


@dataclass(frozen=True)
class TableDigest:
    """What a ledger keeps of a table: a digest of its cells, and one of its declared schema, which counts as public."""

    cells: bytes
    schema: str


def digested_table(table: Table) -> tuple[TableSource, TableDigest]:
    """The opened table and its digest: the rows are those that it speaks of, now and whenever they are read again."""
    source = find_source(table)
    cells = source.digest()
    return open_table(source), TableDigest(cells, schema_digest(source.schema))
