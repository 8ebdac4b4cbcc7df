"""Answers used as they come, between processes: a slow owner and a fast one over mutual TLS, and whatever goes wrong.
Ledgers are exact.

No test measures time: a slow owner's reply is held back until the fast one's ledger holds as many answers as the test
wants.
"""

import contextlib
import json
import os
import random
import signal
import time
from fractions import Fraction

import numpy as np
import pytest
from consortium import SIZES, Consortium, toml_terms
from rewriting_host import Host
from samples import make_terms, regression_table

import parley
from parley.errors import ContradictionError
from parley.learning.deployed import learn, prepare_run
from parley.network.exchange.federation import AsynchronousFederation
from parley.network.exchange.remote import LocalOwner, RemoteOwner
from parley.network.identity.settings import load_owner
from parley.network.serving.opening import ledger_statement
from parley.owner.ledger import Ledger

PATIENCE = 30.0  # seconds after which a test is given up


@pytest.fixture
def pair(tmp_path):
    consortium = Consortium(tmp_path, names="ab")
    yield consortium
    consortium.close()


def agree(banks, answers, horizon, staleness=1000, extra="", epsilon=1.0):
    """Asynchronous terms, written and accepted."""
    keys = f'algorithm = "gradient-descent"\ndecay = 0.0\nstaleness = {staleness}\n{extra}'
    text = toml_terms(horizon=horizon, extra=keys, epsilon=epsilon, names=banks.names)
    for name, count in answers.items():
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\nanswers = {count}\n')
    (banks.folder / "terms.toml").write_text(text)
    terms = parley.load_terms(banks.folder / "terms.toml")
    banks.accept(terms)
    return terms


def hold_until(banks, terms, name, answers):
    """Wait until an owner's ledger holds so many answers; that it never does is the caller's to notice."""
    until, ledger = time.monotonic() + PATIENCE, banks.ledger(name)
    while ledger.account(terms.hash).answers < answers and time.monotonic() < until:
        time.sleep(0.01)
    ledger.close()


