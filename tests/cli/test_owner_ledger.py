"""An owner's books from the command line, with a lifetime budget that is held as zCDP."""

import json

import pytest
from consortium import toml_terms
from samples import regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import BudgetExhausted, LedgerError, SettingError
from parley.network.serving.acceptance import Acceptances, Caller
from parley.network.serving.metrics import LedgerSnapshot, _ledger_metrics
from parley.owner.owner import reservation


def run(*arguments):
    outcome = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome


@pytest.fixture
def home(tmp_path):
    regression_table(60, seed=0).to_csv(tmp_path / "a.csv", index=False)
    made = ("owner", "init", tmp_path / "a", "--name", "a", "--table", tmp_path / "a.csv")
    said = run(*made, "--lifetime", 3, "--lifetime-delta", "1e-5", "--rule", "zcdp").output
    assert "δ = 1e-05, counted as zCDP" in said.replace("\n", "")
    return tmp_path


def gaussian(home, name, horizon):
    """A terms file with Gaussian noise for (1, 1e-6)."""
    text = toml_terms(horizon=horizon, names="a").replace(
        "clip = 4.0", 'clip = 4.0\nmechanism = "gaussian"\ndelta = 1e-6'
    )
    (home / name).write_text(text)
    return home / name


def accept(home, file):
    return run("owner", "accept", file, "--owner", home / "a" / "owner.toml", "--yes").output


def books(home):
    return json.loads(run("owner", "ledger", home / "a" / "owner.toml", "--json", "--verify").stdout)


def test_the_books_say_by_which_rule_they_are_kept(home):
    files = [gaussian(home, f"{k}.toml", k) for k in range(1, 10)]
    once = float(reservation(parley.load_terms(files[0]), "a").rho)
    assert "ε = 3, δ = 1e-05, or ρ = 0.2242 in zCDP, of which ρ = 0 is already reserved" in accept(home, files[0])
    assert "These terms cost nothing more, because you have already accepted them" in accept(home, files[0])
    for file in files[1:8]:  # as sums three would fit
        accept(home, file)
    end = books(home)["head"]
    with pytest.raises(BudgetExhausted, match=r"or rho = .* in zCDP"):
        accept(home, files[8])
    known = books(home)
    assert known["adjacency"] == "replace-one"
    assert (known["rule"], known["head"], known["rho"]["reserved"]) == ("zcdp", end, pytest.approx(8 * once))
    assert known["rho"]["reserved"] <= known["rho"]["lifetime"] == pytest.approx(0.22425, rel=1e-4)
    assert known["reserved"] == {"epsilon": 8.0, "delta": pytest.approx(8e-6)}
    shown = " ".join(run("owner", "ledger", home / "a" / "owner.toml").output.split())
    assert "accounted as zCDP with ρ = 0.224" in shown
    assert "The agreements' ε add up to 8" in shown
    ledger = parley.Ledger(home / "a" / "a.ledger")
    page = {
        m.name: m.samples[0].value
        for m in _ledger_metrics(LedgerSnapshot(ledger.lifetime, ledger.reserved, (), {}, ledger.head, ledger.rho))
        if m.samples
    }
    assert page["parley_lifetime_rho_left"] / page["parley_lifetime_rho"] == pytest.approx(
        1 - 8 * once / 0.22425, abs=1e-3
    )
    assert "parley_lifetime_epsilon_left" not in page


def test_a_restore_leaves_what_rho_is_left(home):
    accept(home, gaussian(home, "one.toml", 3))
    settings = ("--owner", home / "a" / "owner.toml")
    run("owner", "backup", home / "backup", *settings)
    accept(home, gaussian(home, "two.toml", 4))
    reserved = books(home)["rho"]["reserved"]
    for file in (home / "a").glob("a.ledger*"):
        file.unlink()
    run("owner", "restore", home / "backup", *settings, "--assume-spent", "agreements", "--yes")
    assert books(home)["rho"]["reserved"] == reserved
    assert all(agreement["closed"] for agreement in books(home)["agreements"])


