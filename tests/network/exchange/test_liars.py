"""Owners that lie, and ledgers that were put back: over real lines, with real certificates and real ledger files."""

import os
import signal
import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest
from consortium import Consortium, toml_terms
from forked import parley_process
from rewriting_host import Host

import parley
from parley.durable import state_folder
from parley.errors import ContradictionError, ExchangeError
from parley.learning.checkpoint import load_checkpoint
from parley.learning.deployed import learn, prepare_run
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner, RemoteOwner
from parley.network.identity.settings import load_owner
from parley.network.serving.daemon import open_owner
from parley.owner.ledger.chain import Memory, hash_at, head
from parley.protocol.queries import GradientQuery
from parley.protocol.setup import resolve

RULES = {"wait": "", "skip": 'quorum = 1\nstraggler = "skip"'}
HUGE = "the answer to round {} is larger than the agreed bound plus noise can explain"


@pytest.fixture
def banks(tmp_path):
    consortium = Consortium(tmp_path, names="ab")
    yield consortium
    consortium.close()


def values(reply, numbers):
    if reply.WhichOneof("outcome") == "answer":
        reply.answer.value.data = np.asarray(numbers, dtype="<f8").tobytes()


def account(reply, **changes):
    """Change what an answer says of the account."""
    if reply.WhichOneof("outcome") == "answer":
        for key, value in changes.items():
            setattr(reply.answer.statement, key, value)


def shrunk(reply):
    """From the second round on a ledger that is shorter than it was."""
    if reply.WhichOneof("outcome") == "answer" and reply.answer.statement.answered > 1:
        reply.answer.statement.entries = 2


