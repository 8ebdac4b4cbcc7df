"""Fisher's flowers as the tables of three owners, from the first command to the released model: daemons and a learner
that are processes of their own, mutual TLS between them, classes that are words."""

import json
from fractions import Fraction

import numpy as np
import pytest
from consortium import Consortium, free_port
from samples import IRIS, SPECIES, iris_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app

# so large that the model is worth something: 40 rows each
EPSILON = {"kew": "30000", "uppsala": "24000.5", "leiden": "40000"}
ROUNDS = 40
TERMS = f"""
title = "Iris"
[model]
kind = "softmax-regression"
target = "species"
features = {json.dumps([*IRIS])}
categories = {{ species = {json.dumps(SPECIES)} }}
holdout = 0.2
radius = 10.0
[model.bounds]
{"".join(f"{json.dumps(name)} = {bounds}{chr(10)}" for name, bounds in IRIS.items())}
[learning]
algorithm = "federated-averaging"
local_steps = 50
horizon = {ROUNDS}
[privacy]
clip = 6.0
score_epsilon = 50.0
""" + "".join(f'[[owners]]\nname = "{name}"\nrecords = 50\nepsilon = {epsilon}\n' for name, epsilon in EPSILON.items())


def parley_command(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (done.output, done.exception)


@pytest.fixture
def gardens(tmp_path):
    """Three owners, each in a folder of its own as the commands make it; the learner's folder is the authority's."""
    consortium = Consortium(tmp_path, names="")
    (tmp_path / "terms.toml").write_text(TERMS)
    flowers = iris_table()
    for place, (name, epsilon) in enumerate(EPSILON.items()):
        home, consortium.ports[name] = tmp_path / name, free_port()
        flowers.iloc[50 * place : 50 * (place + 1)].to_csv(tmp_path / f"{name}.csv", index=False)
        table = ["--name", name, "--table", tmp_path / f"{name}.csv", "--lifetime", epsilon]
        parley_command("owner", "init", home, *table, "--listen", f"127.0.0.1:{consortium.ports[name]}")
        parley_command("certs", "request", name, "--out", home)
        parley_command("certs", "issue", home / f"{name}.csr", "--authority", tmp_path)
        for file in ("ca.crt", "ca.crl", f"{name}.crt"):
            (home / file).write_bytes((tmp_path / file).read_bytes())
        accept = ["--owner", home / "owner.toml", "--certificate", tmp_path / "learner.crt", "--yes"]
        parley_command("owner", "accept", tmp_path / "terms.toml", *accept)
    consortium.write_addresses()
    consortium.start(*(f"{name}/owner" for name in EPSILON))
    yield consortium
    consortium.close()


def test_three_owners_of_flowers_release_a_model_over_mutual_tls(gardens):
    terms, saved = parley.load_terms(gardens.folder / "terms.toml"), gardens.folder / "model.json"
    result = gardens.learn("--save", str(saved))
    assert result["released"] is True
    assert [owner["epsilon_spent"] for owner in result["owners"]] == [float(epsilon) for epsilon in EPSILON.values()]
    owners = []
    for name, epsilon in EPSILON.items():
        ledger = parley.Ledger(gardens.folder / name / f"{name}.ledger")
        ledger.verify()
        account = ledger.account(terms.hash)
        assert (account.spent, account.answers) == (Fraction(epsilon), ROUNDS + 1)  # the last one is the score
        assert ledger.reserved == (Fraction(epsilon), 0)
        owners.append(parley.Owner(name, gardens.folder / f"{name}.csv", ledger=ledger))
        owners[-1].accept(terms)
    # made of the debited answers alone
    np.testing.assert_array_equal(parley.train(terms, owners).theta[0], result["theta"])
    model, flowers = parley.load_model(saved), iris_table()
    assert model.classes_.tolist() == SPECIES
    assert model.theta_.tolist() == result["theta"]
    # chance: one in three; the noise alone moves this by 0.004
    assert np.mean(model.predict(flowers) == flowers["species"]) > 0.85
    released = result["scores"]["pooled"]
    assert released["rows"] == 30
    assert released["figures"]["accuracy"]["value"] > 0.6  # on held-out rows, with noise of a standard error below 0.05
    assert released["figures"]["accuracy"]["standard_error"] < 0.05
