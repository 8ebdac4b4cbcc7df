"""A snapshot of a SQLite file: the order, the types, the manifest, and what is left when it ends early."""

import json
import sqlite3

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from databases import write_sqlite
from loans_database import ALL, LOANS, take

from parley.data.databases import Request, open_database, snapshot, take_snapshot
from parley.data.databases.database import Column
from parley.data.sources import find_source
from parley.errors import DataError, ParleyError, SettingError


@pytest.fixture
def loans(tmp_path):
    return write_sqlite(tmp_path / "loans.db", LOANS)


def refused(uri, query, folder, *keys):
    with pytest.raises(ParleyError) as error:
        take(uri, query, folder, *keys)
    assert not folder.exists()
    assert [file for file in folder.parent.iterdir() if file.suffix != ".db"] == []
    return str(error.value)


def test_rows_lie_in_the_order_of_their_key_with_the_types_that_were_declared(loans, tmp_path):
    manifest = take(loans, ALL, tmp_path / "table")
    table = pq.read_table(tmp_path / "table" / "part-000000.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds == {
        "id": "int64",
        "name": "string",
        "amount": "double",
        "paid": "double",
        "opened": "date32[day]",
        "seen": "timestamp[us]",
        "late": "bool",
        "photo": "binary",
        "loose": "string",
    }
    assert table["id"].to_pylist() == [1, 2, 3]
    assert table["name"].to_pylist() == [None, "ä", "c"]
    assert table["late"].to_pylist() == [None, False, True]
    assert table["loose"].to_pylist() == ["word", None, "1"]
    assert [str(day) for day in table["opened"].to_pylist()] == ["None", "1999-12-31", "2020-02-29"]
    assert manifest.rows == 3


def test_the_manifest_says_what_was_asked_where_and_when(loans, tmp_path):
    manifest = take(loans, "SELECT id, amount FROM opened;", tmp_path / "table")
    content = json.loads((tmp_path / "table" / "parley-snapshot.json").read_text())
    assert content["query"] == "SELECT id, amount FROM opened;"
    assert content["keys"] == ["id"]
    assert content["server"] == f"sqlite:{tmp_path / 'loans.db'}"
    assert content["version"].startswith("SQLite 3.")
    assert pd.Timestamp(content["taken"]).tz is not None
    assert content["columns"][1] == {"name": "amount", "declared": "REAL", "type": "double"}
    assert content["rows"] == 3
    table = find_source(tmp_path / "table")
    assert content["digest"] == table.digest().hex() == manifest.digest
    assert table.manifest == manifest
    assert (tmp_path / "table").stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "table").iterdir())


def test_an_order_that_is_not_total_is_refused(loans, tmp_path):
    folder = tmp_path / "table"
    halves = "SELECT id, CAST(id / 2 AS INTEGER) AS half FROM loans"
    assert "several rows have the same" in refused(loans, halves, folder, "half")
    assert "is missing in some rows" in refused(loans, "SELECT id, name FROM loans", folder, "name")
    assert "no such column" in refused(loans, "SELECT id FROM loans", folder, "key")
    assert "each named once" in refused(loans, "SELECT id FROM loans", folder, "id", "id")
    both = take(loans, halves, folder, "half", "id")
    assert both.keys == ("half", "id")


def test_ties_between_batches_are_found_too(tmp_path, monkeypatch):
    monkeypatch.setattr("parley.data.databases.sqlite_file.BATCH_ROWS", 2)
    rows = ", ".join(f"({k})" for k in (1, 2, 2, 3))
    uri = write_sqlite(tmp_path / "t.db", f"CREATE TABLE t (id INT); INSERT INTO t VALUES {rows}")
    assert "several rows have the same" in refused(uri, "SELECT id FROM t", tmp_path / "table")


def test_text_is_sorted_by_its_bytes_whatever_its_collation(tmp_path):
    script = "CREATE TABLE t (id TEXT COLLATE NOCASE); INSERT INTO t VALUES ('b'), ('B'), ('a'), ('é'), ('z')"
    take(write_sqlite(tmp_path / "t.db", script), "SELECT id FROM t", tmp_path / "table")
    found = pq.read_table(tmp_path / "table" / "part-000000.parquet")["id"].to_pylist()
    assert found == ["B", "a", "b", "z", "é"]


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("loose", "has no declared type"),
        ("amount * 2 AS twice", "has no declared type"),
        ("NULL AS gap", "has no declared type"),
        ("id", "two columns of the query are called 'id'"),
        ("name AS ''", "one column has no name"),
    ],
)
def test_columns_without_a_declared_type_or_name_are_refused(loans, tmp_path, column, why):
    said = refused(loans, f"SELECT id, {column} FROM loans", tmp_path / "table")
    assert why in said or "'loose', declared as BLOB" in said  # as some versions of SQLite have it


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("INTEGER", "'late word'"),
        ("INTEGER", "1.5"),
        ("REAL", "x'00'"),
        ("TEXT", "x'ff'"),
        ("DATE", "'31.12.1999'"),
        ("DATETIME", "12"),
        ("BOOLEAN", "2"),
        ("DECIMAL(4,1)", "9007199254740993"),
    ],
)
def test_a_cell_that_is_not_what_its_column_is_declared_as_is_refused_however_late(tmp_path, monkeypatch, kind, cell):
    """SQLite lets any cell into any column; types are what was declared, so no row decides how others are read."""
    monkeypatch.setattr("parley.data.databases.sqlite_file.BATCH_ROWS", 16)
    rows = ", ".join(f"({k}, NULL)" for k in range(100))
    script = f"CREATE TABLE t (id INTEGER PRIMARY KEY, c {kind}); INSERT INTO t VALUES {rows}, (100, {cell})"
    uri = write_sqlite(tmp_path / "t.db", script)
    said = refused(uri, "SELECT id, c FROM t", tmp_path / "table")
    assert "column 'c'" in said
    assert cell.strip("'") not in said.replace(str(tmp_path), "")


