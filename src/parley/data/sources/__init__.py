"""The places where tables lie, all behind `TableSource`."""

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
