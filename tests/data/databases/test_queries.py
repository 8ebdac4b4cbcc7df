"""What a query to a SQLite file may hold, what is said of one that cannot be taken, and where its rows are sorted."""

import os
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from databases import write_sqlite

from parley.data.databases import Request, open_database, take_snapshot
from parley.errors import ParleyError

LOANS = """
CREATE TABLE loans (id INTEGER PRIMARY KEY, name TEXT, amount REAL, opened DATE);
INSERT INTO loans VALUES (3, 'c', 2.5, '2020-02-29'), (1, NULL, NULL, NULL), (2, 'b', 0.1, '1999-12-31');
"""


@pytest.fixture
def loans(tmp_path):
    return write_sqlite(tmp_path / "loans.db", LOANS)


def take(uri, query, folder):
    with open_database(uri) as database:
        return take_snapshot(database, Request(query, ("id",)), folder)


@pytest.mark.parametrize("end", [";", " ;; ", "; -- of March", ";\n/* of\nMarch */ ;\n", " -- of March"])
def test_what_stands_behind_a_query_is_no_part_of_it(loans, tmp_path, end):
    assert take(loans, f"SELECT id, name FROM loans WHERE name <> '; --' OR id = 1{end}", tmp_path / "table").rows == 3


def test_text_between_quotes_of_other_kinds_is_not_cut():
    for query in ("SELECT $$; --$$ AS a FROM t", "SELECT $$a;b$$ AS a FROM t", "SELECT id FROM [a;b]"):
        cut = query.startswith("SELECT $$; --")  # which every database refuses: nothing is left out unnoticed
        assert Request(f"{query};\n", ("id",)).source == f"(\n{'SELECT $$' if cut else query}\n)"


def test_the_origin_of_a_query_is_the_same_whatever_stands_behind_it(loans, tmp_path):
    found = [take(loans, f"SELECT id FROM loans{end}", tmp_path / f"t{len(end)}").origin for end in ("", ";", "; -- x")]
    assert len({*found}) == 1
    assert take(loans, "SELECT id FROM loans WHERE id < 9; -- x", tmp_path / "other").origin != found[0]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT id FROM loans; DELETE FROM loans", "the query failed"),
        ("SELECT id FROM loans WHERE name = :1", "has a placeholder"),
        ("SELECT id FROM loans WHERE name = ?", "has a placeholder"),
        ("SELECT id, name, name FROM loans", "two columns of the query are called 'name'"),
        (
            "SELECT id, amount AS name, opened AS 'name:1' FROM loans",
            "the column name 'name:1' suggests that two columns of the query are called 'name'",
        ),
    ],
)
def test_a_query_that_leaves_something_open_is_refused_in_a_sentence(loans, tmp_path, query, why):
    with pytest.raises(ParleyError, match=re.escape(why)):
        take(loans, query, tmp_path / "table")
    with open_database(loans) as database, pytest.raises(ParleyError, match=re.escape(why)):
        database.columns(Request(query, ("id",)))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["loans.db"]


def test_text_that_looks_like_a_parameter_and_a_name_of_a_second_column_are_taken_as_they_are(loans, tmp_path):
    take(loans, "SELECT id, name AS 'a:1' FROM loans WHERE ':a' <> 'a:1'", tmp_path / "table")
    assert pq.read_table(tmp_path / "table" / "part-000000.parquet").column_names == ["id", "a:1"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT id, random() AS k FROM t", ("random",)),
        ("SELECT UUID ( ) AS k, Gen_Random_Uuid(), row_number() OVER ()", ("gen_random_uuid", "row_number", "uuid")),
        ("SELECT uuid_generate_v4(), nextval('s')", ("nextval", "uuid_generate_v4")),
        ("SELECT uuid, 'random()' AS \"random()\" -- random()", ()),
        ("SELECT brand(id) /* random() */ FROM t", ()),
    ],
)
def test_functions_that_say_something_else_next_time_are_named(query, found):
    assert Request(query, ("k",)).unstable == found


def test_what_sqlite_sorts_on_disk_lies_beside_the_snapshot_for_its_account_alone(tmp_path, monkeypatch):
    rows = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 40000)"
    script = f"CREATE TABLE t (id INT, s TEXT); INSERT INTO t {rows} SELECT i * 7919 % 40009, hex(zeroblob(200)) FROM r"
    uri, request = write_sqlite(tmp_path / "t.db", script), Request("SELECT * FROM t", ("id",))
    (tmp_path / "taken").mkdir()

    def sorted_in(beside):
        """Folders of open files that are gone for others."""
        with open_database(uri, beside=beside) as database:
            rows = database.batches(request, database.columns(request))
            next(rows)
            opened = [os.path.realpath(file) for file in Path("/proc/self/fd").iterdir()]
            there = {folder: folder.stat().st_mode & 0o777 for folder in beside.parent.iterdir()}
            return {Path(file).parent for file in opened if "etilqs" in file}, there

    found, there = sorted_in(tmp_path / "taken" / "table")
    assert found == {*there}
    assert [*there.values()] == [0o700]
    assert list((tmp_path / "taken").iterdir()) == []
    monkeypatch.setattr("os.access", lambda *_: False)
    assert sorted_in(tmp_path / "taken" / "table") == (set(), {})
