"""Where tables lie. Everybody else knows a `TableSource`, and asks none of which kind it is."""

from parley.data.sources.catalogue import SOURCES, Table, find_source, held_table, open_table, read_table
from parley.data.sources.source import Chunk, Origin, Rows, TableSource, same_table

__all__ = [
    "SOURCES",
    "Chunk",
    "Origin",
    "Rows",
    "Table",
    "TableSource",
    "find_source",
    "held_table",
    "open_table",
    "read_table",
    "same_table",
]