LIES = {
    "huge": (lambda reply: values(reply, [1e300, -1e300, 1e300]), HUGE.format(1)),
    # Xi = 4, scale 16/15: noise reaches 31 at most
    "large": (lambda reply: values(reply, [0.0, 160.0, 0.0]), HUGE.format(1)),
    "not a number": (lambda reply: values(reply, [0.0, np.nan, 0.0]), "expected 3 finite numbers"),
    "nothing spent": (lambda reply: account(reply, spent="0"), "reports epsilon 0 spent by round 1"),
    "too much spent": (lambda reply: account(reply, spent="1"), "reports epsilon 1 spent by round 1"),
    "never answered": (
        lambda reply: account(reply, answered=0),
        "reports round 0 as its last answered round, but the learner last asked this owner in round 1",
    ),
    "all answered": (
        lambda reply: account(reply, answered=8, spent="1"),
        "reports round 8 as its last answered round, but the learner last asked this owner in round 1",
    ),
    "another budget": (lambda reply: account(reply, epsilon="2"), "the owner reports epsilon 2 and 8 rounds"),
    "no ledger": (lambda reply: account(reply, entries=0, head=""), "no longer reports"),
    "shorter ledger": (shrunk, "the owner's ledger was rolled back"),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lie", LIES)
def test_an_owner_that_lies_is_named_and_ends_the_run(banks, lie, rule):
    terms = banks.write_terms(extra=RULES[rule])
    banks.accept(terms)
    rewrite, sentence = LIES[lie]
    hosts = [Host(banks, "a", rewrite), Host(banks, "b")]
    plan, rounds = prepare_run(terms, banks.folder / "kept"), []
    peers = [RemoteOwner(name, f"127.0.0.1:{banks.ports[name]}", banks.identity()) for name in "ab"]
    federation = Federation(plan.setup, peers, 20.0, lambda sentence: None)
    federation.fetch_statements()
    try:
        with pytest.raises(ContradictionError, match=f"round . ?: a: .*{sentence}"):
            learn(plan, federation, plan.begin(resume=False), progress=rounds.append)
    finally:
        federation.close()
        for host in hosts:
            host.close()
    assert len(rounds) == (1 if rewrite is shrunk else 0)  # refused in the first round in which it lies
    assert plan.checkpoint.exists() is (rewrite is shrunk)


def test_a_liar_that_the_terms_reckon_with_does_not_end_the_run_and_is_named(tmp_path):
    """Numbers out of all proportion, in every round and in the score; also to a learner that was killed and resumes."""
    banks, file = Consortium(tmp_path, names="abc"), tmp_path / "terms.toml"
    text = toml_terms(horizon=3, extra='[aggregation]\nrule = "median"\nbyzantine = 1')
    text = text.replace("clip = 4.0", "clip = 4.0\nscore_epsilon = 0.2")
    file.write_text(text.replace("radius = 5.0", "radius = 5.0\nholdout = 0.2\nbounds = { y = [-5, 5] }"))
    banks.accept(parley.load_terms(file))

    def large(reply):
        if reply.WhichOneof("outcome") == "answer":
            values(reply, np.resize([1e300, -1e300], len(reply.answer.value.data) // 8))

    hosts = [Host(banks, "a"), Host(banks, "b", large), Host(banks, "c")]
    result = banks.learn("--save", str(tmp_path / "model.json"))
    said = " ".join(banks.said().split())
    again = banks.learn("--resume")
    for host in hosts:
        host.close()
    banks.close()
    assert said.count("b: one of its answers is larger than the agreed bound plus noise can explain") == 1
    assert {notice["owner"] for notice in result["notices"]} == {"b"}
    assert (tmp_path / "model.json").exists()
    assert (again["theta"], again["notices"]) == (result["theta"], result["notices"])
    assert np.abs(result["theta"]).max() <= 5
    pooled = result["scores"]["pooled"]["figures"]
    assert all(figure is None or abs(figure["value"]) < 1e6 for figure in pooled.values())


def test_the_command_ends_without_a_model_and_names_the_liar(banks):
    terms = banks.write_terms()
    banks.accept(terms)
    hosts = [Host(banks, "a"), Host(banks, "b", LIES["huge"][0])]
    model = banks.folder / "model.json"
    said = banks.fail("--save", str(model))
    for host in hosts:
        host.close()
    assert "round 1: b: the answer to round 1 is larger than" in " ".join(said.split())
    assert not model.exists()
    assert not (banks.folder / "terms.checkpoint").exists()


def test_a_report_claims_no_more_than_the_learner_saw(banks):
    terms = banks.write_terms(horizon=2)
    banks.accept(terms)
    banks.start()
    out = banks.folder / "report.txt"
    addresses = str(banks.folder / "addresses.toml")
    process = parley_process(
        ["learner", "run", str(banks.folder / "terms.toml"), "--owners", addresses], out, banks.folder / "log"
    )
    process.join(60)
    report = " ".join(out.read_text().split())
    assert process.exitcode == 0, report
    assert "each owner states that every answer was debited" in report
    assert "What the terms promise, and each owner's own software keeps" in report
    assert "Guarantee:" not in report
    told = banks.learn("--resume")
    assert (told["by_word"], told["safe_noise"], told["released"]) == (True, None, True)


def copy_ledger(source, target):
    """SQLite's own backup: a sound file, whatever is written meanwhile."""
    with sqlite3.connect(source) as old, sqlite3.connect(target) as new:
        old.backup(new)
    old.close()
    new.close()


def put_back(banks, name, copy):
    """With all that its account remembers of it: its owner cannot know."""
    for file in banks.folder.glob(f"{name}.ledger*"):
        file.unlink()
    ledger = banks.folder / f"{name}.ledger"
    os.replace(copy, ledger)  # noqa: PTH105
    with closing(sqlite3.connect(ledger)) as db:
        identity, end = hash_at(db, 1), head(db)
    Memory(state_folder("ledgers"), identity, ledger, "ledger").replace(end)


def wait_for_checkpoint(banks, after=3):
    """Until a run stands behind this many rounds."""
    path = banks.folder / "terms.checkpoint"
    start = prepare_run(banks.terms, path).start
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if path.exists() and load_checkpoint(path, banks.terms, start).state.round > after:
            return
        time.sleep(0.01)
    raise AssertionError(banks.said())


@pytest.fixture
def running(banks, request):
    """A long run under way, and a copy of a's ledger from before it."""
    banks.terms = banks.write_terms(horizon=20_000, extra=RULES[request.param])
    banks.accept(banks.terms)
    banks.start()
    copy_ledger(banks.folder / "a.ledger", banks.folder / "a.old")
    banks.process = banks.learner("--deadline", "20")
    wait_for_checkpoint(banks)
    yield banks
    if banks.process.exitcode is None:
        os.kill(banks.process.pid, signal.SIGKILL)


@pytest.mark.parametrize("running", RULES, indirect=True)
def test_a_ledger_put_back_under_a_run_ends_it(running):
    running.kill("a")
    put_back(running, "a", running.folder / "a.old")
    running.start("a")
    running.process.join(60)
    assert running.process.exitcode == 2, running.said()
    said = " ".join(running.said().split())
    assert "a: the owner's ledger was rolled back. The ledger had" in said
    assert "parley owner restore, which counts them as spent (--assume-spent). These terms have ended" in said
    ledger = running.ledger("a")  # at most the one answer with which it showed itself
    assert ledger.account(running.terms.hash).answers <= 1


@pytest.mark.parametrize("running", RULES, indirect=True)
def test_a_ledger_put_back_between_two_runs_ends_the_second(running):
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.join(30)
    running.kill("a")
    put_back(running, "a", running.folder / "a.old")
    running.start("a")
    said = " ".join(running.fail("--resume").split())
    assert "before the first round: a: the owner's ledger was rolled back. The ledger had" in said
    assert running.ledger("a").account(running.terms.hash).answers == 0


class Machine:
    """Owners with real ledgers in this process, whose files can be put back; a peer opens what lies there at the
    time."""

    def __init__(self, banks, terms):
        self._banks, self._terms, self._owners = banks, terms, []
        self.setup = resolve(terms)

    def federation(self, heads=None, answers=None, deadline=20.0):
        self.peers = {name: Away(self.open(name)) for name in "ab"}
        return Federation(self.setup, list(self.peers.values()), deadline, lambda sentence: None, heads, answers)

    def open(self, name):
        owner = open_owner(load_owner(self._banks.folder / f"{name}.toml"))
        owner.accept(self._terms)
        return LocalOwner(owner)

    def ask(self, k, shift=0.0):
        return GradientQuery.ask(self._terms.hash, "learner", k, np.full(3, shift))

    def round(self, k):
        """The same question for both."""
        return dict.fromkeys("ab", self.ask(k))


class Away:
    """A peer that can be out of reach, and come back with another ledger."""

    def __init__(self, peer):
        self.peer, self.name, self.reachable = peer, peer.name, True

    def ask(self, *question):
        if not self.reachable:
            raise parley.errors.Unavailable(f"{self.name}: away")
        return self.peer.ask(*question)

    def statement(self, *question):
        return self.peer.statement(*question)

    def numbers(self, *question):
        return self.peer.numbers(*question)

    def close(self):
        self.peer._owner.ledger.close()


@pytest.fixture
def machine(banks, request):
    terms = banks.write_terms(extra=RULES[getattr(request, "param", "skip")])
    banks.accept(terms)
    return Machine(banks, terms)


def grow(machine, banks, rounds):
    """Put a's old ledger back and let it answer other questions, unheard, until it is longer than it was."""
    machine.peers["a"].close()
    put_back(banks, "a", banks.folder / "a.old")
    machine.peers["a"].peer = machine.open("a")
    for k in rounds:
        machine.peers["a"].peer.ask(machine.ask(k, 1.0), 60, 3, 5.0)


def test_a_ledger_that_outgrew_what_it_had_is_told_by_its_hash_when_a_run_is_resumed(machine, banks):
    copy_ledger(banks.folder / "a.ledger", banks.folder / "a.old")
    first = machine.federation()
    first.fetch_statements()
    for k in (1, 2):
        first.ask(machine.round(k))
    heads = dict(first.heads)
    assert heads["a"].entries == 4  # opened, accepted, two answers
    grow(machine, banks, (1, 2, 3, 4))
    first.close()
    second = machine.federation(heads, {"a": 2, "b": 2})
    with pytest.raises(
        ContradictionError, match=r"a: the owner's ledger was rolled back. The ledger had 4 rows, .*in this row"
    ):
        second.fetch_statements()
    second.close()
    blind = machine.federation()  # who lost its checkpoint knows nothing that could differ
    blind.fetch_statements()
    blind.close()


def test_a_ledger_that_outgrew_what_it_had_while_its_owner_was_away_is_told_in_the_run(machine, banks):
    """Both length and cost are what they may be: the hash at the old length alone tells."""
    copy_ledger(banks.folder / "a.ledger", banks.folder / "a.old")
    run = machine.federation(deadline=0.3)
    run.fetch_statements()
    for k in (1, 2):
        assert len(run.ask(machine.round(k))) == 2
    machine.peers["a"].reachable = False
    for k in (3, 4):
        assert [answer.owner for answer in run.ask(machine.round(k))] == ["b"]
    grow(machine, banks, (3, 4))
    machine.peers["a"].reachable = True
    with pytest.raises(ContradictionError, match="round 5: a: the owner's ledger was rolled back"):
        run.ask(machine.round(5))
    run.close()


def test_a_late_owner_that_is_heard_once_more_must_still_have_its_books(machine, banks):
    copy_ledger(banks.folder / "a.ledger", banks.folder / "a.old")
    run = machine.federation(deadline=0.3)
    run.fetch_statements()
    run.ask(machine.round(1))
    machine.peers["a"].reachable = False
    run.ask(machine.round(2))
    assert run.catch_up() == ["a"]
    grow(machine, banks, ())
    with pytest.raises(ContradictionError, match="a: the owner's ledger was rolled back"):
        run.catch_up()
    run.close()


def test_an_owner_that_was_away_with_its_ledger_intact_is_believed(machine, banks):
    run = machine.federation(deadline=0.3)
    run.fetch_statements()
    for k in range(1, 6):
        machine.peers["a"].reachable = k not in (2, 3)
        assert len(run.ask(machine.round(k))) == (2 if machine.peers["a"].reachable else 1)
    assert run.heads["a"].entries == 5
    again = machine.federation(run.heads, {"a": 2, "b": 4})  # as a checkpoint before round 5 says
    again.fetch_statements()
    assert len(again.ask(machine.round(5))) == 2  # asked before: the stored answer, and the ledger is as long as it was
    for each in (run, again):
        each.close()


@pytest.mark.parametrize("machine", ["wait"], indirect=True)
def test_a_ledger_from_before_the_acceptance_is_a_rolled_back_one_too(machine, banks):
    run = machine.federation()
    run.fetch_statements()
    run.ask(machine.round(1))
    heads = dict(run.heads)
    run.close()
    for file in banks.folder.glob("a.ledger*"):
        file.unlink()
    owner = parley.Owner("a", banks.folder / "a.csv", ledger=parley.Ledger(banks.folder / "a.ledger", lifetime=2.0))
    peers = [LocalOwner(owner), machine.open("b")]
    late = Federation(machine.setup, peers, 5.0, lambda sentence: None, heads)
    with pytest.raises(ExchangeError, match=r"a: the owner's ledger was rolled back. .* does not contain these terms"):
        late.fetch_statements()
    late.close()
    for peer in peers:
        peer._owner.ledger.close()
