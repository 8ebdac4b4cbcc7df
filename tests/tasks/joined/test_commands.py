"""`parley train` under terms of joined tables."""

import json

import pandas as pd
import pytest
from bank_and_shop import joined_terms, people, tables
from typer.testing import CliRunner

from parley.cli.app import app
from parley.terms import write_terms


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("join")
    frame = people(4000)
    bank, shop = tables(frame, 300, 500)
    for name, rows in (("bank", bank), ("shop", shop), ("all", frame)):
        rows.to_csv(made / f"{name}.csv", index=False)
    files = {f"{name}__data": str(made / f"{name}.csv") for name in ("bank", "shop")}
    held = {"model__holdout": 0.2, "model__holdout_by": "person"}
    write_terms(joined_terms(len(bank), len(shop), **files, **held), made / "terms.toml")
    return made


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_the_report_compares_the_joined_model_with_each_owner(folder):
    result = run("train", folder / "terms.toml", "--seed", 1, "--replicates", 3)
    assert result.exit_code == 0, result.output
    assert "Simulation, not a release" in result.stdout
    text = " ".join(result.stdout.split())
    for words in (
        "joined, without noise",
        "bank alone",
        "columns of shop",
        "people are in all tables",
        "keep it inside",
    ):
        assert words in text
    assert "(ε, δ)-differentially private for every person, in all tables together, with ε = 1 and δ = 1e-06" in text


def test_json_has_the_figures_and_the_event(folder):
    found = json.loads(run("train", folder / "terms.toml", "--seed", 1, "--json").stdout)
    assert found["inside"] is True
    assert found["released"] is False
    assert [owner["columns"] for owner in found["owners"]] == [3, 2]
    assert (found["epsilon"], found["matches_epsilon"]) == (1.0, 0.1)
    assert found["event"]["kind"] == "gaussian" if "kind" in found["event"] else found["event"]
    names = [model["name"] for model in found["models"]]
    assert names == ["joined", "joined, without noise", "bank alone", "columns of shop, matched"]
    assert found["models"][0]["auc"]["mean"] > found["models"][2]["auc"]["mean"]
    assert found["matched"] + found["held_out"] == 3200


def test_a_saved_model_predicts_from_all_columns(folder, tmp_path):
    assert run("train", folder / "terms.toml", "--seed", 1, "--save", tmp_path / "model.json").exit_code == 0
    made = run("predict", tmp_path / "model.json", folder / "all.csv", "--out", tmp_path / "scored.csv")
    assert made.exit_code == 0, made.output
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert len(scored) == 4000
    lacking = run("predict", tmp_path / "model.json", folder / "bank.csv", "--out", tmp_path / "scored2.csv")
    assert lacking.exit_code != 0
    assert "column 'spending' is missing" in str(lacking.exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ("forecast", "TERMS"),
        ("plan", "TERMS"),
        ("negotiate", "TERMS"),
        ("train", "TERMS", "--plot", "x.png"),
    ],
)
def test_what_joined_tables_cannot_do_yet_is_one_sentence(folder, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    result = run(*(folder / "terms.toml" if each == "TERMS" else each for each in arguments))
    assert result.exit_code != 0
    said = str(result.exception)
    assert "joined tables" in said or "not available for the task joined" in said
    assert not [*tmp_path.iterdir()]


def test_few_people_are_said_to_be_hidden_by_the_noise(tmp_path):
    bank, shop = tables(people(60), 0, 0)
    for name, rows in (("bank", bank), ("shop", shop)):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    files = {f"{name}__data": str(tmp_path / f"{name}.csv") for name in ("bank", "shop")}
    write_terms(joined_terms(60, 60, **files), tmp_path / "terms.toml")
    result = run("train", tmp_path / "terms.toml", "--seed", 1)
    assert result.exit_code == 0, result.output
    assert "60 matched people are hidden by the noise" in " ".join(result.stdout.split())
