"""A release that nobody is expected to gain by asks first, and spends nothing; repeated, it is free and says so."""

import contextlib
import gc
import json
import os
import pty
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from samples import regression_table
from typer.testing import CliRunner

from parley.cli.app import app
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.outlook.forecast import forecast, worth_spending
from parley.errors import BelowBaselineError
from parley.numerals import number
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
    """Every file of the books, with what a ledger that is still open in this process has not written through."""
    gc.collect()
    for path in (folder / "books").glob("*.ledger"):
        with closing(sqlite3.connect(path)) as ledger:
            ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    files = sorted(path for path in (folder / "books").rglob("*") if path.is_file())
    return {path.name: path.read_bytes() for path in files if not path.name.endswith(("-wal", "-shm"))}


def release(terms, *more):
    return invoke("train", terms, "--ledgers", terms.parent / "books", "--lifetime", 9, *more)


def test_what_nobody_gains_by_is_refused_before_anything_is_spent(folder, needless):
    terms = load_terms(needless)
    found = worth_spending(terms)
    assert found.outlook.consortium.verdict == "stay"
    assert found.sentence() is None  # no baseline speaks against it
    foreseen = forecast(terms)
    assert found.outlook.to_json() == foreseen.outlook.to_json()  # one answer
    assert found.together == foreseen.worth.together
    refused = release(needless)
    assert isinstance(refused.exception, BelowBaselineError)
    assert "no group of these owners gains by joining" in str(refused.exception)
    assert "--force" in str(refused.exception)
    assert not (folder / "books").exists()
    let = release(needless, "--force", "--json")
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
    assert "Spent: a ε = 4" in release(needless, "--force").output
    before = end_of(folder / "books" / "a.ledger")
    again = release(needless)  # without --force: nothing is asked of what was paid for
    assert again.exit_code == 0, again.output
    words = " ".join(again.output.split())
    assert "No new budget was spent, because all answers were already stored. Spent before: a ε = 4" in words
    assert "the model is the same as before" in words
    assert json.loads(release(needless, "--json").stdout)["repeated"]
    assert end_of(folder / "books" / "a.ledger") == before


def test_what_cannot_be_forecast_passes_with_a_line_and_a_simulation_is_not_asked(folder, needless):
    unknown = written(folder, "unknown.toml", "radius = 5.0", {"a": LARGE, "b": LARGE}, 0.5)
    done = release(unknown)
    assert done.exit_code == 0, done.output
    assert "There is no forecast, so it is not known whether any owner gains" in done.output + done.stderr
    assert invoke("train", needless, "--seed", 1, "--json").exit_code == 0


def test_without_a_public_sample_declared_ranges_are_enough_to_ask(folder):
    terms = written(folder, "ranges.toml", RANGES, {"a": LARGE, "b": LARGE}, 0.1)
    assert isinstance(release(terms).exception, BelowBaselineError)
    assert not (folder / "books").exists()
    assert forecast(load_terms(terms)).verdict.verdict == "stay"


def test_without_a_public_sample_an_owner_counts_by_the_draws_of_all_invented_laws(folder):
    """One law is a guess: a small owner beside a large one gains by some of them."""
    terms = load_terms(written(folder, "ranges.toml", RANGES, {"a": 30, "b": 10 * LARGE}, 20.0))
    outlook = worth_spending(terms).outlook
    small, large = outlook.chances
    assert large < 0.1 < small < 1
    each = np.array([(law.alone - law.personal > 0.005 * law.alone).mean(axis=1)[0] for law in outlook.laws])
    assert small == pytest.approx(each.mean(), abs=0.15)  # one training counts half
    assert each.std() > 0.05


