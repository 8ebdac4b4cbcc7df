"""From a database to a release: the command, what acceptance says, and one ledger for all snapshots of a table."""

import json
import signal

import numpy as np
import pytest
from consortium import toml_terms
from databases import write_sqlite
from samples import regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.cli.owner_snapshot import take_with_prompt
from parley.data.sources import find_source
from parley.errors import BudgetExhausted, LedgerError, OtherBooksError, ParleyError, SettingError
from parley.network.identity.settings import load_owner
from parley.network.serving.daemon import open_owner
from parley.protocol.queries import GradientQuery

ROWS, QUERY = 60, "SELECT id, x0, x1, x2, y FROM loans"


def run(*arguments):
    outcome = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome


def loans(file, seed):
    rows = regression_table(ROWS, seed=seed)[["x0", "x1", "x2", "y"]].to_numpy()
    cells = ", ".join(f"({k}, {', '.join(map(repr, map(float, row)))})" for k, row in enumerate(rows))
    table = "CREATE TABLE loans (id INTEGER PRIMARY KEY, x0 REAL, x1 REAL, x2 REAL, y REAL)"
    return write_sqlite(file, f"DROP TABLE IF EXISTS loans; {table}; INSERT INTO loans VALUES {cells};")


def snapshot(home, name, query=QUERY, *more):
    uri = f"sqlite:{home / 'bank.db'}"
    return run("owner", "snapshot", "--uri", uri, "--query", query, "--order-by", "id", "--to", home / name, *more)


@pytest.fixture
def home(tmp_path):
    loans(tmp_path / "bank.db", seed=0)
    return tmp_path


def accept(home, name, epsilon=1.0, horizon=4):
    file = home / f"{name}.toml"
    file.write_text(toml_terms(horizon=horizon, names="a", epsilon=epsilon))
    said = run("owner", "accept", file, "--owner", home / "a" / "owner.toml", "--yes").output
    return parley.load_terms(file), said.replace("\n", "")


def books(home):
    return json.loads(run("owner", "ledger", home / "a" / "owner.toml", "--json", "--verify").stdout)


def move_table(home, before, after):
    """What the owner does after a new snapshot: its settings name the new folder."""
    settings = home / "a" / "owner.toml"
    settings.write_text(settings.read_text().replace(str(home / before), str(home / after)))


def release(home, terms, rounds=1):
    owner = open_owner(load_owner(home / "a" / "owner.toml"))
    try:
        owner.accept(terms)  # as a daemon does at its start
        for k in range(1, rounds + 1):
            owner.answer(GradientQuery.ask(terms.hash, "learner", k, np.zeros(3)))
    finally:
        owner.ledger.close()


def test_the_command_says_what_it_took_and_what_to_do(home):
    said = snapshot(home, "x[red]y").output.replace("\n", "")
    assert f"x[red]y  {ROWS} rows of 5 columns" in said
    assert "id counts as public" in said
    assert "table = " in said
    content = json.loads(snapshot(home, "april", QUERY, "--json").stdout)
    assert (content["rows"], content["inside"], content["spreads"]) == (ROWS, False, [])
    assert "digest" not in content
    joined = "SELECT a.id, b.y FROM loans a JOIN loans b ON a.id = b.id - 1"
    assert "one person may have several rows" in snapshot(home, "may", joined).stderr.replace("\n", "")


def test_a_query_may_stand_in_a_file_and_one_whose_order_will_not_stay_is_warned_of(home):
    (home / "loans.sql").write_text("\ufeffSELECT id, y,\n  CAST(random() AS INTEGER) AS k FROM loans;\n-- of March\n")
    place = ("owner", "snapshot", "--uri", f"sqlite:{home / 'bank.db'}", "--order-by", "id", "--to", home / "march")
    said = run(*place, "--query-file", home / "loans.sql").stderr.replace("\n", " ")
    assert "The query calls random(). A sort key with changing values reorders people" in said
    assert find_source(home / "march").manifest.query.startswith("SELECT id, y,\n")
    (home / "latin.sql").write_bytes(b"SELECT '\xe4'")
    for wrong, why in [
        ((), "both are missing"),
        (("--query-file", home / "loans.sql", "--query", QUERY), "both are given"),
        (("--query-file", home / "nowhere.sql"), "no such file or folder"),
        (("--query-file", home / "latin.sql"), r"cannot be read \(UnicodeDecodeError\)"),
    ]:
        with pytest.raises(SettingError, match=why):
            run(*place[:-1], home / "april", *wrong)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_stop_it_leaves_nothing(home, monkeypatch, number):
    real = signal.getsignal(number)
    files = sorted(home.iterdir())
    monkeypatch.setattr("parley.data.databases.snapshot.file_digest", lambda *_: signal.raise_signal(number))
    with pytest.raises(SystemExit) as ended:
        take_with_prompt(f"sqlite:{home / 'bank.db'}", QUERY, ["id"], home / "march", ask_password=False)
    assert ended.value.code == 128 + number
    assert sorted(home.iterdir()) == files
    assert signal.getsignal(number) == real


