import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from newcomer import typed
from samples import regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.owner.acceptance_summary import acceptance_summary
from parley.protocol.queries import GradientQuery

TERMS = """
title = "Two"
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2"]
radius = 5.0
holdout = 0.2
[learning]
horizon = 10
[privacy]
clip = 4.0
[[owners]]
name = "a"
records = 300
epsilon = 1.0
data = "a.csv"
[[owners]]
name = "b"
records = 200
epsilon = 0.5
data = "b.csv"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "terms.toml").write_text(TERMS)
    regression_table(300, seed=1).to_csv(tmp_path / "a.csv", index=False)
    regression_table(200, seed=2).to_csv(tmp_path / "b.csv", index=False)
    return tmp_path


def test_json_holds_the_names_that_programs_rely_on(folder):
    """And in a process of its own nothing else is printed beside them."""
    words = ["train", str(folder / "terms.toml"), "--replicates", "4", "--seed", "1", "--json"]
    code = "from parley.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    content = json.loads(run.stdout)
    assert set(content["relative_fitness"]) == {"mean", "median", "q25", "q75"}
    assert {"cost", "optimal_cost", "metrics", "replicates", "terms_hash", "seconds"} <= set(content)
    assert [(o["name"], o["records"], o["epsilon"], o["epsilon_spent"]) for o in content["owners"]] == [
        ("a", 300, 1.0, 1.0),
        ("b", 200, 0.5, 0.5),
    ]
    assert content["terms_hash"] == parley.load_terms(folder / "terms.toml").hash
    assert content["released"] is False


def test_tables_say_that_it_is_a_simulation_and_what_is_guaranteed(folder):
    run = CliRunner().invoke(app, ["train", str(folder / "terms.toml"), "--seed", "1", "--plot", str(folder / "f.png")])
    assert run.exit_code == 0
    assert "Simulation, not a release" in run.output
    assert "replace-one" in run.output
    assert "relative fitness" in run.output
    assert (folder / "f.png").stat().st_size > 10_000


def test_the_table_says_how_many_answers_each_owner_gave(folder):
    """By the public schedule: owner b is asked every third round of ten. A score is one more."""
    (folder / "terms.toml").write_text(TERMS.replace('data = "b.csv"', 'data = "b.csv"\nstride = 3'))
    lines = CliRunner().invoke(app, ["train", str(folder / "terms.toml"), "--seed", "1"]).output.splitlines()
    head = next(line for line in lines if line.startswith("owner"))
    place = head.split("  ").index("answers") if "answers" in head.split("  ") else -1
    assert place > 0
    answers = {line.split()[0]: line.split()[4] for line in lines if line.startswith(("a ", "b "))}
    assert answers == {"a": "10", "b": "4"}
    (folder / "terms.toml").write_text(SCORED)
    assert "Simulated scores" in CliRunner().invoke(app, ["train", str(folder / "terms.toml"), "--seed", "1"]).output


def test_what_is_printed_as_spent_is_no_less_than_was_spent(folder):
    """3 rounds of 9 were answered: one third of the budget has no float of its own."""
    (folder / "terms.toml").write_text(TERMS.replace("horizon = 10", "horizon = 9"))
    terms = parley.load_terms(folder / "terms.toml")
    (folder / "owner.toml").write_text(
        'name = "a"\ntable = "a.csv"\nledger = "a.ledger"\naccepted = "accepted"\nsocket = "s"\n'
    )
    owner = parley.Owner("a", folder / "a.csv", ledger=parley.Ledger(folder / "a.ledger", lifetime=1.0))
    owner.accept(terms)
    for number in (1, 2, 3):
        owner.answer(GradientQuery.ask(terms.hash, "learner", number, np.zeros(3)))
    spent = owner.ledger.account(terms.hash).spent
    owner.ledger.close()
    assert Fraction(float(spent)) < spent  # the nearest float is no bound
    content = json.loads(CliRunner().invoke(app, ["owner", "ledger", str(folder / "owner.toml"), "--json"]).stdout)
    for told in (content["epsilon_spent"], content["agreements"][0]["epsilon_spent"]):
        assert spent <= Fraction(told) <= spent * (1 + Fraction(1, 10**15))
        assert spent <= Fraction(repr(told))
    assert content["agreements"][0]["epsilon"] == content["reserved"]["epsilon"] == 1.0


def test_a_release_spends_durably_withholds_quality_and_repeats_for_free(folder):
    arguments = ["train", str(folder / "terms.toml"), "--ledgers", str(folder / "ledgers"), "--lifetime", "1"]
    arguments += ["--json", "--save", str(folder / "m.json")]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    content = json.loads(first.stdout)
    assert content["released"] is True
    assert content["relative_fitness"] is None
    assert content["cost"] is None
    again = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert again["theta"] == content["theta"]
    assert parley.load_model(folder / "m.json").theta_.tolist() == content["theta"]
    ledger = parley.Ledger(folder / "ledgers" / "a.ledger")
    assert ledger.account(content["terms_hash"]).spent == 1


def test_other_terms_do_not_refill_the_ledger(folder):
    CliRunner().invoke(
        app, ["train", str(folder / "terms.toml"), "--ledgers", str(folder / "ledgers"), "--lifetime", "1"]
    )
    (folder / "more.toml").write_text(TERMS.replace("horizon = 10", "horizon = 11"))
    run = typed("train", folder / "more.toml", "--ledgers", folder / "ledgers")
    assert run.code == 2
    assert "lifetime budget is epsilon = 1" in run.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("clip = 4.0", "clop = 4.0"), "privacy.clop: unknown key; did you mean 'clip'?"),
        (("records = 300", "records = 301"), "the terms state 301 records, but the table has 300"),
        (('data = "a.csv"', 'data = "c.csv"'), "c.csv: no such file"),
        (('data = "a.csv"', ""), "owners.a.data: missing"),
        (('"x2"]', '"x3"]'), "column 'x3' is missing"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(folder, change, message):
    (folder / "terms.toml").write_text(TERMS.replace(*change))
    run = typed("train", folder / "terms.toml")
    assert run.code == 2
    assert message in run.err
    assert "Traceback" not in run.err
    assert len(run.err.strip().splitlines()) == 1
    assert run.out == ""


def test_a_ledger_is_made_only_on_request_and_terms_are_accepted_by_all_or_none(folder):
    run = typed("train", folder / "terms.toml", "--ledgers", folder / "ledgers")
    assert run.code == 2
    assert "give the table's lifetime budget: --lifetime 1, or larger" in run.err
    (folder / "wrong.toml").write_text(TERMS.replace("records = 200", "records = 201"))
    arguments = ["--ledgers", folder / "ledgers", "--lifetime", 1]
    assert typed("train", folder / "wrong.toml", *arguments).code == 2
    assert typed("train", folder / "terms.toml", *arguments).code == 0


def test_a_ledger_that_could_never_hold_the_terms_is_not_made(folder):
    """Its budget is for ever: made without a delta, it would stand in the way of the right one."""
    (folder / "terms.toml").write_text(TERMS.replace("clip = 4.0", 'clip = 4.0\nmechanism = "gaussian"\ndelta = 1e-6'))
    arguments = ["train", str(folder / "terms.toml"), "--ledgers", str(folder / "ledgers"), "--lifetime", "1"]
    error = CliRunner().invoke(app, arguments).exception
    assert "--lifetime-delta" in str(error)
    assert not list((folder / "ledgers").glob("*.ledger"))
    assert CliRunner().invoke(app, [*arguments, "--lifetime-delta", "1e-5"]).exit_code == 0


def test_outputs_that_cannot_be_written_are_refused_before_anything_is_spent(folder):
    arguments = ["train", folder / "terms.toml", "--ledgers", folder / "ledgers", "--lifetime", 1]
    run = typed(*arguments, "--save", folder / "none" / "m.json")
    assert run.code == 2
    assert "the folder of this file does not exist" in run.err
    assert not (folder / "ledgers").exists()
    run = typed("train", folder / "terms.toml", "--ledgers", folder / "a.csv", "--lifetime", 1)
    assert run.code == 2
    assert "Traceback" not in run.err


def test_a_plot_of_a_release_or_of_an_unknown_kind_is_refused_before_anything_runs(folder):
    run = typed("train", folder / "terms.toml", "--ledgers", folder / "ledgers", "--plot", "f.png")
    assert run.code == 2
    assert not (folder / "ledgers").exists()
    run = typed("train", folder / "terms.toml", "--plot", folder / "f.xyz")
    assert run.code == 2
    assert ".png" in run.err


def test_version_and_help_teach():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"parley {parley.__version__}"
    assert "privacy" in CliRunner().invoke(app, ["--help"]).output
    assert "Example" in CliRunner().invoke(app, ["train", "--help"]).output


def test_a_forecast_needs_no_private_table(folder):
    regression_table(2000, seed=9).to_csv(folder / "pilot.csv", index=False)
    (folder / "terms.toml").write_text(
        TERMS.replace('data = "a.csv"', "").replace('data = "b.csv"', "").replace("clip = 4.0", "clip = 40.0")
    )
    run = CliRunner().invoke(
        app, ["forecast", str(folder / "terms.toml"), "--pilot", str(folder / "pilot.csv"), "--json"]
    )
    assert run.exit_code == 0, run.output
    content = json.loads(run.stdout)
    assert (
        content["relative_fitness"]["low"] <= content["relative_fitness"]["mean"] <= content["relative_fitness"]["high"]
    )
    assert [owner["name"] for owner in content["owners"]] == ["a", "b"]
    shown = CliRunner().invoke(app, ["forecast", str(folder / "terms.toml"), "--pilot", str(folder / "pilot.csv")])
    assert shown.stdout.startswith(("Join", "Stay", "Unsure"))
    assert max(map(len, shown.output.splitlines()[2:6])) <= 80
    details = ["forecast", str(folder / "terms.toml"), "--pilot", str(folder / "pilot.csv"), "--details"]
    assert "Expected test cost on each owner's own rows" in CliRunner().invoke(app, details).output
    missing = CliRunner().invoke(app, ["forecast", str(folder / "terms.toml")])
    assert "needs public knowledge" in str(missing.exception)


def test_an_owner_scores_the_joint_model_for_itself(folder):
    CliRunner().invoke(app, ["train", str(folder / "terms.toml"), "--seed", "1", "--save", str(folder / "m.json")])
    arguments = ["score", str(folder / "m.json"), str(folder / "terms.toml"), "--owner"]
    content = json.loads(CliRunner().invoke(app, [*arguments, "a", "--json"]).stdout)
    assert content["rows"] == 60
    assert content["gain"] == pytest.approx(content["cost_alone"] - content["cost_together"])
    assert "keep it inside" in CliRunner().invoke(app, [*arguments, "b"]).output
    assert "the terms have no owner 'c'" in str(CliRunner().invoke(app, [*arguments, "c"]).exception)


def test_all_owners_are_scored_at_once_and_a_personal_model_is_saved(folder):
    CliRunner().invoke(app, ["train", str(folder / "terms.toml"), "--seed", "1", "--save", str(folder / "m.json")])
    files = [str(folder / "m.json"), str(folder / "terms.toml")]
    content = json.loads(CliRunner().invoke(app, ["score", *files, "--all", "--json"]).stdout)
    assert [owner["name"] for owner in content["owners"]] == ["a", "b"]
    for owner in content["owners"]:
        for model in ("together", "alone", "personal"):
            assert owner["costs"][model]["low"] <= owner[model] <= owner["costs"][model]["high"]
        assert owner["gain"] == pytest.approx(owner["alone"] - owner["personal"])
        assert owner["verdict"] in ("join", "stay", "unsure")
    shown = CliRunner().invoke(app, ["score", *files, "--all"]).output
    assert "verdict is based on only" not in shown
    assert "1 of 2 owners gains significantly with a personal model" in " ".join(shown.split())
    assert "both are missing" in str(CliRunner().invoke(app, ["score", *files]).exception)
    run = CliRunner().invoke(app, ["refine", *files, "--owner", "b", "--save", str(folder / "own.json"), "--json"])
    said = json.loads(run.stdout)
    assert said["saved"] == str(folder / "own.json")
    assert said["inside"] is True
    assert said["chosen"] in [way["name"] for way in said["ways"]]
    shown = CliRunner().invoke(app, ["refine", *files, "--owner", "b", "--save", str(folder / "own.json")]).output
    assert "ridge towards it" in shown
    assert "b's personal model" in shown
    again = json.loads(
        CliRunner().invoke(app, ["score", str(folder / "own.json"), files[1], "--owner", "b", "--json"]).stdout
    )
    assert again["cost_together"] == pytest.approx(content["owners"][1]["personal"])


SCORED = TERMS.replace("clip = 4.0", "clip = 4.0\nscore_epsilon = 0.25").replace(
    "radius", "bounds = { y = [-3, 3] }\nradius"
)


def test_a_released_score_is_shown_with_its_error_and_costs_nothing_the_second_time(folder):
    (folder / "terms.toml").write_text(SCORED)
    arguments = ["train", str(folder / "terms.toml"), "--ledgers", str(folder / "ledgers"), "--lifetime", "1"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "Released scores ± one standard error of the noise" in " ".join(shown.output.split())
    content = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert [owner["epsilon_spent"] for owner in content["owners"]] == [1.0, 0.5]
    figure = content["scores"]["pooled"]["figures"]["mean_squared_error"]
    drowned = figure is None  # the noise is fresh in every run
    assert ("–" if drowned else f"{figure['value']:.3g} ± {figure['standard_error']:.2g}") in shown.output
    study = CliRunner().invoke(app, ["train", str(folder / "terms.toml"), "--seed", "1"])
    assert "Simulated scores ± one standard error of the noise" in " ".join(study.output.split())


def test_an_owner_is_told_what_a_score_lets_out(folder):
    terms = parley.Terms.from_toml(SCORED)
    owner = parley.Owner("a", folder / "a.csv", ledger=parley.Ledger(folder / "a.ledger", lifetime=1.0))
    words = " ".join(acceptance_summary(owner, owner.prepare(terms), None, relay=False))
    assert (
        "You also send one score of the finished model: 3 means over 60 held-out records, with "
        "laplace noise for ε = 0.25" in words
    )
    plain = parley.Terms.from_toml(TERMS)
    assert "score" not in " ".join(acceptance_summary(owner, owner.prepare(plain), None, relay=False))
