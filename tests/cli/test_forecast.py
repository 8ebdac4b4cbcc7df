import json

import pytest
from samples import regression_table
from typer.testing import CliRunner

from parley.cli.app import app
from parley.terms import load_terms

TERMS = """
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2"]
bounds = { x0 = [-1, 1], x1 = [-1, 1], x2 = [-1, 1], y = [-3, 3] }
[learning]
horizon = 100
step = 0.3
[privacy]
clip = 12.0
[[owners]]
name = "a"
records = 4000
epsilon = 1.0
data = "a.csv"
"""


@pytest.fixture
def folder(tmp_path):
    regression_table(1500, seed=9).to_csv(tmp_path / "pilot.csv", index=False)
    regression_table(4000, seed=1).to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "terms.toml").write_text(TERMS)
    return tmp_path


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_plan_is_shown_printed_as_json_and_written_as_terms_that_train(folder):
    options = ("forecast", folder / "terms.toml", "--pilot", folder / "pilot.csv", "--plan")
    shown = invoke(*options, "--write", folder / "better.toml")
    assert shown.exit_code == 0, shown.output
    assert "Other ways to spend the same budgets" in shown.output
    content = json.loads(invoke(*options, "--json").stdout)
    better = load_terms(folder / "better.toml")
    assert better.hash == content["plan"]["terms_hash"]
    assert better.owners[0].epsilon == 1.0
    trained = [
        json.loads(invoke("train", file, "--json", "--replicates", 60, "--seed", 1).stdout)
        for file in (folder / "terms.toml", folder / "better.toml")
    ]
    assert trained[1]["relative_fitness"]["mean"] < 0.8 * trained[0]["relative_fitness"]["mean"]


def test_without_a_plan_the_json_says_so(folder):
    content = json.loads(invoke("forecast", folder / "terms.toml", "--pilot", folder / "pilot.csv", "--json").stdout)
    assert content["adjacency"] == "replace-one"
    assert content["plan"] is None
    assert set(content["metrics"]) == {"r2", "mean_absolute_error"}


def test_kinds_of_noise_stand_side_by_side(folder):
    more = TERMS + '[[owners]]\nname = "b"\nrecords = 4000\nepsilon = 1.0\n'
    shared = more.replace("clip = 12.0", 'clip = 12.0\ndelta = 1e-9\nnoise = "shared"')
    shared += "".join(f'[[hosts]]\nname = "{name}"\n' for name in ("a", "b", "x"))
    (folder / "two.toml").write_text(more)
    (folder / "shared.toml").write_text(shared)
    found = []
    for file in ("two.toml", "shared.toml"):
        content = json.loads(invoke("forecast", folder / file, "--pilot", folder / "pilot.csv", "--json").stdout)
        found.append(content["noise"])
        own = "shared" if file == "shared.toml" else "each_owner"
        assert content["noise"][own]["relative_fitness"] == content["relative_fitness"]["mean"]
    assert found[0]["shared"]["relative_fitness"] < found[0]["each_owner"]["relative_fitness"]
    for kind in ("each_owner", "shared", "distributed"):
        assert found[0][kind]["relative_fitness"] == pytest.approx(found[1][kind]["relative_fitness"], rel=0.1)
    asked = ("forecast", folder / "two.toml", "--pilot", folder / "pilot.csv", "--plan", "--details")
    shown = " ".join(invoke(*asked).output.split())
    assert "with each kind of noise" in shown
    assert "with three hosts and shared noise" in shown
    assert "Expected test cost" in shown


def test_released_moments_are_a_pilot(folder):
    """One release of second moments, debited in a ledger, then a forecast for other terms from it alone."""
    once = TERMS.replace("horizon = 100\nstep = 0.3", 'algorithm = "sufficient-statistics"').replace("clip = 12.0", "")
    (folder / "once.toml").write_text(once.replace("epsilon = 1.0", "epsilon = 40.0"))
    released = invoke("train", folder / "once.toml", "--ledgers", folder / "ledgers", "--lifetime", 50, "--json")
    assert released.exit_code == 0, released.output
    (folder / "released.json").write_text(released.stdout)
    assert json.loads(released.stdout)["owners"][0]["epsilon_spent"] == 40.0
    from_release = json.loads(
        invoke("forecast", folder / "terms.toml", "--moments", folder / "released.json", "--json").stdout
    )
    from_sample = json.loads(
        invoke("forecast", folder / "terms.toml", "--pilot", folder / "pilot.csv", "--json").stdout
    )
    assert from_release["relative_fitness"]["mean"] == pytest.approx(from_sample["relative_fitness"]["mean"], rel=0.25)


def test_assumptions_are_a_pilot(folder):
    (folder / "assumed.toml").write_text("curvature = [0.7, 0.7, 0.6]\nleast_cost = 0.013\ndistance = 1.0\n")
    run = invoke("forecast", folder / "terms.toml", "--assume", folder / "assumed.toml", "--details")
    assert run.exit_code == 0, run.output
    assert "every direction of the start" in run.output
    (folder / "terms.toml").write_text(TERMS.replace("clip = 12.0", "clip = 0.5"))
    tight = invoke("forecast", folder / "terms.toml", "--assume", folder / "assumed.toml")
    assert "Without a public sample nobody can tell how often" in " ".join(tight.output.split())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--pilot", "pilot.csv", "--assume", "terms.toml"], "at most one"),
        (["--delta", "1e-6"], "--plan"),
        (["--moments", "nowhere.json"], "no such file or folder"),
    ],
)
def test_mistakes_are_sentences(folder, options, match):
    arguments = [folder / option if "." in option and "-" not in option else option for option in options]
    run = invoke("forecast", folder / "terms.toml", *arguments)
    assert run.exit_code != 0
    assert match in str(run.exception)
