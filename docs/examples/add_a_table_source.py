"""Add a table source: a table in an SQLite file. One line in the catalogue, and owners take such files as any other.

Rows come in one fixed order. What a cell is read as hangs on it and on its column's declared type alone; a digest tells
a ledger which table it is; and rows of a table that changed since are refused.

In the package: data/sources/catalogue.py, data/sources/sqlite_table.py (new)
"""

import hashlib
import sqlite3
import tempfile
from contextlib import closing
from functools import cached_property

import pandas as pd
import pyarrow as pa

import parley
from parley.data.sources import SOURCES, TableSource
from parley.errors import DataError

TYPES = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}


class SqliteTable(TableSource):
    """The table `records` of an SQLite file, in the order of its row ids; digested at every look."""

    @cached_property
    def types(self):
        return {name: TYPES[kind] for name, kind in self._ask("SELECT name, type FROM pragma_table_info('records')")}

    @property
    def example(self):
        return pa.schema(self.types.items()).empty_table().to_pandas(types_mapper=pd.ArrowDtype)

    def __len__(self):
        return self._first[0]

    def frame(self, columns=None):
        wanted = list(dict.fromkeys(self.types if columns is None else columns))
        rows = self._rows(wanted)
        self.require_unchanged()
        try:  # cells of a column need not have its type in SQLite; one that has not is refused, whatever the others are
            cells = [pa.array([row[place] for row in rows], self.types[column]) for place, column in enumerate(wanted)]
        except (pa.ArrowException, TypeError):  # their texts may quote cells
            raise DataError(f"{self.where}: some cell is not of the type that its column is declared to have") from None
        return pa.table(cells, wanted).to_pandas(types_mapper=pd.ArrowDtype)

    def digest(self):
        return self._first[1]

    def require_unchanged(self):
        if self._look() != self._first:
            raise DataError(f"{self.where}: the file changed since the table was opened")

    @cached_property
    def _first(self):
        return self._look()

    def _look(self):
        return len(rows := self._rows(self.types)), hashlib.sha256(repr(rows).encode()).digest()

    def _rows(self, columns):
        wanted = ", ".join(f'"{column}"' for column in columns)
        return self._ask(f"SELECT {wanted} FROM records ORDER BY rowid")  # noqa: S608 - names that the file declares

    def _ask(self, question):
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute(question).fetchall()


SOURCES[".db"] = SqliteTable

with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(path := f"{folder}/loans.db")) as database:
    parley.data.synthetic_lending(4000, seed=1)[["fico", "dti", "int_rate"]].to_sql("records", database, index=False)
    model = {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "radius": 30.0}
    more = {"learning": {"step": 1e-6}, "owners": [{"name": "bank", "records": 4000, "epsilon": 1.0}]}
    owner, terms = parley.Owner("bank", path), parley.Terms.from_dict(more | {"model": model, "privacy": {"clip": 2e4}})
    assert parley.train(terms, [owner], replicates=4, seed=0).owners[0].epsilon_spent == 1.0
    database.execute("UPDATE records SET dti = 0 WHERE rowid = 7").connection.commit()
    assert not owner.table.unchanged()
