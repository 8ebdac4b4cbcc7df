"""Column statistics asked of owners behind daemons, then a model by the terms that follow: two agreements in every
ledger."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from consortium import SIZES, Consortium
from samples import regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import ParleyError
from parley.learning.deployed import ask_elsewhere, open_federation, prepare_run
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement

TERMS = """
title = "Elsewhere"
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2", "colour"]
intercept = true
coding = "one-hot"
radius = 5.0
[learning]
horizon = 4
[privacy]
mechanism = "gaussian"
delta = 1e-5
clip = 4.0
scale_epsilon = 40.0
""" + "".join(f'[[owners]]\nname = "{name}"\nrecords = {SIZES[name]}\nepsilon = 50.0\n' for name in "abc")


@pytest.fixture
def consortium(tmp_path):
    made = Consortium(tmp_path, lifetime=50.0, lifetime_delta=1e-5)
    for place, name in enumerate("abc"):
        colours = np.where(np.arange(SIZES[name]) % 3 > 0, "red", "blue")
        table = regression_table(SIZES[name], seed=place).assign(colour=colours)
        table.loc[0, "colour"] = "the only mauve"
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "terms.toml").write_text(TERMS)
    yield made
    made.close()


def typed(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def accept(consortium, file):
    """What the owners read when they accepted."""
    said = ""
    for name in "abc":
        said += typed(
            "owner", "accept", consortium.folder / file, "--owner", consortium.folder / f"{name}.toml", "--yes"
        )
    return said


def test_scales_and_then_a_model_between_organisations(consortium):
    folder = consortium.folder
    typed("column-stats", folder / "terms.toml", "--agreement", folder / "scales.toml")
    said = accept(consortium, "scales.toml")
    assert "No model yet: the questions are about the spread of the columns x0, x1, x2, colour, y" in said
    assert "A name is released only if more than about" in said
    consortium.start()
    ask = ["column-stats", folder / "terms.toml", "--owners", folder / "addresses.toml", "--json"]
    result = json.loads(typed(*ask, "--write", folder / "ready.toml"))
    assert result["spent"] == {"a": 40.0, "b": 40.0, "c": 40.0}
    assert "mauve" not in (folder / "ready.toml").read_text() + json.dumps(result)
    ready, asked = (
        parley.load_terms(folder / "ready.toml"),
        column_statistics_agreement(parley.load_terms(folder / "terms.toml")),
    )
    assert asked.hash == parley.load_terms(folder / "scales.toml").hash == result["terms_hash"]
    assert ready.model.categories == {"colour": ("blue", "red")}
    everybody = pd.concat([pd.read_csv(folder / f"{name}.csv") for name in "abc"])
    for column in ("x0", "x1", "x2", "y"):
        assert 0.5 < ready.model.scales[column] / everybody[column].std() < 2
    again = json.loads(typed(*ask, "--resume"))  # a finished run asks nobody
    assert again["columns"] == result["columns"]
    accept(consortium, "ready.toml")
    learned = consortium.learn("--force", file="ready.toml")
    assert [owner["epsilon_spent"] for owner in learned["owners"]] == [10.0] * 3
    for name in "abc":
        ledger = consortium.ledger(name)
        assert (ledger.account(asked.hash).spent, ledger.account(ready.hash).spent) == (Fraction(40), Fraction(10))
        assert ledger.reserved == (Fraction(50), Fraction("1e-5"))
        ledger.verify()


def test_an_interrupted_run_goes_on_where_it_was_and_costs_nothing_twice(consortium):
    folder = consortium.folder
    typed("column-stats", folder / "terms.toml", "--agreement", folder / "scales.toml")
    accept(consortium, "scales.toml")
    consortium.start()
    terms = parley.load_terms(folder / "terms.toml")
    asked = column_statistics_agreement(terms)
    assert asked.learning.horizon > 1
    run = prepare_run(asked, folder / "terms.scales.checkpoint")
    begin = run.begin(resume=False)
    federation, _ = open_federation(run, begin, folder / "addresses.toml", 30.0, print)

    def pulled_out(state):
        raise KeyboardInterrupt

    federation.fetch_statements()
    with pytest.raises(KeyboardInterrupt):
        ask_elsewhere(run, federation, begin, pulled_out)
    federation.close()
    half = {name: consortium.ledger(name).account(asked.hash) for name in "abc"}
    assert all(0 < account.answers < asked.learning.horizon for account in half.values())

    ask = ["column-stats", folder / "terms.toml", "--owners", folder / "addresses.toml", "--json"]
    refused = CliRunner().invoke(app, [str(each) for each in ask])
    assert isinstance(refused.exception, ParleyError)
    assert "continue that run with --resume" in str(refused.exception)
    told = json.loads(typed(*ask, "--resume"))
    assert told["spent"] == {"a": 40.0, "b": 40.0, "c": 40.0}
    for name in "abc":
        account = consortium.ledger(name).account(asked.hash)
        assert (account.answers, account.spent) == (asked.learning.horizon, Fraction(40))
        consortium.ledger(name).verify()
    assert json.loads(typed(*ask, "--resume"))["columns"] == told["columns"]