def hold_until_kept(checkpoint, answers):
    """Wait until the learner's checkpoint counts these answers."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and not (
        checkpoint.exists() and json.loads(checkpoint.read_text())["answers"] == answers
    ):
        time.sleep(0.01)


def books(banks, terms):
    """By name: (answers given, spent)."""
    found = {}
    for name in banks.names:
        ledger = banks.ledger(name)
        ledger.verify()
        account = ledger.account(terms.hash)
        found[name] = (account.answers, account.spent)
        ledger.close()
    return found


def told(result):
    """By name: (answers used, answers too late, epsilon spent by its own word)."""
    return {owner["name"]: (owner["answers"], owner["late"], owner["epsilon_spent"]) for owner in result["owners"]}


def learned(banks, terms, rewrite, resume=False):
    """The result of a learner in this process, whose owner b has its replies rewritten: over real lines, with real
    certificates."""
    hosts = [Host(banks, "a"), Host(banks, "b", rewrite)]
    run = prepare_run(terms, banks.folder / "kept")
    peers = [RemoteOwner(name, f"127.0.0.1:{banks.ports[name]}", banks.identity()) for name in "ab"]
    begin = run.begin(resume)
    federation = AsynchronousFederation(run.setup, peers, 20.0, lambda sentence: None, begin.heads, begin.answers)
    try:
        federation.fetch_statements()
        return learn(run, federation, begin)[0].to_json()
    finally:
        federation.close()
        for host in hosts:
            host.close()


def test_a_fast_owner_is_not_held_up_by_a_slow_one(pair):
    """The slow one's first reply leaves when the fast one has given all its answers but one: by a rule that waits,
    never."""
    terms = agree(pair, {"b": 2}, horizon=20)
    given = []

    def slowly(reply):
        if reply.WhichOneof("outcome") == "answer":
            hold_until(pair, terms, "a", 19)
            given.append(books(pair, terms)["a"][0])

    pair.start("a")
    slow = Host(pair, "b", slowly)
    try:
        result = pair.learn()
    finally:
        slow.close()
    assert given[0] >= 19
    assert books(pair, terms) == {"a": (20, 1), "b": (2, 1)}
    assert told(result) == {"a": (20, 0, 1.0), "b": (2, 0, 1.0)}


def test_a_late_answer_is_dropped_and_debited(pair):
    terms = agree(pair, {"b": 2}, horizon=20, staleness=5)
    held = []

    def slowly(reply):
        if reply.WhichOneof("outcome") == "answer" and not held:
            held.append(hold_until(pair, terms, "a", 20))

    result = learned(pair, terms, slowly)
    assert held
    assert books(pair, terms) == {"a": (20, 1), "b": (2, 1)}
    assert told(result) == {"a": (20, 0, 1.0), "b": (1, 1, 1.0)}  # its second question was asked at the newest version


def test_an_answer_that_is_delivered_again_is_debited_once_and_used_once(pair):
    """Every reply of b is lost the first time, after it was debited."""
    terms = agree(pair, {"b": 3}, horizon=6)
    lost = set()

    def losing(reply):
        if reply.WhichOneof("outcome") == "answer" and reply.answer.query not in lost:
            lost.add(reply.answer.query)
            raise ConnectionResetError

    result = learned(pair, terms, losing)
    assert len(lost) == 3
    assert books(pair, terms) == {"a": (6, 1), "b": (3, 1)}
    assert told(result) == {"a": (6, 0, 1.0), "b": (3, 0, 1.0)}


def test_an_owner_that_dies_is_left_out_waited_for_or_ends_the_run_as_the_terms_say(pair):
    terms = agree(pair, {}, horizon=4, extra='quorum = 1\nstraggler = "skip"', epsilon=0.5)
    pair.start("a")
    result = pair.learn("--deadline", "3")
    assert "going on without late owners: b" in pair.said()
    assert books(pair, terms) == {"a": (4, Fraction(1, 2)), "b": (0, 0)}
    assert told(result)["a"] == (4, 0, 0.5)
    assert result["unheard"] == ["b"]
    stops = agree(pair, {"b": 2}, horizon=5, extra='straggler = "stop"', epsilon=0.5)
    died = []

    def dying(reply):
        if reply.WhichOneof("outcome") == "answer" and not died:
            died.append(reply.answer.query)
        elif died:
            raise ConnectionResetError

    broken = Host(pair, "b", dying)
    said = pair.fail("--deadline", "3", "--checkpoint", str(pair.folder / "stops"))
    broken.close()
    assert "so the run stops (learning.straggler = 'stop'): b:" in said
    assert books(pair, stops) == {"a": (5, Fraction(1, 2)), "b": (2, Fraction(1, 2))}  # it answered, and was not heard
    pair.start("b")
    result = pair.learn("--resume", "--checkpoint", str(pair.folder / "stops"))
    assert books(pair, stops) == {"a": (5, Fraction(1, 2)), "b": (2, Fraction(1, 2))}
    assert told(result) == {"a": (5, 0, 0.5), "b": (2, 0, 0.5)}


def _longer(reply):
    reply.answer.value.data += bytes(8)
    reply.answer.value.shape[0] += 1


def _nan(reply):
    reply.answer.value.data = np.array([np.nan, 0.0, 0.0]).tobytes()


def _huge(reply):
    reply.answer.value.data = np.full(3, 1e9).tobytes()


def _other(reply):
    reply.answer.query = "0" * 32


@pytest.mark.parametrize("spoil", [_longer, _nan, _huge, _other])
def test_a_malformed_answer_ends_the_run_unused_and_an_honest_owner_goes_on(pair, spoil):
    terms = agree(pair, {"b": 2}, horizon=4)

    def spoiling(reply):
        if reply.WhichOneof("outcome") == "answer":
            hold_until_kept(pair.folder / "kept", {"a": 4})
            spoil(reply)

    with pytest.raises(ContradictionError, match="round 1 of b: b: "):
        learned(pair, terms, spoiling)
    kept = json.loads((pair.folder / "kept").read_text())
    assert kept["answers"] == {"a": 4}
    assert books(pair, terms) == {"a": (4, 1), "b": (1, Fraction(1, 2))}
    result = learned(pair, terms, lambda reply: None, resume=True)
    assert told(result) == {"a": (4, 0, 1.0), "b": (2, 0, 1.0)}
    assert books(pair, terms) == {"a": (4, 1), "b": (2, 1)}


def test_kill_any_process_at_any_point_and_restart(banks):
    """Every answer is debited once, none is lost or changed, and all end in the model."""
    rng, kills = random.Random(7), int(os.environ.get("PARLEY_NETWORK_KILLS", "12")) // 2
    answers = {"a": 60, "b": 40, "c": 15}
    terms = agree(banks, answers, horizon=60)
    banks.start()
    learner, killed, seen = banks.learner("--resume"), 0, {name: {} for name in "abc"}
    while learner.exitcode != 0:
        learner.join(rng.uniform(0.05, 0.4))
        if learner.exitcode is None and killed < kills:
            victim = rng.choice(["a", "b", "c", "learner", "learner"])
            killed += 1
            if victim == "learner":
                os.kill(learner.pid, signal.SIGKILL)
                learner.join()
                learner = banks.learner("--resume")
            else:
                banks.kill(victim)
                banks.start(victim)
        assert learner.exitcode in (None, 0, -signal.SIGKILL), banks.said()
        for name in "abc":
            now = banks.answers(name)
            assert seen[name].items() <= now.items()
            seen[name] = now
    assert killed
    assert books(banks, terms) == {name: (count, 1) for name, count in answers.items()}
    assert {name: len(found) for name, found in seen.items()} == answers
    assert told(banks.learn("--resume")) == {name: (count, 0, 1.0) for name, count in answers.items()}


class Cut(AsynchronousFederation):
    """Loses the line when so many answers were taken."""

    left = 10**9

    def receive(self):
        if self.left == 0:
            raise ContradictionError("the line broke")
        self.left -= 1
        return super().receive()


def test_a_run_that_goes_on_after_a_break_asks_the_same_questions(tmp_path):
    """Broken after any number of answers; with one owner the order of arrivals is known, so the models are the same to
    the bit."""
    text = toml_terms(
        horizon=6, extra='algorithm = "gradient-descent"\ndecay = 0.0\nstaleness = 3\naverage = "tail"', names="a"
    )
    terms = parley.Terms.from_toml(text)
    owner = parley.Owner("a", regression_table(SIZES["a"]), ledger=Ledger(tmp_path / "a", lifetime=1.0))
    owner.accept(terms)
    models = []
    for cut in range(7):
        run = prepare_run(terms, tmp_path / f"kept-{cut}")
        for left in (cut, 10**9):
            begin = run.begin(resume=True)
            federation = Cut(run.setup, [LocalOwner(owner)], 5.0, pytest.fail, begin.heads, begin.answers)
            federation.left = left
            federation.fetch_statements()
            with contextlib.suppress(ContradictionError):
                models.append(learn(run, federation, begin)[0].theta)
            federation.close()
    assert len(models) == 8
    assert all(np.array_equal(model, models[0]) for model in models)
    account = owner.ledger.account(terms.hash)
    assert (account.answers, account.spent) == (6, 1)


def test_more_than_the_agreed_answers_are_refused_by_the_owner(pair):
    """Whoever asks: an owner's rounds are its own, and end with its number."""
    from consortium import ask

    terms = agree(pair, {"b": 2}, horizon=4)
    pair.start("b")
    line = RemoteOwner("b", f"127.0.0.1:{pair.ports['b']}", pair.identity())
    for k in (1, 2):
        line.ask(ask(terms, k), SIZES["b"], 3, 5.0)
    with pytest.raises(parley.errors.OutOfOrder, match="the last round for b is 2"):
        line.ask(ask(terms, 3), SIZES["b"], 3, 5.0)
    with pytest.raises(parley.errors.Refusal):
        line.ask(ask(terms, 2, (0.5, 0.0, 0.0)), SIZES["b"], 3, 5.0)
    line.close()
    assert books(pair, terms)["b"] == (2, 1)
    settings = load_owner(pair.folder / "b.toml")
    said = ledger_statement("b", settings.ledger, settings.accepted)["agreements"][0]
    assert (said["answers"], said["agreed_answers"], said["epsilon_spent"]) == (2, 2, 1.0)


