"""A password is no part of where a database is; and no message repeats what was written."""

import pytest

from parley.data.databases import open_database
from parley.data.databases.database import parse_uri
from parley.errors import SettingError


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://anna:Sesame@db/loans",
        "postgresql://anna:Ses/ame@db/loans",
        "postgresql://anna:Ses@ame@db/loans",
        "postgresql://anna:Ses%40ame@db:5432/loans?sslmode=require",
        "postgresql://:Sesame@db/loans",
        "postgresql://anna@db/loans?password=Sesame",
        "postgresql://anna@db/loans?sslmode=require&PassWord=Sesame",
        "postgresql://anna@db/loans?sslpassword=Sesame",
        "host=db user=anna password=Sesame dbname=loans",
        "host=db user=anna password = 'Sesame'",
        "snowflake://anna:Sesame@account/loans",
        "grpc+tls://db?token=Sesame",
        "postgresql://anna@db/loans?passw%6Frd=Sesame",
        "postgresql://anna@db/loans?sslmode=require&%50assword=Sesame",
        "snowflake://anna@account/loans?privateKey=Sesame",
        "snowflake://anna@account/loans?passcode=Sesame",
        "grpc+tls://db?api_key=Sesame",
        "grpc+tls://db?authorization=Bearer%20Sesame",
    ],
)
def test_a_uri_that_holds_a_password_is_refused_by_one_sentence(uri):
    with pytest.raises(SettingError, match="PGPASSFILE, PGPASSWORD or --ask-password") as error:
        parse_uri(uri)
    assert "ame" not in str(error.value).replace("same", "")


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://anna@db/loans?key=Sesame",
        "postgresql://anna:1?Sesame@db/loans",
        "postgresql://anna?:Sesame@db/loans",
        "postgresql://anna@db/loans#?scram_client_key=Sesame",
        "snowflake://anna@account/loans?jwt=Sesame",
        "grpc://db?cookie=Sesame",
    ],
)
def test_what_is_not_known_behind_a_uri_is_refused(uri):
    with pytest.raises(SettingError, match="has an unknown parameter, which might be a password") as error:
        parse_uri(uri)
    assert "Sesame" not in str(error.value)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://db:5432/loans?user=anna@bank.example",
        "postgresql://anna@db/loans?require_auth=password",
        "postgresql://anna@db/loans?application_name=tokenizer",
        "postgresql://anna@db/loans?options=-c%20statement_timeout%3D5min",
        "snowflake://anna@account/loans?warehouse=token",
    ],
)
def test_what_only_looks_like_a_password_is_taken(uri):
    assert parse_uri(uri).uri == uri


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("postgresql://anna@db/loans", "db:5432"),
        ("postgres://db:7000/loans?sslmode=require", "db:7000"),
        ("postgresql://anna@/loans?host=/run/postgresql&port=7000", "/run/postgresql:7000"),
        ("postgresql://anna@one:1,two:2/loans", "one:1,two:2"),
        ("postgresql://anna@[::1]/loans", "[::1]:5432"),
        ("postgresql://anna@[::1]:7000/loans", "[::1]:7000"),
        ("postgresql:///?service=loans", "loans:5432"),
        ("postgresql:///loans?passfile=/home/anna/.pgpass", "localhost:5432"),
    ],
)
def test_the_server_is_known_without_the_account(uri, host, monkeypatch):
    for variable in ("PGHOST", "PGPORT", "PGSERVICE"):
        monkeypatch.delenv(variable, raising=False)
    assert parse_uri(uri).host == host


@pytest.mark.parametrize("uri", ["", "loans.db", "postgresql:", "postgresql://db:Sesame/loans", "7:x"])
def test_what_is_no_uri_is_refused(uri):
    with pytest.raises(
        SettingError, match=r"^--uri: expected a database address, for example postgresql://user@host"
    ) as error:
        parse_uri(uri)
    assert "Sesame" not in str(error.value)


def test_a_database_that_nobody_knows_or_that_is_not_there_is_refused(tmp_path, monkeypatch):
    with pytest.raises(SettingError, match="use one of postgresql"), open_database("mysql://db/loans"):
        pass
    with pytest.raises(SettingError, match="no such database file"), open_database(f"sqlite:{tmp_path / 'x.db'}"):
        pass
    with (
        pytest.raises(SettingError, match="pip install adbc-driver-snowflake"),
        open_database("snowflake://anna@account/loans"),
    ):
        pass


def test_a_file_is_found_however_it_is_written(tmp_path, monkeypatch):
    (tmp_path / "a.db").touch()
    monkeypatch.chdir(tmp_path)
    for uri in ("sqlite:a.db", f"sqlite:{tmp_path}/a.db", f"SQLite://{tmp_path}/a.db"):
        assert parse_uri(uri).file == tmp_path / "a.db"