def test_a_password_on_the_command_line_is_refused_before_anything_is_asked(home):
    command = ["owner", "snapshot", "--uri", "postgresql://a:Sesame@db/x", "--query", "SELECT 1", "--order-by", "a"]
    outcome = CliRunner().invoke(app, [*command, "--to", str(home / "x"), "--ask-password"])
    assert isinstance(outcome.exception, SettingError)
    assert "Sesame" not in outcome.output + str(outcome.exception)


def test_a_snapshot_holds_the_rows_of_the_same_table_in_a_file(home):
    snapshot(home, "march")
    table = find_source(home / "march").frame().drop(columns="id").astype(float).to_numpy()
    np.testing.assert_array_equal(table, regression_table(ROWS, seed=0)[["x0", "x1", "x2", "y"]].to_numpy())


def test_a_new_snapshot_goes_on_with_the_same_ledger_and_no_fresh_lifetime(home):
    snapshot(home, "march")
    run("owner", "init", home / "a", "--name", "a", "--table", home / "march", "--lifetime", 2)
    first, said = accept(home, "first")
    assert "The table is a snapshot of sqlite:" in said
    assert "id counts as public" in said
    assert "and so the number of rows, also counts as public" in said
    release(home, first, rounds=2)
    assert books(home)["reserved"]["epsilon"] == 1.0

    loans(home / "bank.db", seed=1)
    snapshot(home, "april")
    with pytest.raises(SettingError, match="A table has one lifetime budget"):
        run("owner", "init", home / "b", "--name", "b", "--table", home / "april", "--lifetime", 2)
    move_table(home, "march", "april")
    with pytest.raises(LedgerError, match="Put the accepted table back"):
        release(home, first)
    second, _ = accept(home, "second", epsilon=0.75, horizon=5)
    release(home, second, rounds=5)
    known = books(home)
    assert known["reserved"]["epsilon"] == 1.75
    spent = {each["terms"]: each["epsilon_spent"] for each in known["agreements"]}
    assert spent == {first.hash: pytest.approx(0.5), second.hash: pytest.approx(0.75)}
    with pytest.raises(BudgetExhausted):
        accept(home, "third", epsilon=0.5, horizon=6)


def test_no_fresh_lifetime_however_the_query_is_written_and_whatever_became_of_the_old_snapshot(home):
    snapshot(home, "march")
    run("owner", "init", home / "a", "--name", "a", "--table", home / "march", "--lifetime", 2)
    snapshot(home, "april", f"{QUERY.lower()} ;\n")

    def init():
        return run("owner", "init", home / "b", "--name", "b", "--table", home / "april", "--lifetime", 2)

    with pytest.raises(SettingError, match="A table has one lifetime budget"):
        init()
    manifest = home / "march" / "parley-snapshot.json"
    whole = manifest.read_text()
    manifest.write_text("{}")
    with pytest.raises(SettingError, match="A table has one lifetime budget"):
        init()
    manifest.write_text(whole)
    (home / "march").rename(home / "march-old")
    with pytest.raises(SettingError, match="A table has one lifetime budget"):
        init()
    settings = home / "a" / "owner.toml"
    kept = [line for line in settings.read_text().splitlines(True) if not line.startswith("origin")]
    settings.write_text("".join(kept))  # as an earlier version wrote it
    with pytest.raises(SettingError, match="the table of this ledger cannot be read, so Parley cannot check"):
        init()
    (home / "march-old").rename(home / "march")
    with pytest.raises(SettingError, match="A table has one lifetime budget"):
        init()
    assert not (home / "b").exists()