def test_a_score_is_asked_of_everybody_after_the_last_answer(tmp_path):
    """Whoever has fewer answers than others: the score is the round after the horizon, and budgets end exactly
    spent."""
    keys = {
        "learning__algorithm": "gradient-descent",
        "learning__decay": 0.0,
        "learning__staleness": 50,
        "learning__horizon": 6,
    }
    scored = {"model__holdout": 0.25, "model__bounds": {"y": [-3, 3]}, "privacy__score_epsilon": 0.5}
    terms = make_terms(80, 80, **keys | scored).changed(owners={"b": {"answers": 2}})
    owners = [
        parley.Owner(name, regression_table(80, seed=k), ledger=Ledger(tmp_path / name, lifetime=1.0))
        for k, name in enumerate("ab")
    ]
    for owner in owners:
        owner.accept(terms)
    run = prepare_run(terms, tmp_path / "kept")
    federation = AsynchronousFederation(run.setup, [LocalOwner(owner) for owner in owners], 20.0, pytest.fail)
    federation.fetch_statements()
    result, unheard = learn(run, federation, run.begin(resume=False))
    federation.close()
    assert unheard == []
    assert [score.name for score in result.scores.owners] == ["a", "b"]
    for owner, answers in zip(owners, (7, 3), strict=True):
        account = owner.ledger.account(terms.hash)
        assert (account.spent, account.answers) == (1, answers)
    assert [(o.answers, o.late) for o in result.owners] == [(6, 0), (2, 0)]