def test_a_release_tells_what_its_check_said_also_without_a_public_sample(folder):
    for seed, name in enumerate("abcdef"):
        regression_table(40, seed=seed).to_csv(folder / f"{name}.csv", index=False)
    terms = written(folder, "ranges.toml", RANGES, dict.fromkeys("abcdef", 40), 9.0)
    done = release(terms, "--heterogeneity", 0, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    expected = forecast(load_terms(terms), differences=Heterogeneity.stated(0.0)).outlook.to_json()
    assert said["consortium"] == expected["consortium"]
    assert [owner["verdict"] for owner in said["owners"]] == [owner["verdict"] for owner in expected["owners"]]


def at_a_terminal(answer, *words):
    """(exit code, what was on the screen) of a command typed at a terminal by somebody who answers its question so."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "parley", *map(str, words)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the end of what is shown
            while piece := os.read(ours, 4096):
                shown += piece
                if answer is not None and b"[y/N]" in shown:
                    os.write(ours, answer)
                    answer = None
    os.close(ours)
    return process.returncode, " ".join(shown.decode().split())


@pytest.fixture
def contrary(folder):
    """Two small owners that may gain; rows of one run the other way than the public sample's."""
    for seed, name in enumerate(("a", "like", "b")):
        table = regression_table(60, seed=seed)
        table.assign(y=-table.y if name == "b" else table.y).to_csv(folder / f"{name}.csv", index=False)
    return written(folder, "contrary.toml", 'public = "public.csv"', {"a": 60, "b": 60}, 4.0)


def test_a_release_asks_the_person_at_the_terminal_where_own_rows_contradict_the_public_sample(contrary):
    folder = contrary.parent
    words = ("train", contrary, "--ledgers", folder / "books", "--lifetime", 9)
    code, shown = at_a_terminal(b"n\n", *words)
    assert code == 1
    assert "b (p = " in shown
    assert "a (p = " not in shown
    assert "Nothing was released, and nothing was spent." in shown
    assert not (folder / "books").exists()
    code, shown = at_a_terminal(b"y\n", *words)
    assert code == 0, shown
    assert "the model is released" in shown
    stored = b"".join(path.read_bytes() for path in folder.glob("books/*") if path.is_file())
    assert b"contradict" not in stored
    assert b"p_value" not in stored


def test_nobody_is_asked_where_rows_are_like_the_public_sample_or_no_person_is_there(contrary, monkeypatch):
    like = written(contrary.parent, "like.toml", 'public = "public.csv"', {"a": 60, "like": 60}, 4.0)
    code, shown = at_a_terminal(None, "train", like, "--ledgers", contrary.parent / "others", "--lifetime", 9)
    assert code == 0, shown
    assert "[y/N]" not in shown

    def never(*given):
        raise AssertionError("private rows were looked at")

    monkeypatch.setattr(import_module("parley.decisions.outlook.inside_view"), "contradicted", never)
    assert release(contrary, "--other-books", "asked above").exit_code == 0


def test_a_simulation_far_above_its_forecast_says_so(folder):
    public = pd.read_csv(folder / "a.csv").head(200)
    public.assign(y=-public.y).to_csv(folder / "public.csv", index=False)
    one_round = TERMS.replace("horizon = 12", 'horizon = 1\nstart = "public"')
    parts = "".join(OWNER.format(name=each, rows=LARGE, epsilon=4.0) for each in "ab")
    (folder / "far.toml").write_text(one_round.format(model='public = "public.csv"') + parts)
    simulated = ("train", folder / "far.toml", "--seed", 1, "--replicates", 8)
    page = folder / "run.html"
    said = json.loads(invoke(*simulated, "--json", "--report", page).stdout)["said"]
    assert any("far above its forecast of " in line for line in said)
    assert "far above its forecast of " in page.read_text(encoding="utf-8")
    foreseen = forecast(load_terms(folder / "far.toml")).relative_fitness
    shown = " ".join(invoke(*simulated).output.split())
    assert f"({number(foreseen.low)} to {number(foreseen.high)})" in shown
    public.to_csv(folder / "public.csv", index=False)
    assert "far above" not in invoke(*simulated).output
