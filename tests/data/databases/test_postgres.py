"""Snapshots of a PostgreSQL server that these tests start; they are skipped where none is installed."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley.data.databases import Request, open_database, take_snapshot
from parley.data.sources import find_source
from parley.errors import DatabaseError, DataError, ParleyError, SettingError

PEOPLE = """
CREATE SCHEMA "Bank A";
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE "Bank A".people (
  id bigint PRIMARY KEY, name text, code char(3), word varchar(9) COLLATE "en-x-icu", mood mood,
  small smallint, whole integer, single real, double double precision,
  money numeric(12,2), long numeric(50,10), longest numeric(90,3), any_number numeric,
  truth boolean, day date, seen timestamp, seen_there timestamptz, clock time, key uuid, photo bytea, address inet,
  facts jsonb
);
INSERT INTO "Bank A".people VALUES
  (2, 'ä', 'ab', 'b', 'happy', -1, 7, 1.5, 0.1, 3.25, 1234567890123456789012345678901234567890.5, 1e80, 0.1,
   true, '2020-02-29', '2020-01-01 10:00', '2020-01-01 10:00+02', '23:59', '00000000-0000-0000-0000-0000000000ff',
   '\\x00ff', '10.0.0.1', '{"a": 1}'),
  (1, NULL, NULL, NULL, NULL, NULL, NULL, 'NaN', '-Infinity', 'NaN', NULL, NULL, 'Infinity',
   false, '0001-01-01', '9999-12-31 23:59', NULL, NULL, NULL, NULL, NULL, NULL);
