"""A workflow needs no terminal: what it asks goes to a person, what it found is one report."""

import json

import pytest
from samples import make_terms, regression_table
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import SettingError
from parley.report.run_options import RunOptions
from parley.report.sheet import Grid
from parley.terms import write_terms
from parley.workflows.person import Declined, Nobody
from parley.workflows.release import ask_where_rows_contradict
from parley.workflows.train import TrainOptions, train_model


@pytest.fixture
def terms_file(tmp_path):
    regression_table(100, seed=1).to_csv(tmp_path / "a.csv", index=False)
    terms = make_terms(100, learning__horizon=2).changed(owners={"a": {"data": str(tmp_path / "a.csv")}})
    write_terms(terms, tmp_path / "terms.toml")
    return tmp_path / "terms.toml"


def told(content):
    return {key: value for key, value in content.items() if key != "seconds"}


def test_a_report_is_what_the_command_prints(terms_file):
    report = train_model(terms_file, TrainOptions(RunOptions(seed=1)), Nobody())
    printed = CliRunner().invoke(app, ["train", str(terms_file), "--seed", "1", "--json"])
    assert told(json.loads(printed.stdout)) == told(dict(report.to_json()) | {"inside": True})
    assert report.inside
    assert any(isinstance(part, Grid) for part in report.parts())


def test_what_a_release_has_no_use_for_is_refused_before_its_ledgers_are_looked_at(terms_file, tmp_path):
    options = TrainOptions(RunOptions(ledgers=tmp_path / "books", lifetime=9.0, seed=1))
    with pytest.raises(SettingError, match="apply only to simulations"):
        train_model(terms_file, options, Nobody())
    assert not (tmp_path / "books").exists()


class Doubtful(Nobody):
    """Somebody who sits there and says no."""

    present = True


def test_a_person_who_says_no_ends_a_release(monkeypatch, terms_file):
    from parley.terms import load_terms
    from parley.workflows import release

    found = {"a": type("Test", (), {"p_value": 0.001})}
    monkeypatch.setattr(release, "contradicted", lambda terms, owners: found)
    terms, person = load_terms(terms_file).changed(model={"public": "public.csv"}), Doubtful()
    with pytest.raises(Declined, match="nothing was spent"):
        ask_where_rows_contradict(terms, terms_file, person)
    assert "contradict the public sample" in person.heard[0]
    ask_where_rows_contradict(terms, terms_file, Nobody())  # nobody is there: rows are not looked at


@pytest.fixture
def visits(tmp_path):
    """Terms for a table that names patients, in which the terms do not tell them apart."""
    table = regression_table(100, seed=1).assign(patient=[place // 2 for place in range(100)])
    table.to_csv(tmp_path / "a.csv", index=False)
    terms = make_terms(100, learning__horizon=2).changed(
        owners={"a": {"data": str(tmp_path / "a.csv")}}, model={"features": ["x0", "x1"]}
    )
    write_terms(terms, tmp_path / "terms.toml")
    return tmp_path / "terms.toml"


def test_a_column_that_names_people_is_asked_about_before_anything_is_spent(visits, tmp_path):
    options = TrainOptions(RunOptions(ledgers=tmp_path / "books", lifetime=9.0))
    person = Doubtful()
    with pytest.raises(Declined, match="nothing was spent"):
        train_model(visits, options, person)
    assert any("Column 'patient' may tell people apart" in sentence for sentence in person.heard)
    assert not list(tmp_path.glob("books/*.ledger"))
    nobody = Nobody()  # a program: warned by the column's public name, and not stopped
    train_model(visits, options, nobody)
    assert any("Column 'patient'" in sentence for sentence in nobody.heard)
    listed = CliRunner().invoke(app, ["owner", "ledger", str(tmp_path / "books" / "a.ledger"), "--json"])
    assert json.loads(listed.stdout)["epsilon_spent"] > 0
    assert "one person, who has one row" in " ".join(
        CliRunner().invoke(app, ["train", str(visits), "--seed", "1"]).output.split()
    )


def test_terms_that_name_the_column_are_not_asked_about(visits):
    from parley.terms import load_terms
    from parley.workflows.release import ask_where_people_repeat

    terms, person = load_terms(visits).changed(privacy={"person": "patient"}), Doubtful()
    ask_where_people_repeat(terms, person)
    assert not person.heard


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, "Protected: one row: no column tells people apart, so someone with m rows has m times this ε."),
        ({"person": "patient", "records_per_person": 3}, "Protected: one person, with at most 3 rows"),
    ],
)
def test_a_promise_names_its_unit(visits, changes, wanted):
    from parley.terms import load_terms

    write_terms(load_terms(visits).changed(privacy=changes), visits)
    said = CliRunner().invoke(app, ["budget", "explain", "--terms", str(visits), "--prior", "0.01"]).output
    assert wanted in " ".join(said.split())
    assert "1.0% becomes at most" in said