def test_books_kept_by_simple_sums_say_so_and_a_rule_without_a_delta_opens_none(tmp_path):
    regression_table(60, seed=0).to_csv(tmp_path / "a.csv", index=False)
    made = ("owner", "init", tmp_path / "a", "--name", "a", "--table", tmp_path / "a.csv", "--lifetime", 3)
    with pytest.raises(LedgerError, match="needs a delta above 0"):
        run(*made, "--rule", "zcdp")
    assert list((tmp_path / "a").iterdir()) == []
    run(*made)
    known = books(tmp_path)
    assert (known["rule"], known["rho"]) == ("simple", None)


@pytest.fixture
def released(tmp_path):
    """The ledger of an owner after a release on one machine."""
    table = regression_table(60, seed=0)
    table.assign(patient=[k // 2 for k in range(60)]).to_csv(tmp_path / "a.csv", index=False)
    return release_again(tmp_path, "one", 1.0)


def release_again(folder, name, epsilon):
    text = toml_terms(horizon=3, names="a", epsilon=epsilon).replace(
        '"Test"', f'"A title of {name}, longer than a column"'
    )
    (folder / f"{name}.toml").write_text(text.replace('name = "a"', 'name = "a"\ndata = "a.csv"'))
    run("train", folder / f"{name}.toml", "--ledgers", folder / "books", "--lifetime", 5, "--force", "--json")
    return folder / "books" / "a.ledger"


def test_the_ledger_of_a_release_on_one_machine_knows_its_terms_and_its_unit(released):
    (agreement,) = json.loads(run("owner", "ledger", released, "--json").stdout)["agreements"]
    assert agreement["title"] == "A title of one, longer than a column"
    assert (agreement["key"], agreement["answers"]) == (None, 3)
    assert agreement["protected"].startswith("one row")
    shown = run("owner", "ledger", released).output
    assert f"{agreement['terms'][:16]}…  A title of one, longer than a column, learner learner" in shown
    acceptance = Acceptances(released.with_suffix(".accepted")).get(agreement["terms"])
    for caller in (Caller(("learner",)), Caller(("learner",), "ab" * 32), Caller(relay=True)):
        assert not acceptance.admits(caller)


def test_the_ledger_of_a_release_on_one_machine_is_restored_with_all_that_was_agreed(released):
    books = ("--owner", released)
    run("owner", "backup", released.parent / "backup", *books)
    release_again(released.parents[1], "two", 2.0)
    for file in released.parent.glob("a.ledger*"):
        file.unlink()
    kept = released.with_suffix(".accepted")
    kept.rename(kept.with_name("away"))
    typed = ("owner", "restore", released.parent / "backup", *books, "--yes", "--assume-spent")
    with pytest.raises(SettingError, match="may also lack later agreements"):
        run(*typed, "agreements")
    assert not released.exists()
    kept.with_name("away").rename(kept)
    run(*typed, "agreements")
    content = json.loads(run("owner", "ledger", released, "--json", "--verify").stdout)
    assert content["reserved"]["epsilon"] == content["epsilon_spent"] == 3.0
    assert all(agreement["closed"] for agreement in content["agreements"])


def test_column_statistics_warn_of_people_whom_their_terms_do_not_name(released):
    folder = released.parents[1]
    text = (folder / "one.toml").read_text()
    text = text.replace("[privacy]", "[privacy]\nscale_epsilon = 3.0").replace("epsilon = 1.0", "epsilon = 3.1")
    (folder / "scales.toml").write_text(text)
    typed = ["column-stats", folder / "scales.toml", "--ledgers", folder / "others", "--lifetime", 5, "--force"]
    said = run(*typed, "--other-books", "a test of its own").output
    assert "Column 'patient' may tell people apart" in " ".join(said.split())