CREATE VIEW faces AS SELECT id, mood, money FROM "Bank A".people WHERE money IS NOT NULL;
CREATE TABLE amounts (id int PRIMARY KEY, pay money, days interval, list int[], never timestamp, ever date);
INSERT INTO amounts VALUES (1, '1.50', '1 day', '{1}', 'infinity', '-infinity');
CREATE ROLE anna LOGIN PASSWORD 'open sesame &/?';
GRANT USAGE ON SCHEMA "Bank A" TO anna;
GRANT SELECT ON "Bank A".people TO anna;
"""


@pytest.fixture(scope="module")
def people(postgres):
    postgres.sql(PEOPLE)
    return postgres


def take(uri, query, folder, *keys):
    with open_database(uri) as database:
        take_snapshot(database, Request(query, keys or ("id",)), folder)
    return pq.read_table(folder / "part-000000.parquet")


def refused(uri, query, folder, *keys):
    with pytest.raises(ParleyError) as error:
        take(uri, query, folder, *keys)
    assert list(folder.parent.iterdir()) == []
    return str(error.value)


def test_every_cell_comes_out_as_it_was_declared(people, tmp_path):
    table = take(people.uri, 'SELECT * FROM "Bank A".people', tmp_path / "table")
    gap, row = table.to_pylist()
    assert row == {
        "id": 2,
        "name": "ä",
        "code": "ab ",
        "word": "b",
        "mood": "happy",
        "small": -1,
        "whole": 7,
        "single": 1.5,
        "double": 0.1,
        "money": Decimal("3.25"),
        "long": Decimal("1234567890123456789012345678901234567890.5"),
        "longest": "1" + "0" * 80 + ".000",
        "any_number": "0.1",
        "truth": True,
        "day": dt.date(2020, 2, 29),
        "seen": dt.datetime(2020, 1, 1, 10),
        "seen_there": dt.datetime(2020, 1, 1, 8, tzinfo=dt.UTC),
        "clock": dt.time(23, 59),
        "key": bytes(15) + b"\xff",
        "photo": b"\x00\xff",
        "address": "10.0.0.1/32",
        "facts": '{"a": 1}',
    }
    assert (gap["money"], gap["any_number"], gap["double"], gap["mood"]) == (None, "inf", float("-inf"), None)
    assert (gap["day"], gap["seen"]) == (dt.date(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59))
    assert table.schema.field("money").type == pa.decimal128(12, 2)
    assert table.schema.field("long").type == pa.decimal256(50, 10)
    assert take(people.uri, "SELECT * FROM faces", tmp_path / "view").num_rows == 2


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("pay", "has the type money"),
        ("days", "has the type interval"),
        ("list", "has the type _int4"),
        ("never", "outside the years 1 to 9999"),
        ("ever", "outside the years 1 to 9999"),
        ("'24:00:00'::time AS midnight", "past 23:59:59"),
        ("id", "have the same name"),
    ],
)
def test_what_has_no_meaning_here_is_refused(people, tmp_path, columns, why):
    assert why in refused(people.uri, f"SELECT id, {columns} FROM amounts", tmp_path / "table")


def test_numbers_of_the_server_s_own_keep_all_their_bits(people, tmp_path):
    table = take(people.uri, "SELECT 1 AS id, 4000000000::oid AS o, '3000000000'::xid AS x", tmp_path / "table")
    assert table.to_pylist() == [{"id": 1, "o": "4000000000", "x": "3000000000"}]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT id, 1 / (id - 500) AS c FROM generate_series(1, 1000) AS id", "22012: a cell cannot be computed"),
        ("SELECT id, pg_sleep(9)::text AS c FROM generate_series(1, 9) AS id", "57014: it was stopped"),
    ],
)
def test_what_goes_wrong_while_rows_come_is_said_by_its_code(people, tmp_path, monkeypatch, query, why):
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=300")
    assert why in refused(people.uri, query, tmp_path / "table")


def test_only_an_order_that_everybody_finds_is_taken(people, tmp_path):
    source = '"Bank A".people'
    said = refused(people.uri, f"SELECT id, word FROM {source}", tmp_path / "table", "word")
    assert '"en-x-icu"' in said
    assert 'CAST(word AS text) COLLATE "C" AS word' in said
    words = f"SELECT id, coalesce(word, '') COLLATE \"C\" AS word FROM {source}"
    assert take(people.uri, words, tmp_path / "words", "word")["word"].to_pylist() == ["", "b"]
    moods = f"SELECT id, mood, any_number FROM {source} WHERE id > 1"
    (tmp_path / "other").mkdir()
    assert "by the collation of mood" in refused(people.uri, moods, tmp_path / "other" / "table", "mood")
    said = refused(people.uri, moods, tmp_path / "other" / "table", "any_number")
    assert "numeric without a precision" in said
    assert "any_number::bigint AS any_number" in said
    assert "is missing in some rows" in refused(
        people.uri, f"SELECT key, name FROM {source}", tmp_path / "other" / "table", "key"
    )


def test_a_database_that_sorts_words_by_a_language_is_refused(people, tmp_path):
    with open_database(people.uri) as database:
        if int(database.version.removeprefix("PostgreSQL ").partition(".")[0]) < 15:
            pytest.skip("older servers know no other provider of collations for a whole database")
    people.sql("CREATE DATABASE worded TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C'")
    uri = people.uri.replace("/postgres?", "/worded?")
    said = refused(uri, "SELECT 'a' AS name", tmp_path / "table", "name")
    assert "which differs between machines" in said


def test_all_rows_are_of_one_moment_and_nothing_is_changed(people, tmp_path):
    people.sql("CREATE TABLE moments (id int PRIMARY KEY); INSERT INTO moments VALUES (1), (2)")
    request = Request("SELECT id FROM moments", ("id",))
    with open_database(people.uri) as database:
        people.sql("INSERT INTO moments VALUES (3)")
        assert take_snapshot(database, request, tmp_path / "before").rows == 2
    assert take(people.uri, "SELECT id FROM moments", tmp_path / "after").num_rows == 3
    people.sql("CREATE FUNCTION meddle() RETURNS int LANGUAGE sql AS 'DELETE FROM moments RETURNING id'")
    with pytest.raises(DatabaseError, match="not all rows of the query can be read"):
        take(people.uri, "SELECT meddle() AS id", tmp_path / "table")
    assert take(people.uri, "SELECT id FROM moments", tmp_path / "still").num_rows == 3


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT id FROM faces WHERE money > 1 ORDER BY money", ()),
        ('SELECT a.id FROM faces a, "Bank A".people b', ("a join",)),
        ("SELECT sum(id) AS id FROM faces", ("an aggregate",)),
        ("SELECT id, sum(money) OVER (ORDER BY id) FROM faces", ("a window",)),
        ("SELECT id FROM faces LIMIT 1", ("a limit",)),
        ("SELECT id FROM faces UNION ALL SELECT id FROM faces", ("several tables or parts of one",)),
        ("SELECT id FROM generate_series(1, 3) AS id", ("a function that returns rows",)),
        ("SELECT id, (SELECT sum(id) FROM faces) AS most FROM faces", ("a query within the query", "an aggregate")),
    ],
)
def test_what_brings_people_together_is_seen_in_the_plan_and_through_views(people, query, found):
    with open_database(people.uri) as database:
        plan = database.plan(Request(query, ("id",)))
    assert set(found) <= set(plan.spreads)
    assert bool(found) == bool(plan.spreads)
    assert plan.rows > 0


def test_a_password_comes_from_the_environment_a_file_or_the_prompt(people, tmp_path, monkeypatch):
    query, password = 'SELECT id FROM "Bank A".people', "open sesame &/?"
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", "/nowhere")
    with pytest.raises(DatabaseError, match="PGPASSFILE, PGPASSWORD or --ask-password"):
        take(people.network_uri, query, tmp_path / "none")
    monkeypatch.setenv("PGPASSWORD", password)
    assert take(people.network_uri, query, tmp_path / "environment").num_rows == 2
    monkeypatch.delenv("PGPASSWORD")
    (tmp_path / "pgpass").write_text(f"127.0.0.1:{people.port}:*:anna:{password}\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    assert take(people.network_uri, query, tmp_path / "file").num_rows == 2
    monkeypatch.setenv("PGPASSFILE", "/nowhere")
    command = ["owner", "snapshot", "--uri", people.network_uri, "--query", query, "--order-by", "id", "--ask-password"]
    outcome = CliRunner().invoke(app, [*command, "--to", str(tmp_path / "prompt")], input=f"{password}\n")
    assert outcome.exit_code == 0, outcome.output
    assert password not in outcome.output
    for folder in ("environment", "file", "prompt"):
        assert b"sesame" not in b"".join(file.read_bytes() for file in (tmp_path / folder).iterdir())
    with pytest.raises(DatabaseError) as wrong, open_database(people.network_uri, "sesame, close"):
        pass
    assert "sesame" not in str(wrong.value)
    with pytest.raises(SettingError, match="PGPASSFILE, PGPASSWORD"):
        take(people.network_uri.replace("anna@", "anna:sesame@"), query, tmp_path / "uri")


def test_one_server_is_one_origin_by_whatever_address(people, tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "open sesame &/?")
    uris = [people.uri, people.network_uri, f"postgresql://anna@nowhere/postgres?host=127.0.0.1&port={people.port}"]
    for name, uri in enumerate(uris):
        take(uri, 'SELECT id, name FROM "Bank A".people', tmp_path / str(name))
    first, *others = (find_source(tmp_path / str(name)) for name in range(3))
    assert {other.manifest.identity for other in others} == {first.manifest.identity}
    assert all(first.origin.same_query(other.origin) for other in others)
    assert others[1].manifest.server == f"postgresql://127.0.0.1:{people.port}/postgres"
    elsewhere = replace(first.manifest, server="postgresql://db:5432/postgres", identity="postgresql:1/postgres")
    assert not first.origin.same_query(elsewhere.origin)
    earlier = replace(first.manifest, identity="")  # as an earlier version wrote it
    assert first.origin.same_query(earlier.origin)


def test_a_server_without_a_number_of_its_own_is_known_by_its_address(people, tmp_path):
    people.sql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    try:
        with open_database(people.network_uri, "open sesame &/?") as database:
            assert database.identity == ""
            take_snapshot(database, Request('SELECT id FROM "Bank A".people', ("id",)), tmp_path / "table")
    finally:
        people.sql("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
    assert len(find_source(tmp_path / "table")) == 2


def test_cells_do_not_hang_on_the_clock_and_language_of_this_machine(people, tmp_path, monkeypatch):
    moment = "'2020-06-30 23:00+00'::timestamptz"
    query = (
        f"SELECT 1 AS id, {moment}::date AS day, {moment}::text AS moment, tstzrange({moment}, NULL) AS range, "
        "'1 day 2 hours'::interval::text AS wait, 0.1::float8::text AS number"
    )
    here = take(people.uri, query, tmp_path / "here")
    monkeypatch.setenv("PGTZ", "Europe/Berlin")
    monkeypatch.setenv("PGDATESTYLE", "German")
    monkeypatch.setenv("PGOPTIONS", "-c intervalstyle=postgres_verbose -c extra_float_digits=-5")
    assert take(people.uri, query, tmp_path / "there") == here
    assert here["day"].to_pylist() == [dt.date(2020, 6, 30)]


def test_what_an_account_may_not_read_is_said(people, tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "open sesame &/?")
    with pytest.raises(DatabaseError, match="42501: this account may not read"):
        take(people.network_uri, "SELECT id FROM amounts", tmp_path / "table")
    with pytest.raises(DataError, match="42P01: the query names a table that does not exist"):
        take(people.uri, "SELECT id FROM nowhere", tmp_path / "table")
