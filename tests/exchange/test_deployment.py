"""Daemons and a learner as separate processes with mutual TLS on loopback."""

import json
import signal
import subprocess
from fractions import Fraction

import pytest

import parley
from consortium import COMMAND, Consortium


@pytest.fixture
def banks(tmp_path):
    consortium = Consortium(tmp_path)
    yield consortium
    consortium.close()


def test_the_model_is_that_of_a_learner_in_process_that_replays_the_ledgers(banks):
    terms = banks.write_terms()
    banks.accept(terms)
    banks.start()
    result = banks.learn("--save", str(banks.folder / "model.json"))
    assert result["relative_fitness"] is None
    assert result["released"] is True
    assert set(result["latency"]) == {"a", "b", "c"}
    assert [owner["epsilon_spent"] for owner in result["owners"]] == [1.0, 1.0, 1.0]
    assert banks.spent(terms) == {"a": 1, "b": 1, "c": 1}
    assert banks.replay(terms) == result["theta"]
    assert parley.load_model(banks.folder / "model.json").theta_.tolist() == result["theta"]
    assert banks.learn("--resume")["theta"] == result["theta"]  # a finished run costs nothing more
    (banks.folder / "terms.checkpoint").unlink()
    assert banks.learn()["theta"] == result["theta"]  # nor does one from the start: the answers are stored
    assert banks.spent(terms) == {"a": 1, "b": 1, "c": 1}
    assert all(banks.kill(name, signal.SIGTERM) == 0 for name in "abc")
    assert banks.log("a")[-1]["event"] == "stopped"
