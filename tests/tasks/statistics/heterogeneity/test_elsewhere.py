"""How much owners behind daemons differ, then a model by the terms that follow: two agreements in every ledger."""

import hashlib
import json
from fractions import Fraction

import pytest
from consortium import SIZES, Consortium
from samples import regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.tasks.statistics.heterogeneity.run import heterogeneity_agreement

TERMS = """
title = "Elsewhere"
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2"]
public = "public.csv"
public_sha256 = "{digest}"
[learning]
horizon = 4
[privacy]
mechanism = "gaussian"
delta = 1e-5
clip = 4.0
difference_epsilon = 40.0
""" + "".join(f'[[owners]]\nname = "{name}"\nrecords = {SIZES[name]}\nepsilon = 50.0\n' for name in "abc")


@pytest.fixture
def consortium(tmp_path):
    made = Consortium(tmp_path, lifetime=50.0, lifetime_delta=1e-5)
    for place, name in enumerate("abc"):
        regression_table(SIZES[name], seed=place).to_csv(tmp_path / f"{name}.csv", index=False)
    regression_table(900, seed=8).to_csv(tmp_path / "public.csv", index=False)
    digest = hashlib.sha256((tmp_path / "public.csv").read_bytes()).hexdigest()
    (tmp_path / "terms.toml").write_text(TERMS.format(digest=digest))
    yield made
    made.close()


def typed(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def accept(consortium, file):
    for name in "abc":
        typed("owner", "accept", consortium.folder / file, "--owner", consortium.folder / f"{name}.toml", "--yes")


def test_differences_and_then_a_model_between_organisations(consortium):
    folder = consortium.folder
    typed("heterogeneity", folder / "terms.toml", "--agreement", folder / "differences.toml")
    accept(consortium, "differences.toml")
    consortium.start()
    ask = ["heterogeneity", folder / "terms.toml", "--owners", folder / "addresses.toml", "--json"]
    result = json.loads(typed(*ask, "--write", folder / "ready.toml", "--save", folder / "apart.json"))
    assert result["released"]
    assert result["spent"] == {"a": 40.0, "b": 40.0, "c": 40.0}
    ready, asked = (
        parley.load_terms(folder / "ready.toml"),
        heterogeneity_agreement(parley.load_terms(folder / "terms.toml")),
    )
    assert asked.hash == parley.load_terms(folder / "differences.toml").hash == result["terms_hash"]
    again = json.loads(typed(*ask, "--resume"))  # a finished run asks nobody
    assert (
        again["differences"] == result["differences"] == json.loads((folder / "apart.json").read_text())["differences"]
    )
    accept(consortium, "ready.toml")
    learned = consortium.learn("--force", file="ready.toml")
    assert [owner["epsilon_spent"] for owner in learned["owners"]] == [10.0] * 3
    for name in "abc":
        ledger = consortium.ledger(name)
        assert (ledger.account(asked.hash).spent, ledger.account(ready.hash).spent) == (Fraction(40), Fraction(10))
        assert ledger.reserved == (Fraction(50), Fraction("1e-5"))
        ledger.verify()
