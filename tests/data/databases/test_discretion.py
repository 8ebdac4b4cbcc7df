"""Databases quote cells in what they say. Thirty errors are provoked around planted ones: no message repeats them."""

import io
import sqlite3
import traceback
from contextlib import closing, redirect_stderr, redirect_stdout

import pyarrow as pa
import pytest
from databases import NUMBER, WORD, write_duckdb, write_sqlite

from parley.cli.app import main
from parley.data.databases import Request, open_database, take_snapshot
from parley.data.databases.database import Column, plain_batch
from parley.errors import ParleyError

TABLE = f"""
CREATE TABLE people (id INTEGER, word VARCHAR(90), n INTEGER);
INSERT INTO people VALUES (1, '{WORD}', {NUMBER}), (2, '{WORD}', {NUMBER}), (3, NULL, NULL);
"""
EVERYWHERE = [
    ("SELECT id, word FROM people WHERE id < 3", "word"),
    ("SELECT id, word FROM people", "word"),
    ("SELECT id, n FROM people", "n"),
    ("SELECT id, word FROM people, people", "id"),
    ("SELECT word || word FROM nowhere", "id"),
]
POSTGRES = [
    ("SELECT id, CAST(word AS DATE) AS c FROM people WHERE id < 3", "id"),
    ("SELECT id, CAST(word AS INTEGER) AS c FROM people", "id"),
    ("SELECT id, CAST(n AS SMALLINT) AS c FROM people", "id"),
    ("SELECT id, n / (id - 1) AS c FROM people", "id"),
    ("SELECT id, CAST(word AS UUID) AS c FROM people", "id"),
    ("SELECT id, CAST(word AS jsonb) AS c FROM people", "id"),
    ("SELECT id, to_date(word, 'YYYY') AS c FROM people", "id"),
    ("SELECT id, CAST(n AS NUMERIC(4,2)) AS c FROM people", "id"),
    ("SELECT id, CAST(word AS feeling) AS c FROM people", "id"),
    ("SELECT id, CAST(n AS small) AS c FROM people", "id"),
    ("SELECT id, nosy(word) AS c FROM people", "id"),
    ("SELECT id, open_table(word) AS c FROM people", "id"),
    ("SELECT id, n, 'infinity'::date AS c FROM people", "id"),
    ("SELECT id, (SELECT word FROM people WHERE id < 3) AS c FROM people", "id"),
]
SQLITE = [
    ("SELECT id, word AS n FROM odd", "id"),
    ("SELECT id, day FROM odd", "id"),
    ("SELECT id, broken FROM odd", "id"),
    ("SELECT id, truth FROM odd", "id"),
    ("SELECT id, json_extract(word, '$') AS c FROM people", "id"),
    ("SELECT id, abs(-9223372036854775807 - n) AS c FROM people", "id"),
]
DUCKDB = [
    ("SELECT id, CAST(word AS DATE) AS c FROM people WHERE id < 3", "id"),
    ("SELECT id, CAST(word AS INTEGER) AS c FROM people", "id"),
    ("SELECT id, CAST(n AS TINYINT) AS c FROM people", "id"),
    ("SELECT id, strptime(word, '%Y') AS c FROM people", "id"),
    ("SELECT id, error(word) AS c FROM people", "id"),
    ("SELECT id, CAST(n AS DECIMAL(4,2)) AS c FROM people", "id"),
    ("SELECT id, CAST(word AS UUID) AS c FROM people", "id"),
]


@pytest.fixture(scope="module")
def lite(tmp_path_factory):
    odd = f"""CREATE TABLE odd (id INTEGER, word INTEGER, day DATE, broken TEXT, truth BOOLEAN);
    INSERT INTO odd VALUES (1, '{WORD}', '{WORD}', CAST(x'ff' || '{WORD}' AS TEXT), {NUMBER});"""
    return write_sqlite(tmp_path_factory.mktemp("planted") / "a.db", TABLE + odd)


@pytest.fixture(scope="module")
def duck(tmp_path_factory):
    return write_duckdb(tmp_path_factory.mktemp("planted") / "a.duckdb", TABLE)


def said(uri, query, key, folder):
    """All that is said by an error that this provokes: the message, and what Python would print of it."""
    with pytest.raises(ParleyError) as error, open_database(uri) as database:
        take_snapshot(database, Request(query, (key,)), folder)
    assert list(folder.parent.iterdir()) == []
    return str(error.value) + "".join(traceback.format_exception(error.value))


def require_discreet(text):
    assert WORD not in text
    assert WORD.split("-")[0].lower() not in text.lower()
    assert str(NUMBER) not in text


@pytest.mark.parametrize(("query", "key"), EVERYWHERE + SQLITE)
def test_sqlite_says_nothing(lite, tmp_path, query, key):
    require_discreet(said(lite, query, key, tmp_path / "table"))


@pytest.mark.parametrize(("query", "key"), EVERYWHERE + DUCKDB)
def test_duckdb_says_nothing(duck, tmp_path, query, key):
    require_discreet(said(duck, query, key, tmp_path / "table"))


@pytest.fixture(scope="module")
def planted(postgres):
    postgres.sql(
        TABLE
        + """
    CREATE TYPE feeling AS ENUM ('sad');
    CREATE DOMAIN small AS INTEGER CHECK (VALUE < 5);
    CREATE FUNCTION nosy(cell text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'I saw %', cell; END $$;
    CREATE FUNCTION open_table(name text) RETURNS int LANGUAGE plpgsql AS
      $$ BEGIN EXECUTE 'SELECT 1 FROM "' || name || '"'; RETURN 1; END $$;
    """
    )
    return postgres.uri


@pytest.mark.parametrize(("query", "key"), EVERYWHERE + POSTGRES)
def test_postgres_says_nothing(planted, tmp_path, query, key):
    require_discreet(said(planted, query, key, tmp_path / "table"))


def test_the_command_says_one_sentence(lite, tmp_path, monkeypatch):
    query = SQLITE[0][0]
    command = ["parley", "owner", "snapshot", "--uri", lite, "--query", query, "--order-by", "id", "--to"]
    monkeypatch.setattr("sys.argv", [*command, str(tmp_path / "table")])
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "declared as INTEGER, holds a cell of another type" in out.getvalue()
    require_discreet(out.getvalue())


def test_postgres_itself_would_have_told(planted):
    from adbc_driver_postgresql import dbapi

    with closing(dbapi.connect(planted)) as connection, connection.cursor() as cursor:
        cursor.execute(POSTGRES[0][0])
        with pytest.raises(dbapi.Error, match=WORD):
            cursor.fetchall()


def test_text_that_is_not_utf_8_is_refused_whichever_driver_lets_it_through():
    raw = pa.array([f"{WORD}".encode() + b"\xff"]).view(pa.string())
    with pytest.raises(ParleyError, match="column 'word'") as error:
        plain_batch(pa.record_batch([raw], ["word"]), [Column("word", "text", pa.string())], "here")
    require_discreet("".join(traceback.format_exception(error.value)))


def test_the_drivers_themselves_would_have_told(lite, duck):
    """Without the wrapping these tests would fail: what is provoked does quote cells."""
    import duckdb

    with closing(sqlite3.connect(lite.partition(":")[2])) as one, pytest.raises(sqlite3.OperationalError, match=WORD):
        one.execute("SELECT broken FROM odd").fetchall()
    with closing(duckdb.connect(duck.partition(":")[2])) as other, pytest.raises(duckdb.Error, match=WORD):
        other.execute(DUCKDB[0][0]).fetchall()
