"""Snapshots of a DuckDB file; skipped where DuckDB is not installed."""

import datetime as dt
import os
import signal
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from databases import write_duckdb

from parley.data.databases import Request, duckdb_file, open_database, take_snapshot
from parley.errors import ParleyError

PEOPLE = """
CREATE SCHEMA bank;
CREATE TABLE bank.people (
  id BIGINT PRIMARY KEY, name VARCHAR, word VARCHAR COLLATE NOCASE, mood ENUM ('sad', 'happy'), tiny UTINYINT,
  money DECIMAL(12,2), long DECIMAL(38,4), truth BOOLEAN, day DATE, seen TIMESTAMP, seen_there TIMESTAMPTZ, clock TIME,
  key UUID, photo BLOB, huge HUGEINT, list INTEGER[], ever DATE
);
INSERT INTO bank.people VALUES
  (2, 'ä', 'b', 'happy', 255, 3.25, 0.1, true, '2020-02-29', '2020-01-01 10:00', '2020-01-01 10:00+02', '23:59',
   '00000000-0000-0000-0000-0000000000ff', '\\x00', 1, [1], 'infinity'),
  (1, NULL, 'B', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (3, NULL, 'a', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE VIEW rich AS SELECT id, money FROM bank.people WHERE money > 1;
"""


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return write_duckdb(tmp_path_factory.mktemp("duck") / "people.duckdb", PEOPLE)


def take(uri, query, folder, *keys):
    with open_database(uri) as database:
        take_snapshot(database, Request(query, keys or ("id",)), folder)
    return pq.read_table(folder / "part-000000.parquet")


def test_every_cell_comes_out_as_it_was_declared(people, tmp_path):
    table = take(people, "SELECT * EXCLUDE (huge, list, ever) FROM bank.people", tmp_path / "table")
    assert table["id"].to_pylist() == [1, 2, 3]
    assert table.to_pylist()[1] == {
        "id": 2,
        "name": "ä",
        "word": "b",
        "mood": "happy",
        "tiny": 255,
        "money": Decimal("3.25"),
        "long": Decimal("0.1000"),
        "truth": True,
        "day": dt.date(2020, 2, 29),
        "seen": dt.datetime(2020, 1, 1, 10),
        "seen_there": dt.datetime(2020, 1, 1, 8, tzinfo=dt.UTC),
        "clock": dt.time(23, 59),
        "key": "00000000-0000-0000-0000-0000000000ff",
        "photo": b"\x00",
    }
    assert take(people, "FROM rich", tmp_path / "view").num_rows == 1
    assert take(people, "SELECT id, word FROM bank.people", tmp_path / "words", "word")["word"].to_pylist() == [
        "B",
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("id, huge", "has the type HUGEINT"),
        ("id, list", "has the type INTEGER[]"),
        ("id, NULL AS gap", "has the type"),
        ("id, id", "have the same name"),
        ("id, money AS ID", "the same name, ignoring case"),
        ("id, ever", "outside the years 1 to 9999"),
        ("id, TIMETZ '10:00:00+02' AS there", "has the type TIME WITH TIME ZONE"),
        ("id, '101'::BIT AS bits", "has the type BIT"),
        ("id, TIME '24:00:00' AS midnight", "past 23:59:59"),
        ("id // 3 AS id, name", "several rows have the same"),
        ("name AS id", "is missing in some rows"),
        ("id, CAST(word AS INTEGER) AS number", "not all rows"),
    ],
)
def test_what_has_no_meaning_or_order_is_refused(people, tmp_path, columns, why):
    with pytest.raises(ParleyError, match=why.replace("[", r"\[")):
        take(people, f"SELECT {columns} FROM bank.people", tmp_path / "table")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT id FROM rich", set()),
        ("SELECT a.id FROM bank.people a JOIN bank.people b ON a.id = b.id", {"a join"}),
        ("SELECT name AS id, max(money) FROM bank.people GROUP BY name", {"an aggregate"}),
        ("SELECT id, sum(money) OVER () FROM bank.people", {"a window"}),
        ("SELECT id FROM bank.people LIMIT 1", {"a limit"}),
        ("SELECT id FROM bank.people UNION ALL SELECT id FROM rich", {"several tables or parts of one"}),
    ],
)
def test_what_brings_people_together_is_seen_in_the_plan(people, query, found):
    with open_database(people) as database:
        spreads = set(database.plan(Request(query, ("id",))).spreads)
    assert found <= spreads
    assert bool(found) == bool(spreads)