def test_another_query_for_the_same_columns_is_warned_of(home):
    for name, query, warned in [
        ("march", f"{QUERY} WHERE id < 30", False),
        ("april", f"{QUERY} WHERE id < 40", True),
        ("may", "SELECT id, y FROM loans", False),
    ]:
        snapshot(home, name, query)
        said = run("owner", "init", home / f"{name}-books", "--name", "a", "--table", home / name, "--lifetime", 2)
        assert ("two ledgers together can spend more" in said.stderr.replace("\n", " ")) == warned


def test_a_folder_that_was_tampered_with_is_not_accepted_for(home):
    snapshot(home, "march")
    run("owner", "init", home / "a", "--name", "a", "--table", home / "march", "--lifetime", 2)
    (home / "march" / "part-000000.parquet").rename(home / "march" / "part-000001.parquet")
    with pytest.raises(ParleyError, match="the snapshot's files differ from those listed"):
        accept(home, "first")


def test_terms_are_drafted_from_a_query_then_forecast_simulated_and_scored_from_its_folder(home):
    (home / "loans.sql").write_text(QUERY)
    database = (
        "--uri",
        f"sqlite:{home / 'bank.db'}",
        "--query-file",
        home / "loans.sql",
        "--order-by",
        "id",
        "--to",
        home / "bank-a",
    )
    ends = [f"--bounds={column}=-5,5" for column in ("x0", "x1", "x2", "y")]
    how = ("--target", "y", "--features", "x0,x1,x2", "--write", home / "terms.toml", "--yes", "--columns", "lines")
    run("init", *how, *ends, *database)
    terms = parley.load_terms(home / "terms.toml")
    assert (terms.owners[0].name, terms.owners[0].records) == ("bank-a", ROWS)
    assert find_source(terms.owners[0].data).manifest.keys == ("id",)
    inside = run("forecast", home / "terms.toml", "--inside", home / "bank-a", "--owner", "bank-a", "--json")
    assert json.loads(inside.stdout)["inside"] is True
    simulated = run("train", home / "terms.toml", "--replicates", 3, "--seed", 1, "--save", home / "m.json", "--json")
    assert json.loads(simulated.stdout)["replicates"] == 3
    scored = run("score", home / "m.json", home / "terms.toml", "--owner", "bank-a", "--json")
    assert json.loads(scored.stdout)["rows"] == ROWS // 5
    wrong = ("--target", "nosuch", "--write", home / "other.toml", "--yes")
    with pytest.raises(ParleyError, match="nosuch"):
        run("init", *wrong, *database[:-1], home / "bank-b")
    assert not (home / "bank-b").exists()
    for few in (("--uri", "sqlite:x"), ()):
        with pytest.raises(SettingError, match=r"only some of the four options|private table, --uri"):
            run("init", *how, *few)


def test_a_snapshot_with_one_more_column_has_no_budget_of_its_own(home):
    """Far away, where no settings lie beside each other."""
    snapshot(home, "march")
    run("owner", "init", home / "a", "--name", "a", "--table", home / "march", "--lifetime", 1)
    accept(home, "first")
    snapshot(home, "april", "SELECT id, x0, x1, x2, y, CAST(x0 * 2 AS REAL) AS more FROM loans")
    far = home / "far" / "away" / "a"
    run("owner", "init", far, "--name", "a", "--table", home / "april", "--lifetime", 1)
    file = home / "again.toml"
    file.write_text(toml_terms(horizon=3, names="a", epsilon=1.0))
    command = ["owner", "accept", file, "--owner", far / "owner.toml", "--yes"]
    with pytest.raises(
        OtherBooksError, match=r"a/a\.ledger is another ledger for the table of a\. That ledger has reserved"
    ):
        run(*command)
    assert run("owner", "ledger", far / "owner.toml", "--json").stdout.count('"terms"') == 0
    run(*command, "--other-books", "the first ledger was of a test")
    assert "the first ledger was of a test" in run("owner", "ledger", far / "owner.toml").output
    found = json.loads(run("owner", "ledger", far / "owner.toml", "--json", "--verify").stdout)
    assert found["agreements"][0]["other_books"] == "the first ledger was of a test"
