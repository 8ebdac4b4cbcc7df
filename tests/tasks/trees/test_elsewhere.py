"""Trees filled by owners behind daemons: killed and resumed, budgets exact, and with one noise for all."""

import json
import os
import signal
import time
from fractions import Fraction

import numpy as np
import pytest
from consortium import SIZES, Consortium
from grove import grove, grove_terms

import parley
from parley.learning.outcome import load_model
from parley.protocol.setup import resolve
from parley.terms import write_terms


@pytest.fixture
def banks(tmp_path):
    made = Consortium(tmp_path, names="ab", lifetime=3.0, lifetime_delta=1e-5)
    write_terms(grove_terms({name: SIZES[name] for name in "ab"}, 3.0), tmp_path / "terms.toml")
    for place, name in enumerate("ab"):
        grove(SIZES[name], place).to_csv(tmp_path / f"{name}.csv", index=False)
    made.accept(parley.load_terms(tmp_path / "terms.toml"))
    yield made
    made.close()


def replayed(banks, terms):
    """The leaf values of an in-process learner that gets the answers stored in the ledgers."""
    owners = [parley.Owner(n, banks.folder / f"{n}.csv", ledger=banks.ledger(n)) for n in "ab"]
    for owner in owners:
        owner.accept(terms)
    theta = parley.train(terms, owners).theta[0]
    for owner in owners:
        owner.ledger.close()
    return theta


def test_killed_at_every_turn_it_goes_on_and_spends_what_was_agreed(banks):
    """kill -9 of the learner after it began, and of both owners while they are asked."""
    terms = parley.load_terms(banks.folder / "terms.toml")
    banks.start()
    learner, kept = banks.learner("--resume"), banks.folder / "terms.checkpoint"
    until = time.monotonic() + 100
    while not kept.exists() and learner.exitcode is None and time.monotonic() < until:
        time.sleep(0.002)
    if learner.exitcode is None:
        os.kill(learner.pid, signal.SIGKILL)
        learner.join()
    assert kept.exists()
    banks.kill("b")
    learner = banks.learner("--resume", "--save", str(banks.folder / "model.json"))
    time.sleep(0.2)  # it asks, and one of the two is not there
    banks.kill("a")
    banks.start("a", "b")
    learner.join(100)
    assert learner.exitcode == 0, banks.said()
    told = json.loads((banks.folder / "learner.out").read_text())
    assert [owner["epsilon_spent"] for owner in told["owners"]] == [3.0, 3.0]
    assert banks.spent(terms) == dict.fromkeys("ab", Fraction(3))
    model = load_model(banks.folder / "model.json")
    assert model.released_
    assert np.array_equal(model.theta_, replayed(banks, terms))
    assert banks.learn("--resume")["theta"] == told["theta"]  # a finished run asks nobody
    assert banks.spent(terms) == dict.fromkeys("ab", Fraction(3))


def test_parties_compare_what_an_error_counts_and_how_many_leaves_there_are():
    found = resolve(grove_terms({"a": 100}, classes=False)).numbers.arrays
    assert found["limit"].tolist() == [2.0]
    assert found["leaves"].tolist() == [1 + 11 + 11 + 5]