def test_several_statements_are_refused_in_one_sentence(people, tmp_path):
    several = "SELECT 1 AS id) AS source; SET memory_limit = '1GB'; SELECT * FROM (SELECT 1 AS id"
    with open_database(people) as database, pytest.raises(ParleyError, match="contains several statements"):
        database.plan(Request(several, ("id",)))
    with pytest.raises(ParleyError, match="contains several statements"):
        take(people, several, tmp_path / "table")


def test_other_files_are_no_part_of_it(people, tmp_path):
    (tmp_path / "other.csv").write_text("id\n1\n")
    with pytest.raises(ParleyError, match="the query failed"):
        take(people, f"SELECT id FROM read_csv('{tmp_path / 'other.csv'}')", tmp_path / "table")


MANY = "CREATE TABLE t AS SELECT (i * 7919) % 400009 AS id, repeat(md5(i::VARCHAR), 4) AS s FROM range(300000) r(i)"


def test_what_it_sorts_on_disk_is_for_its_account_alone_and_gone_after_a_kill_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(duckdb_file, "MEMORY_LIMITS_MB", (48,))
    uri = write_duckdb(tmp_path / "t.duckdb", MANY)
    (tmp_path / "t.duckdb").chmod(0o600)
    request = Request("SELECT * FROM t", ("id",))
    child = os.fork()
    if not child:
        try:
            with open_database(uri) as database:
                for _ in database.batches(request, database.columns(request)):
                    os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    left = [each for each in tmp_path.rglob("*") if each.name != "t.duckdb"]
    assert any(each.stat().st_size > 1 << 20 for each in left)  # rows were put on the disk
    assert all(each.stat().st_mode & 0o077 == 0 for each in tmp_path.iterdir())
    with open_database(uri) as database:
        assert not any(each.exists() for each in left)
        assert len(list(tmp_path.iterdir())) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["t.duckdb"]


def test_rows_that_are_too_long_for_little_memory_get_more_and_at_last_a_sentence(tmp_path, monkeypatch):
    long = "SELECT (i * 7919) % 40009 AS id, repeat(md5(i::VARCHAR), 50) AS s FROM range(40000) r(i)"
    uri = write_duckdb(tmp_path / "t.duckdb", f"CREATE TABLE t AS {long}")
    (tmp_path / "taken").mkdir()
    for limits in ((16,), (16, 512)):
        monkeypatch.setattr(duckdb_file, "MEMORY_LIMITS_MB", limits)
        with open_database(uri, beside=tmp_path / "taken" / "table") as database:
            assert all(each.name.endswith(".parley-unfinished") for each in (tmp_path / "taken").iterdir())
            if limits[-1] == 512:
                assert take_snapshot(database, Request("FROM t", ("id",)), tmp_path / "taken" / "table").rows == 40000
            else:
                with pytest.raises(ParleyError, match=f"do not fit into {limits[-1]} MB for sorting"):
                    take_snapshot(database, Request("FROM t", ("id",)), tmp_path / "taken" / "table")
    assert [each.name for each in (tmp_path / "taken").iterdir()] == ["table"]


def test_where_nothing_may_be_written_beside_the_file_rows_stay_in_memory(people, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with open_database(people) as database:
        assert database.rows("SELECT current_setting('temp_directory')") == [("",)]
