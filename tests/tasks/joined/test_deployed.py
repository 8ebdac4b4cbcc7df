"""Joined tables between organisations: owners' daemons share, hosts' daemons match, the learner fits."""

import json
import os
import random
import time
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hosted_consortium import HostedConsortium

import parley
from parley.learning.outcome.model import load_model

PEOPLE = 400
TERMS = """
title = "Joined"
[model]
kind = "linear-regression"
target = "y"
bounds = { x0 = [-2, 2], x1 = [-2, 2], y = [-4, 4] }
[join]
key = "who"
epsilon = 1.0
delta = 1e-6
[learning]
algorithm = "joined-moments"
learner = "learner"
[privacy]
mechanism = "gaussian"
noise = "shared"
delta = 5e-6
[[owners]]
name = "a"
records = 300
epsilon = 4.0
columns = ["x0", "y"]
[[owners]]
name = "b"
records = 350
epsilon = 4.0
columns = ["x1"]
[[hosts]]
name = "h0"
[[hosts]]
name = "h1"
[[hosts]]
name = "h2"
"""


class JoinedConsortium(HostedConsortium):
    """Owners a and b with other columns of the same people."""

    def __init__(self, folder, seed: int = 4) -> None:
        super().__init__(folder, names="ab", lifetime=20.0)
        rng = np.random.default_rng(seed)
        x = rng.uniform(-2, 2, size=(PEOPLE, 2))
        y = x @ [1.0, -0.5] + rng.normal(0, 0.1, PEOPLE)
        people = pd.DataFrame({"who": [f"p{k}" for k in range(PEOPLE)], "x0": x[:, 0], "x1": x[:, 1], "y": y})
        people.sample(300, random_state=1)[["who", "x0", "y"]].to_csv(folder / "a.csv", index=False)
        people.sample(350, random_state=2)[["who", "x1"]].to_csv(folder / "b.csv", index=False)

    def write_terms(self, file: str = "terms.toml", **settings) -> parley.Terms:
        (self.folder / file).write_text(TERMS)
        return parley.load_terms(self.folder / file)


@pytest.fixture
def consortium(tmp_path):
    made = JoinedConsortium(tmp_path)
    yield made
    made.close()


def test_daemons_share_match_and_fit(consortium):
    terms = consortium.write_terms()
    consortium.accept(terms)
    consortium.start_hosts()
    consortium.start()
    told = consortium.learn("--save", str(consortium.folder / "model.json"))
    assert told["released"]
    assert [owner["epsilon_spent"] for owner in told["owners"]] == [4.0, 4.0]
    assert abs(told["people"] - 262) < 8 * told["deviation"]
    assert {number: len(records) for number, records in consortium.opened(terms, 1).items()} == {1: 1}
    model = load_model(consortium.folder / "model.json")
    predicted = model.predict(pd.DataFrame({"x0": [2.0, -2.0], "x1": [-2.0, 2.0]}))
    assert predicted[0] > predicted[1]
    assert json.loads((consortium.folder / "model.json").read_text())


def test_killed_at_random_a_question_is_opened_once_and_every_debit_stands(tmp_path):
    """PARLEY_KILLS sets how many processes are killed (default 2), up to three in each run of its own."""
    rng, left = random.Random(8), int(os.environ.get("PARLEY_KILLS", "2"))
    outcomes = Counter()
    while left > 0:
        folder = tmp_path / str(left)
        folder.mkdir()
        consortium = JoinedConsortium(folder, seed=100 + left)
        try:
            terms = consortium.write_terms()
            consortium.accept(terms)
            consortium.start_hosts()
            consortium.start()
            learner = consortium.learner("--deadline", "30")
            for _ in range(min(left, rng.randint(1, 3))):
                left -= 1
                time.sleep(rng.uniform(0.0, 2.5))
                victim = rng.choice([*consortium.hosts, *consortium.names, "learner"])
                if victim == "learner":
                    consortium.kill_process(learner)
                else:
                    consortium.restart(victim)
                if learner.exitcode is not None:
                    learner = consortium.learner("--resume", "--deadline", "30")
            learner.join(120)
            if learner.exitcode != 0:
                learner = consortium.learner("--resume", "--deadline", "60")
                learner.join(120)
            opened = consortium.opened(terms, 1)
            assert all(len(records) == 1 for records in opened.values())
            for name in consortium.names:
                ledger = consortium.ledger(name)
                account = ledger.account(terms.hash)
                assert account.answers >= len(opened)
                assert account.spent <= 4
                ledger.close()
            if learner.exitcode == 0:
                assert opened
                outcomes["opened"] += 1
            else:
                assert "aborted" in consortium.said() or "opened nothing" in consortium.said(), consortium.said()
                outcomes["aborted"] += 1
        finally:
            consortium.close()
    print(dict(outcomes))  # noqa: T201
    assert sum(outcomes.values()) > 0
