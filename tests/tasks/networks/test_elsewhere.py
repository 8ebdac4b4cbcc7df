"""A network learned with correlated noise by owners behind daemons: killed and resumed, budgets exact."""

import json
import os
import signal
import time
from fractions import Fraction

import numpy as np
import pytest
from consortium import SIZES, Consortium
from rings import rings, rings_terms

pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

import parley
from parley.terms import write_terms

LEARNING = {"algorithm": "correlated-sgd", "batches": 5, "epochs": 12, "step": 0.5}
ROUNDS = 60


@pytest.fixture
def banks(tmp_path):
    made = Consortium(tmp_path, names="ab", lifetime=3.0, lifetime_delta=1e-5)
    write_terms(rings_terms({name: SIZES[name] for name in "ab"}, 3.0, learning=LEARNING), tmp_path / "terms.toml")
    for place, name in enumerate("ab"):
        rings(SIZES[name], place).to_csv(tmp_path / f"{name}.csv", index=False)
    made.accept(parley.load_terms(tmp_path / "terms.toml"))
    yield made
    made.close()


def rounds_kept(path):
    return json.loads(path.read_text())["round"] - 1 if path.exists() else 0


def killed_in_the_middle(banks, kept):
    """A learner that was killed after it had the answers of some rounds, and not of all."""
    learner, until = banks.learner("--resume"), time.monotonic() + 100
    while rounds_kept(kept) < 7 and learner.exitcode is None and time.monotonic() < until:
        time.sleep(0.002)
    assert learner.exitcode is None, banks.said()
    os.kill(learner.pid, signal.SIGKILL)
    learner.join()
    assert 7 <= rounds_kept(kept) < ROUNDS


def test_killed_in_the_middle_it_goes_on_and_each_ledger_is_exact(banks):
    """kill -9 of the learner amid its rounds, and of an owner: neither has anything to remember but answers."""
    terms, kept = parley.load_terms(banks.folder / "terms.toml"), banks.folder / "terms.checkpoint"
    banks.start()
    killed_in_the_middle(banks, kept)
    assert banks.spent(terms) == dict.fromkeys("ab", Fraction(3))  # all of it, since the first answer
    before = {name: banks.answers(name) for name in "ab"}
    banks.kill("b")
    banks.start("b")
    told = banks.learn("--resume")
    assert [owner["epsilon_spent"] for owner in told["owners"]] == [3.0, 3.0]
    assert banks.spent(terms) == dict.fromkeys("ab", Fraction(3))
    for name in "ab":
        answers = banks.answers(name)
        assert len(answers) == ROUNDS  # each was drawn once
        assert before[name].items() <= answers.items()
    assert told["released"]
    assert np.array_equal(told["theta"], banks.replay(terms))