def test_no_rows_and_a_folder_that_exists_are_refused(loans, tmp_path):
    assert "returns no rows" in refused(loans, "SELECT id FROM loans WHERE 0", tmp_path / "table")
    take(loans, ALL, tmp_path / "table")
    before = (tmp_path / "table" / "parley-snapshot.json").read_bytes()
    with pytest.raises(SettingError, match="never replaced"):
        take(loans, ALL, tmp_path / "table")
    assert (tmp_path / "table" / "parley-snapshot.json").read_bytes() == before


def test_one_person_replaced_changes_one_row_and_nothing_else(tmp_path, monkeypatch):
    """Not the types, not where row groups end, not another cell, whatever the new row holds."""
    monkeypatch.setattr(snapshot, "GROUP_BYTES", 0)  # row groups of 1024
    rows = ", ".join(f"({k}, {k / 7}, 'name {k}', '2020-01-01')" for k in range(3000))
    script = "CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL, name TEXT, day DATE); INSERT INTO t VALUES " + rows
    first = take(write_sqlite(tmp_path / "0.db", script), "SELECT * FROM t", tmp_path / "0")
    mine = find_source(tmp_path / "0")
    cells = [
        "NULL, NULL, NULL",
        "1e308, '', NULL",
        f"-0.0, '{'é' * 50_000}', '9999-12-31'",
        "5e-324, '1', '0001-01-01'",
    ]
    for number, cell in enumerate(cells, start=1):
        changed = f"{script}; REPLACE INTO t VALUES (1500, {cell})"
        other = take(write_sqlite(tmp_path / f"{number}.db", changed), "SELECT * FROM t", tmp_path / str(number))
        theirs = find_source(tmp_path / str(number))
        assert (theirs.schema, other.rows, other.files) == (mine.schema, first.rows, first.files)
        assert [chunk.rows for chunk in theirs.chunks] == [chunk.rows for chunk in mine.chunks] == [1024, 1024, 952]
        one, two = (pq.read_table(place.files[0]) for place in (mine, theirs))
        assert one.slice(0, 1500) == two.slice(0, 1500)
        assert one.slice(1501) == two.slice(1501)
        assert one.slice(1500, 1) != two.slice(1500, 1)


def test_rows_in_a_row_group_hang_on_the_declared_columns_alone():
    few = [Column("a", "int", pa.int64())]
    assert snapshot.group_rows(few) == snapshot.MAX_GROUP_ROWS
    assert snapshot.group_rows([Column(str(k), "text", pa.string()) for k in range(100)]) == 10485
    assert snapshot.group_rows(few * 10**5) == 1024
    assert (
        snapshot.group_rows([*few, Column("document", "text", pa.string())])
        == snapshot.MAX_GROUP_ROWS_WITH_TEXT
        < 20_000
    )


def test_a_row_group_is_held_while_it_is_written_and_no_longer(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "GROUP_BYTES", 0)  # row groups of 1024
    monkeypatch.setattr("parley.data.databases.sqlite_file.BATCH_ROWS", 512)
    numbers = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 6000)"
    script = f"CREATE TABLE t (id INTEGER, s TEXT); {numbers} INSERT INTO t SELECT i, hex(zeroblob(2000)) FROM c"
    uri, before, held = write_sqlite(tmp_path / "t.db", script), pa.total_allocated_bytes(), []
    with open_database(uri) as database:
        request = Request("SELECT * FROM t", ("id",))
        take_snapshot(database, request, tmp_path / "t", lambda *_: held.append(pa.total_allocated_bytes() - before))
    assert len(held) == 6
    assert max(held) < 1024 * 4000  # bytes of one


