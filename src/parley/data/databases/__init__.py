"""Tables that lie in a database: one query becomes a folder of Parquet files, and that folder is the table.

Nobody answers questions from a database itself: it changes, and a ledger speaks of rows that stay as they are.
"""

from parley.data.databases.catalogue import open_database
from parley.data.databases.database import Database, Request
from parley.data.databases.snapshot import take_snapshot

__all__ = ["Database", "Request", "open_database", "take_snapshot"]
