"""The federated family between organisations: questions of each owner's own travel, and what the learner remembers
survives a kill."""

import os
import signal
import time
from fractions import Fraction

import numpy as np
import pytest
from federated import CORRECTED, FAMILY, different_tables, family_terms

import parley
from parley.errors import ExchangeError, Malformed
from parley.learning.checkpoint import load_checkpoint
from parley.learning.deployed import learn, prepare_run
from parley.network.exchange import messages
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner
from parley.owner.ledger import Ledger
from parley.protocol.queries import CorrectedQuery

HASH = "ab" * 32
UNEQUAL = {"a": {"local_steps": 2}, "b": {"local_steps": 7}}


def test_a_corrected_question_travels_to_the_bit():
    start, correction = np.array([0.1, -5.0, 5e-324]), np.array([1e50, -0.0, 2.0**-1074])
    query = CorrectedQuery.ask(HASH, "learner", 4, start, correction, 7)
    got = messages.read_query(messages.write_query(query))
    assert isinstance(got, CorrectedQuery)
    assert (got.id, got.round, got.steps, got.content) == (query.id, 4, 7, query.content)
    np.testing.assert_array_equal(got.start, start)
    np.testing.assert_array_equal(got.correction, correction)
    others = [
        CorrectedQuery.ask(HASH, "learner", 4, start, np.nextafter(correction, 1), 7),
        CorrectedQuery.ask(HASH, "learner", 4, correction, start, 7),
        CorrectedQuery.ask(HASH, "learner", 4, start, correction, 0),
    ]
    assert len({query.content, *(each.content for each in others)}) == 4
    message = messages.wire.Query.FromString(messages.write_query(query))
    del message.arrays["correction"]
    with pytest.raises(
        Malformed, match="expected start as numbers and correction as numbers and steps as a whole number"
    ):
        messages.read_query(message.SerializeToString())


class Cut(Federation):
    """Loses the line before this round."""

    last: int

    def ask(self, questions):
        if next(iter(questions.values())).round == self.last:
            raise ExchangeError("the line broke")
        return super().ask(questions)


@pytest.mark.parametrize("turns", [{}, {"learning__participation": 0.6}], ids=["everybody", "some"])
@pytest.mark.parametrize("name", FAMILY)
def test_a_run_goes_on_after_a_break_between_any_two_rounds(tmp_path, name, turns):
    """Every word of every owner is held against the terms; the model is that of the stored answers."""
    terms = family_terms(name, own=UNEQUAL, learning__horizon=8, **turns)
    owners = [
        parley.Owner(n, table, ledger=Ledger(tmp_path / n, lifetime=1.0, lifetime_delta=1e-6))
        for n, table in different_tables().items()
    ]
    for owner in owners:
        owner.accept(terms)
    run = prepare_run(terms, tmp_path / "kept")

    def learned(kind, begin, last=0):
        federation = kind(run.setup, [LocalOwner(o) for o in owners], 20.0, pytest.fail, begin.heads, begin.answers)
        federation.last = last
        federation.fetch_statements()
        try:
            return learn(run, federation, begin)
        finally:
            federation.close()

    for last in (2, 5):
        with pytest.raises(ExchangeError, match="the line broke"):
            learned(Cut, run.begin(resume=True), last)
    result, unheard = learned(Federation, run.begin(resume=True))
    assert unheard == []
    for owner in owners:
        assert owner.ledger.account(terms.hash).spent == 1
        owner.ledger.verify()
    np.testing.assert_array_equal(parley.train(terms, owners).theta, result.theta)
    kept = load_checkpoint(tmp_path / "kept", terms, run.start).state.memory
    assert {key.rpartition(" of ")[2] for key in kept} == ({"a", "b", "c"} if name in CORRECTED else set())


def toml(name):
    lines = [f'algorithm = "{name.split(",")[0]}"', "horizon = 8", "local_steps = 4"]
    lines += [f"{key.split('__')[1]} = {value!r}" for key, value in FAMILY[name].items()]
    model = 'kind = "linear-regression"\ntarget = "y"\nfeatures = ["x0", "x1", "x2"]\nradius = 5.0\n'
    bounds = "[model.bounds]\nx0 = [-1, 1]\nx1 = [-1, 1]\nx2 = [-1, 1]\ny = [-3, 3]\n"
    sizes = {"a": 60, "b": 40, "c": 50}
    owners = "".join(f'[[owners]]\nname = "{n}"\nrecords = {size}\nepsilon = 0.25\n' for n, size in sizes.items())
    slow = owners.replace("records = 40\n", "records = 40\nlocal_steps = 2\n")
    return "[model]\n" + model + bounds + "[learning]\n" + "\n".join(lines) + "\n[privacy]\nclip = 4.0\n" + slow


def test_daemons_and_learners_that_are_killed_go_on(banks):
    """Over gRPC with mutual TLS, in processes of their own: the learner is killed on the way in each run, a daemon in
    some."""
    banks.start()
    for place, name in enumerate(("scaffold", "fedlin", "fedsplit")):
        file = f"{place}.toml"
        (banks.folder / file).write_text(toml(name))
        terms = parley.load_terms(banks.folder / file)
        banks.accept(terms)
        learner, kept = banks.learner("--resume", file=file), banks.folder / f"{place}.checkpoint"
        until = time.monotonic() + 60
        while not kept.exists() and learner.exitcode is None and time.monotonic() < until:
            time.sleep(0.005)
        if learner.exitcode is None:
            os.kill(learner.pid, signal.SIGKILL)
            learner.join()
        if place % 3 == 0:
            banks.kill("b")
            banks.start("b")
        told = banks.learn("--resume", file=file)
        assert banks.spent(terms) == dict.fromkeys("abc", Fraction(1, 4))
        assert [owner["answers"] for owner in told["owners"]] == [8, 8, 8]
        assert banks.replay(terms) == told["theta"]
