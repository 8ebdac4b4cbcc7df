"""What names in one column cost is measured on the public sample, and said by the commands."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley.decisions.knowledge.coding import coding_cost, coding_warning
from parley.decisions.outlook.forecast import forecast
from parley.terms import load_terms

TERMS = """
[model]
kind = "logistic-regression"
target = "state"
positive = "sick"
features = ["age", "place"]
missing = "fill"
holdout = 0.25
public = "public.csv"
[learning]
horizon = 5
[privacy]
clip = 2.0
[[owners]]
name = "a"
records = 400
epsilon = 2.0
data = "a.csv"
"""


def table(n, seed, effects=(2.0, -2.0, 2.0, -2.0)):
    """Four places, whose effects do not follow their order in the alphabet unless told so."""
    rng = np.random.default_rng(seed)
    place, age = rng.integers(0, 4, n), rng.normal(50, 10, n)
    chance = 1 / (1 + np.exp(-np.array(effects)[place] - 0.05 * (age - 50)))
    frame = pd.DataFrame({"age": age, "place": np.array(["n", "o", "s", "w"])[place]})
    frame["state"] = np.where(rng.random(n) < chance, "sick", "well")
    frame.loc[::11, "place"] = None
    return frame


@pytest.fixture
def folder(tmp_path):
    table(600, 0).to_csv(tmp_path / "public.csv", index=False)
    table(400, 1).to_csv(tmp_path / "a.csv", index=False, sep=";")
    (tmp_path / "terms.toml").write_text(TERMS)
    return tmp_path


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_both_costs_are_near_what_new_rows_would_show(folder):
    terms = load_terms(folder / "terms.toml")
    found = coding_cost(terms)
    assert found is not None
    chance = 1 / (1 + np.exp(-2.0))
    best = -(chance * np.log(chance) + (1 - chance) * np.log(1 - chance))  # of places alone; age tells a little more
    assert best - 0.05 < found.one_hot < best + 0.08
    assert found.integer > found.one_hot + 0.15
    assert 'coding = "one-hot" would be better by' in found.words()


def test_names_in_their_order_cost_nothing_and_that_is_said(folder):
    table(2000, 0, effects=(-3.0, -1.0, 1.0, 3.0)).dropna().to_csv(folder / "public.csv", index=False)
    found = coding_cost(load_terms(folder / "terms.toml").changed(model={"missing": "refuse"}))
    assert abs(found.integer - found.one_hot) < 0.005
    assert "one-hot columns would not be better here" in found.words()


def test_rows_are_held_back(folder):
    """Many names that mean nothing fit the rows they were fitted to, and no others."""
    rng = np.random.default_rng(77)
    table(200, 0).assign(place=rng.integers(0, 80, 200).astype(str) + "th").to_csv(folder / "public.csv", index=False)
    found = coding_cost(load_terms(folder / "terms.toml"))
    assert found.one_hot > found.integer - 0.03


def test_there_is_nothing_to_say_where_nothing_would_change(folder):
    terms = load_terms(folder / "terms.toml")
    assert coding_cost(terms.changed(model={"coding": "one-hot"})) is None
    assert coding_cost(terms.changed(model={"features": ["age"]})) is None
    table(600, 0).assign(place="n").to_csv(folder / "public.csv", index=False)
    assert coding_cost(terms) is None
    listed = {"categories": {"place": ["n", "o", "s"]}, "bounds": {"age": [0, 100]}, "public": None}
    assert coding_cost(terms.changed(model=listed)) is None


def test_commands_say_what_coding_costs_and_what_counts_as_one(folder):
    terms, words = folder / "terms.toml", "Target 'state': 'sick' counts as 1, every other name as 0."
    shown = invoke("forecast", terms, "--details").output
    assert words in " ".join(shown.split())
    assert "names as 0, 1, 2, … give a cost of" in " ".join(shown.split())
    content = json.loads(invoke("forecast", terms, "--json").stdout)
    assert content["target_words"] == words
    assert content["coding"]["integer"] > content["coding"]["one_hot"]
    trained = invoke("train", terms, "--seed", 0, "--save", folder / "model.json")
    assert words in " ".join(trained.output.split())
    assert "one-hot columns" in trained.output
    content = json.loads(invoke("train", terms, "--seed", 0, "--json").stdout)
    assert content["target_words"] == words
    assert content["coding"]["integer"] > content["coding"]["one_hot"]
    scored = invoke("score", folder / "model.json", terms, "--owner", "a")
    assert words in " ".join(scored.output.split())
    assert words in (folder / "model.json").read_text()


@pytest.mark.parametrize("command", [("forecast",), ("plan",), ("train", "--seed", "0")])
def test_whoever_wrote_names_as_numbers_is_warned_with_the_figure(folder, command):
    """Unasked, in every command that reads such terms; and where nobody can measure it, that it is so."""
    name, *options = command
    shown = " ".join(invoke(name, folder / "terms.toml", *options).output.split())
    assert re.search(r"read names as 0, 1, 2, … in one column. That gives a cost of [\d.]+ where one-hot", shown)
    declared = {"categories": {"place": ["n", "o", "s", "w"]}, "bounds": {"age": [0, 100]}, "public": None}
    unmeasured = coding_warning(load_terms(folder / "terms.toml").changed(model=declared))
    (folder / "terms.toml").write_text(TERMS.replace("[learning]", 'coding = "one-hot"\n[learning]'))
    assert "Coding:" not in invoke(name, folder / "terms.toml", *options).output
    assert "the names in place as 0, 1, 2, …" in unmeasured


@pytest.mark.parametrize("kind", ["logistic-regression", "linear-svm", "linear-regression"])
def test_a_forecast_from_a_public_sample_with_one_hot_columns_works(folder, kind):
    """Columns that add up to the constant have no curvature of their own; rare names may have no finite optimum."""
    frame = table(300, 2)
    frame.loc[0, "place"], frame.loc[0, "state"] = "rare", "sick"
    frame.assign(rate=frame["age"] / 10).to_csv(folder / "public.csv", index=False)
    model = {"kind": kind, "coding": "one-hot"}
    if kind == "linear-regression":
        model |= {"target": "rate", "positive": None, "features": ["place", "state"], "intercept": True}
    terms = load_terms(folder / "terms.toml").changed(model=model, learning={"step": 0.1})
    result = forecast(terms, resamples=6)
    assert 0 < result.relative_fitness.mean < 5
    assert result.coding is None
