"""Counts asked of owners behind daemons: debited once, and the same for ever."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from consortium import SIZES, Consortium
from typer.testing import CliRunner

import parley
from parley.cli.app import app

TERMS = """
title = "Elsewhere"
[model]
kind = "histogram"
target = "colour"
categories = { colour = ["red", "blue"] }
[privacy]
mechanism = "geometric"
""" + "".join(f'[[owners]]\nname = "{name}"\nrecords = {SIZES[name]}\nepsilon = 2.0\n' for name in "ab")


@pytest.fixture
def consortium(tmp_path):
    made = Consortium(tmp_path, names="ab", lifetime=3.0)
    for name in "ab":
        colours = np.where(np.arange(SIZES[name]) % 4 > 0, "red", "mauve")
        pd.DataFrame({"colour": colours}).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "terms.toml").write_text(TERMS)
    yield made
    made.close()


def typed(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_counts_between_organisations(consortium):
    folder = consortium.folder
    for name in "ab":
        said = typed("owner", "accept", folder / "terms.toml", "--owner", folder / f"{name}.toml", "--yes")
        assert "how many records lie in each cell of the column colour: red, blue, elsewhere" in said
        assert "bits about a person" in said
    consortium.start()
    ask = ["count", folder / "terms.toml", "--owners", folder / "addresses.toml", "--json"]
    found = json.loads(typed(*ask))
    assert found["released"]
    assert found["spent"] == {"a": 2.0, "b": 2.0}
    true = np.array([sum(SIZES[name] - -(-SIZES[name] // 4) for name in "ab"), 0])
    seen = np.array([cell["noisy"] for cell in found["cells"][:2]])
    assert (seen == np.rint(seen)).all()
    assert np.abs(seen - true).max() < 40  # of scale 1 each: e^-15
    again = json.loads(typed(*ask, "--resume"))  # a finished run asks nobody
    assert again["cells"] == found["cells"]
    terms = parley.load_terms(folder / "terms.toml")
    for name in "ab":
        ledger = consortium.ledger(name)
        assert ledger.account(terms.hash).spent == Fraction(2)
        ledger.verify()
