"""`parley train` and acceptance by terms whose answers are used as they come."""

import json

import pytest
from samples import regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.numerals import number
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.ledger import Ledger

TERMS = """
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2"]
radius = 5.0
[learning]
algorithm = "gradient-descent"
decay = 0.0
horizon = 20
step = 0.2
staleness = 6
[privacy]
clip = 4.0
[[owners]]
name = "a"
records = 60
epsilon = 1.0
data = "a.csv"
[[owners]]
name = "b"
records = 40
epsilon = 1.0
answers = 2
data = "b.csv"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "terms.toml").write_text(TERMS)
    for place, (name, size) in enumerate((("a", 60), ("b", 40))):
        regression_table(size, seed=place).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_speeds_of_owners_are_given_by_name(folder):
    """Ten times slower with six versions allowed: b comes too late. Three times slower: it does not."""
    for speed, told in ((10, (0, 2)), (3, (2, 0))):
        said = run("train", folder / "terms.toml", "--seed", 1, "--speeds", f"a={speed}, b=1", "--json")
        second = json.loads(said.stdout)["owners"][1]
        assert (second["answers"], second["late"]) == told
        assert second["epsilon_spent"] == 1.0
    assert "0 + 2 late" in run("train", folder / "terms.toml", "--seed", 1, "--speeds", "a=10,b=1").output
    for text, sentence in (
        ("a", "expected names and numbers"),
        ("z=1", "the terms have no owner 'z'"),
        ("a=-1", "a = -1.0"),
    ):
        refused = run("train", folder / "terms.toml", "--speeds", text)
        assert refused.exit_code != 0
        assert sentence in f"{refused.output}{refused.exception}"


def test_a_release_on_one_machine_debits_each_owner_for_its_own_answers(folder):
    arguments = (
        "train",
        folder / "terms.toml",
        "--ledgers",
        folder / "ledgers",
        "--lifetime",
        1,
        "--speeds",
        "a=10,b=1",
        "--json",
    )
    first, again = (json.loads(run(*arguments).stdout) for _ in range(2))
    assert first["theta"] == again["theta"]
    for name, answers in (("a", 20), ("b", 2)):
        account = Ledger(folder / "ledgers" / f"{name}.ledger").account(first["terms_hash"])
        assert (account.spent, account.answers) == (1, answers)


def test_acceptance_says_how_often_and_what_is_seen_beside(folder):
    terms = parley.load_terms(folder / "terms.toml")
    owner = parley.Owner("b", folder / "b.csv", ledger=Ledger(folder / "b.ledger", lifetime=1.0))
    words = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    assert "You send 2 answers" in words
    assert "for at most 2 answers" in words
    assert "The learner sees when your answers arrive, and the promise does not cover these times." in words


def test_speeds_are_refused_before_a_forecast_is_made(folder, monkeypatch):
    def never(*arguments, **keywords):
        raise AssertionError("a forecast was begun")

    monkeypatch.setattr("parley.decisions.outlook.worth.worth", never)
    monkeypatch.setattr("parley.workflows.forecast.forecast", never)
    for command in ("train", "forecast"):
        for text, sentence in (
            ("z=1", "the terms have no owner 'z'"),
            ("a=-1", "a = -1.0"),
            ("a=1,a=2", "each owner only once"),
        ):
            assert sentence in str(run(command, folder / "terms.toml", "--speeds", text).exception)
    assert "plan without learning.staleness" in str(run("forecast", folder / "terms.toml", "--plan").exception)


def test_a_forecast_takes_speeds_and_training_weighs_the_terms_at_them(folder):
    regression_table(200, seed=7).to_csv(folder / "public.csv", index=False)
    terms = folder / "terms.toml"
    terms.write_text(TERMS.replace("radius = 5.0", 'radius = 5.0\npublic = "public.csv"'))

    def cost(*more):
        return json.loads(run("forecast", terms, "--json", *more).stdout)["expected_cost"]

    silent, usual = cost("--speeds", "b=0"), cost()
    assert silent != usual
    page = " ".join(run("train", terms, "--seed", 1, "--speeds", "b=0").output.split())
    assert f"According to the public sample: the expected test cost is {number(silent, 5)} for the joint model," in page