def test_many_files_hold_every_row_once(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot, "GROUP_BYTES", 0)
    monkeypatch.setattr(snapshot, "GROUPS_PER_FILE", 2)
    rows = ", ".join(f"({k})" for k in range(5000))
    uri = write_sqlite(tmp_path / "t.db", f"CREATE TABLE t (id INTEGER); INSERT INTO t VALUES {rows}")
    seen = []
    with open_database(uri) as database:
        request = Request("SELECT id FROM t", ("id",))
        manifest = take_snapshot(database, request, tmp_path / "table", lambda *done: seen.append(done), 4000)
    assert manifest.files == tuple(f"part-{k:06}.parquet" for k in range(3))
    assert find_source(tmp_path / "table").frame()["id"].tolist() == list(range(5000))
    assert seen == [(1024, 4000), (2048, 4000), (3072, 4000), (4096, 4096), (5000, 5000)]


def test_a_folder_is_refused_that_holds_other_files_than_its_manifest_lists(loans, tmp_path):
    take(loans, ALL, tmp_path / "table")
    part = tmp_path / "table" / "part-000000.parquet"
    (tmp_path / "table" / "part-000001.parquet").write_bytes(part.read_bytes())
    with pytest.raises(DataError, match="the snapshot's files differ from those listed"):
        len(find_source(tmp_path / "table"))
    (tmp_path / "table" / "part-000001.parquet").unlink()
    pq.write_table(pq.read_table(part).slice(1), part)
    with pytest.raises(DataError, match="the snapshot's files differ from those listed"):
        find_source(tmp_path / "table").digest()
    with pytest.raises(DataError, match="the snapshot's files differ from those listed"):
        find_source(tmp_path / "table").frame()
    take(loans, ALL, tmp_path / "columns")
    part = tmp_path / "columns" / "part-000000.parquet"
    pq.write_table(pq.read_table(part).drop_columns("paid"), part)
    with pytest.raises(DataError, match="the snapshot's files differ from those listed"):
        len(find_source(tmp_path / "columns"))
    part.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        len(find_source(tmp_path / "columns"))
    (tmp_path / "table" / "parley-snapshot.json").write_text("{}")
    with pytest.raises(DataError, match="take a new snapshot"):
        len(find_source(tmp_path / "table"))


@pytest.mark.parametrize(
    "change",
    [{"query": 5}, {"server": None}, {"keys": [1]}, {"files": None}, {"rows": "x"}, {"digest": None}, {"columns": [1]}],
)
def test_a_manifest_whose_entries_are_of_another_kind_is_refused(loans, tmp_path, change):
    take(loans, ALL, tmp_path / "table")
    manifest = tmp_path / "table" / "parley-snapshot.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    for look in (lambda table: table.origin, lambda table: table.remarks, len):
        with pytest.raises(DataError, match="take a new snapshot"):
            look(find_source(tmp_path / "table"))


def test_all_rows_are_of_one_moment(loans, tmp_path):
    """In WAL mode writers go on; the transaction sees none of it."""
    writer = sqlite3.connect(tmp_path / "loans.db", isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    with open_database(loans) as database:
        request = Request("SELECT id, name FROM loans", ("id",))
        writer.execute("INSERT INTO loans (id) VALUES (99)")
        assert take_snapshot(database, request, tmp_path / "before").rows == 3
    writer.close()
    assert take(loans, "SELECT id FROM loans", tmp_path / "after").rows == 4


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT id FROM loans", []),
        ("SELECT id FROM opened WHERE amount > 1 ORDER BY amount", []),
        ("SELECT a.id FROM loans a JOIN loans b ON a.id = b.id + 1", ["a join, or several tables"]),
        ("SELECT id FROM loans UNION ALL SELECT id FROM loans", ["a join, or several tables"]),
        ("SELECT count(*) AS id FROM loans", ["an aggregate or a window"]),
        ("SELECT sum(amount) AS id FROM loans", ["an aggregate or a window"]),
        ("SELECT id, sum(amount) OVER (ORDER BY id) AS s FROM loans", ["an aggregate or a window"]),
        ("SELECT DISTINCT name AS id FROM loans", ["rows merged into one (DISTINCT or GROUP BY)"]),
        ("SELECT id FROM loans LIMIT 2", ["a limit"]),
        ("SELECT id, amount FROM loans ORDER BY amount DESC LIMIT 2", ["a limit"]),
        ("SELECT id, amount FROM loans ORDER BY amount LIMIT 2 OFFSET 1", ["a limit"]),
        ("SELECT id FROM loans LIMIT -1 OFFSET 1", ["a limit"]),
        ("SELECT id FROM loans LIMIT (SELECT 2)", ["a limit"]),
        ("SELECT id FROM (SELECT * FROM loans ORDER BY amount LIMIT 2) ORDER BY name", ["a limit"]),
    ],
)
def test_what_brings_people_together_is_seen_in_the_plan(loans, query, found):
    with open_database(loans) as database:
        spreads = database.plan(Request(query, ("id",))).spreads
    assert set(found) <= set(spreads)
    assert bool(found) == bool(spreads)
