"""A release that nobody is expected to gain by asks first, and spends nothing; repeated, it is free and says so."""

import json
from contextlib import closing
from importlib import import_module

import numpy as np
import pytest
from samples import regression_table
from typer.testing import CliRunner

from parley.cli.app import app
from parley.decisions.forecasting import forecast, worth_spending
from parley.decisions.forecasting.heterogeneity import ASSUMED
from parley.decisions.forecasting.outlook import outlook
from parley.errors import BelowBaselineError
from parley.owner.ledger import Ledger
from parley.terms import load_terms

TERMS = """
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2"]
intercept = true
{model}
[learning]
algorithm = "gradient-descent"
horizon = 12
step = 0.4
decay = 0.0
[privacy]
clip = 4.0
"""
OWNER = '[[owners]]\nname = "{name}"\nrecords = {rows}\nepsilon = {epsilon}\ndata = "{name}.csv"\n'
RANGES = """
bounds = { x0 = [-4, 4], x1 = [-4, 4], x2 = [-4, 4], y = [-9, 9] }
scales = { x0 = 2, x1 = 2, x2 = 2, y = 4.5 }
centres = { x0 = 0, x1 = 0, x2 = 0, y = 0 }
"""
LARGE = 4000
worth = import_module("parley.decisions.forecasting.worth")  # the package has a function of that name


def written(folder, name, model, owners, epsilon):
    parts = "".join(OWNER.format(name=each, rows=rows, epsilon=epsilon) for each, rows in owners.items())
    (folder / name).write_text(TERMS.format(model=model) + parts)
    return folder / name


@pytest.fixture
def folder(tmp_path):
    public, rng = regression_table(40, seed=9), np.random.default_rng(0)
    public.assign(y=public.y + 0.6 * rng.standard_normal(40)).to_csv(tmp_path / "public.csv", index=False)
    for seed, name in enumerate("ab"):
        regression_table(LARGE, seed=seed).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


@pytest.fixture
def needless(folder):
    """Owners with rows enough: the joint model is better than the public sample's, and worse than their own."""
    return written(folder, "needless.toml", 'public = "public.csv"', {"a": LARGE, "b": LARGE}, 4.0)


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def books_of(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "books").glob("*"))}


def release(terms, *more):
    return invoke("train", terms, "--ledgers", terms.parent / "books", "--lifetime", 9, *more)


def test_what_nobody_gains_by_is_refused_before_anything_is_spent(folder, needless):
    terms = load_terms(needless)
    found = worth_spending(terms)
    assert found.gaining == 0
    assert found.sentence() is None  # no baseline speaks against it
    foreseen = forecast(terms, resamples=2)
    assert foreseen.verdict.kind == "no"
    assert found.together == foreseen.worth.together  # the same seed, one figure
    refused = release(needless)
    assert isinstance(refused.exception, BelowBaselineError)
    assert "no owner is expected to gain by joining" in str(refused.exception)
    assert "--anyway" in str(refused.exception)
    assert not (folder / "books").exists()
    let = release(needless, "--anyway", "--json")
    assert let.exit_code == 0, let.output
    assert not json.loads(let.stdout)["repeated"]


def test_ledgers_that_are_there_stay_as_they_are_byte_for_byte(folder, needless):
    useful = written(folder, "useful.toml", "", {"a": LARGE, "b": LARGE}, 0.5)  # no forecast, so it passes
    assert release(useful).exit_code == 0
    before = books_of(folder)
    assert before
    assert isinstance(release(needless).exception, BelowBaselineError)
    assert books_of(folder) == before


def end_of(ledger):
    """How many rows a ledger has, and the last one's hash."""
    with closing(Ledger(ledger)) as books:
        return books.head


def test_a_repetition_is_free_and_says_so(folder, needless):
    assert "Spent: a ε = 4" in release(needless, "--anyway").output
    before = end_of(folder / "books" / "a.ledger")
    again = release(needless)  # without --anyway: nothing is asked of what was paid for
    assert again.exit_code == 0, again.output
    words = " ".join(again.output.split())
    assert "Nothing new was spent: all answers were stored ones. Spent before: a ε = 4" in words
    assert "the same model again" in words
    assert json.loads(release(needless, "--json").stdout)["repeated"]
    assert end_of(folder / "books" / "a.ledger") == before


def test_what_cannot_be_forecast_passes_with_a_line_and_a_simulation_is_not_asked(folder, needless):
    unknown = written(folder, "unknown.toml", "radius = 5.0", {"a": LARGE, "b": LARGE}, 0.5)
    done = release(unknown)
    assert done.exit_code == 0, done.output
    assert "Not forecast, so whether anybody gains by it is not known" in done.output + done.stderr
    assert invoke("train", needless, "--seed", 1, "--json").exit_code == 0


def test_without_a_public_sample_declared_ranges_are_enough_to_ask(folder):
    terms = written(folder, "ranges.toml", RANGES, {"a": LARGE, "b": LARGE}, 0.1)
    assert isinstance(release(terms).exception, BelowBaselineError)
    assert not (folder / "books").exists()
    assert forecast(load_terms(terms)).verdict.kind == "no"


def test_without_a_public_sample_an_owner_counts_by_how_many_invented_laws_it_gains(folder, monkeypatch):
    """One law is a guess. A small owner beside a large one gains by some of them, and counts where that is the share
    that is asked for, which is half."""
    terms = load_terms(written(folder, "ranges.toml", RANGES, {"a": 30, "b": 10 * LARGE}, 20.0))
    small, large = np.mean([law.joining(ASSUMED).counting() for law in outlook(terms).laws], axis=0)
    assert large < small < 1
    assert worth.MOST == 0.5
    for most, gaining in ((small, 1), (small + 0.01, 0)):
        monkeypatch.setattr(worth, "MOST", most)
        assert worth_spending(terms).gaining == gaining
