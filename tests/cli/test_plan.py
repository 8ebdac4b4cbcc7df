import json

import pytest
from samples import regression_table
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import BelowBaselineError, StalePinsError
from parley.protocol.setup import resolve
from parley.terms import load_terms

TERMS = """
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2"]
public = "public.csv"
intercept = true
radius = 20.0
[learning]
horizon = 100
step = 0.3
[privacy]
clip = 12.0
[[owners]]
name = "a"
records = 1000
epsilon = 0.1
data = "a.csv"
"""


@pytest.fixture
def folder(tmp_path):
    regression_table(500, seed=9).to_csv(tmp_path / "public.csv", index=False)
    regression_table(1000, seed=1).to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "terms.toml").write_text(TERMS)
    return tmp_path


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_plan_is_written_with_comments_and_is_the_forecasts(folder):
    made = invoke("plan", folder / "terms.toml", "--write", folder / "planned.toml", "--json")
    assert made.exit_code == 0, made.exception
    content = json.loads(made.stdout)
    planned = load_terms(folder / "planned.toml")
    assert planned.hash == content["terms_hash"]
    assert content["written"] == str(folder / "planned.toml")
    text = (folder / "planned.toml").read_text()
    assert "# number of rounds" in text or "horizon" in text
    assert "straggler" not in text  # what a file without it means
    alias = json.loads(invoke("forecast", folder / "terms.toml", "--plan", "--json").stdout)
    assert alias["plan"]["best"] == content["best"]


@pytest.mark.parametrize("keys", ['whitening = "public"', "components = 3", 'columns = "trees"'])
def test_terms_edited_after_they_were_pinned_are_planned_and_pinned_again(folder, keys):
    """Whoever edits them types `parley pin`, or `parley plan` to choose rounds, step and clip anew."""
    (folder / "terms.toml").write_text(TERMS.replace("radius = 20.0", keys))
    assert invoke("pin", folder / "terms.toml", "--write", folder / "pinned.toml").exit_code == 0
    text = (folder / "pinned.toml").read_text()
    edited = text.replace('features = ["x0", "x1", "x2"]', 'features = ["x0", "x2"]')
    assert edited != text
    (folder / "pinned.toml").write_text(edited.replace("components = 3", "components = 2"))
    refused = invoke("train", folder / "pinned.toml")
    assert isinstance(refused.exception, StalePinsError)
    assert "ask the author of the terms to pin the numbers again (parley pin" in str(refused.exception)
    for command in ("pin", "plan"):
        made = invoke(command, folder / "pinned.toml", "--write", folder / f"{command}.toml", "--json")
        assert made.exit_code == 0, made.exception
        again = load_terms(folder / f"{command}.toml")
        assert again.hash == json.loads(made.stdout)["terms_hash"]
        assert again.model.preparation == str(folder / f"{command}.preparation.json")
        assert resolve(again).preparation.features == ("x0", "x2")


def test_terms_below_a_baseline_are_refused_before_anything_is_spent_unless_told(folder):
    """A tenth of an epsilon over 100 rounds: the public sample alone gives a better model."""
    forecast = invoke("forecast", folder / "terms.toml")
    said = " ".join(forecast.output.split())
    assert "The model is not worth spending budget on" in said
    assert "for a model of the public sample alone" in said
    release = ("train", folder / "terms.toml", "--ledgers", folder / "ledgers", "--lifetime", 1)
    refused = invoke(*release)
    assert isinstance(refused.exception, BelowBaselineError)
    assert not (folder / "ledgers").exists()
    spent = invoke(*release, "--force", "--json")
    assert spent.exit_code == 0, spent.exception
    assert json.loads(spent.stdout)["owners"][0]["epsilon_spent"] == 0.1
    study = invoke("train", folder / "terms.toml", "--seed", 1, "--report", folder / "page.html")
    assert study.exit_code == 0, study.exception
    assert "The model is not worth spending budget on" in study.stderr
    page = (folder / "page.html").read_text()
    assert "How good are models without any owner's data?" in page.replace("&#x27;", "'")
    assert "<svg" in page
    assert "Simulation, not a release" in page
