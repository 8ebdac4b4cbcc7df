"""A simulation on classes that separate: it trains and says how good the model is; relative fitness is not defined
there."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import NoOptimumError, SettingError
from parley.learning.study_grid import study, vary
from parley.terms import write_terms


def table(count=300, seed=0):
    x = np.random.default_rng(seed).uniform(-1, 1, (count, 2))
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.where(x[:, 0] > 0, "yes", "no")})


def separating(kind="logistic-regression", **model):
    classes = {"positive": "yes"} if kind == "logistic-regression" else {}
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": kind, "target": "y", "features": ["a", "b"], "bounds": {"a": [-1, 1], "b": [-1, 1]},
                "categories": {"y": ["no", "yes"]}, "holdout": 0.2, **classes, **model,
            },
            "learning": {"horizon": 8, "step": 0.5},
            "privacy": {"clip": 2.0},
            "owners": [{"name": "bank", "records": 300, "epsilon": 2.0}],
        }
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["logistic-regression", "softmax-regression"])
def test_a_study_ends_with_metrics_and_says_why_there_is_no_relative_fitness(kind):
    owners, terms = [parley.Owner("bank", table())], separating(kind)
    result = parley.train(terms, owners, replicates=3, seed=1)
    assert result.path is None
    assert result.relative_fitness is None
    assert "no finite minimum" in result.relative_fitness_undefined
    assert result.optimal_cost is None
    assert result.metrics["accuracy"] > 0.5
    assert result.cost > 0
    again = parley.train(terms, owners, replicates=3, seed=1)  # the tables remember that there is none
    assert again.relative_fitness_undefined == result.relative_fitness_undefined
    boxed = parley.train(separating(kind, radius=5.0), owners, replicates=3, seed=1)
    assert boxed.relative_fitness["mean"] > 0
    assert boxed.relative_fitness_undefined is None


def test_a_grid_of_studies_has_a_gap_there():
    assert study(vary(separating(), epsilon=[1.0]), table(), replicates=2)["mean"].isna().all()


def test_another_mistake_of_the_search_still_ends_a_run(monkeypatch):
    """Only a cost without a minimum is no mistake."""

    def broken(*arguments, **keys):
        raise SettingError("broken")

    monkeypatch.setattr("parley.losses.objectives.newton.projected_newton", broken)
    with pytest.raises(SettingError, match="broken") as found:
        parley.train(separating(), [parley.Owner("bank", table())], seed=1)
    assert not isinstance(found.value, NoOptimumError)


def test_the_command_prints_metrics_reports_and_draws_nothing(tmp_path):
    table().to_csv(tmp_path / "bank.csv", index=False)
    terms = separating()
    content = terms.model_dump()
    content["owners"][0]["data"] = str(tmp_path / "bank.csv")
    write_terms(parley.Terms.from_dict(content), tmp_path / "terms.toml")
    words = ["train", str(tmp_path / "terms.toml"), "--seed", "1"]
    page, picture, model = (tmp_path / name for name in ("run.html", "psi.png", "model.json"))
    run = CliRunner().invoke(app, [*words, "--report", str(page), "--plot", str(picture), "--save", str(model)])
    said = " ".join(run.output.split())
    assert "relative fitness ψ not defined" in said
    assert "Relative fitness ψ is not defined: the cost has no finite minimum on the data" in said
    assert "held-out accuracy" in said
    assert isinstance(run.exception, SettingError)  # the picture was asked for, and is not there
    assert "nothing was drawn" in str(run.exception)
    assert model.exists()
    assert not picture.exists()
    assert "is not defined" in page.read_text()
    told = CliRunner().invoke(app, [*words, "--json"])
    assert told.exit_code == 0, told.exception
    found = json.loads(told.stdout)
    assert found["relative_fitness"] is None
    assert "no finite minimum" in found["relative_fitness_undefined"]
    assert found["metrics"]["accuracy"] > 0.5
