"""Threads, processes, forks and kills: nothing is lost, doubled or overspent."""

import multiprocessing
import os
import random
import signal
import sqlite3
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from bookkeeping import COST, costing, never, query, reserve, value
from samples import make_terms, regression_table

import parley
from parley.errors import LedgerError, OutOfOrder, Refusal
from parley.owner.ledger import Ledger

FORK = multiprocessing.get_context("fork")


def _answer_in_child(path, theta):
    ledger = Ledger(path)
    ledger.answer(query(1, theta=theta), costing(COST), {}, value(theta))
    os._exit(0)


@pytest.mark.parametrize("reopen", [True, False])
def test_an_open_ledger_survives_a_fork(tmp_path, reopen):
    """SQLite forgets locks in a forked process; the parent closing its connection once cost the child's debit."""
    path = tmp_path / "a.ledger"
    ledger = Ledger(path, lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 10))
    if reopen:
        child = FORK.Process(target=_answer_in_child, args=(path, 3.0))
        child.start()
    else:
        child = FORK.Process(target=lambda: ledger.answer(query(1, theta=3.0), costing(COST), {}, value(3.0)))
        child.start()
    ledger.account("t")
    ledger.close()
    child.join()
    assert child.exitcode == 0
    again = Ledger(path)
    assert again.account("t").answered == 1
    with pytest.raises(OutOfOrder):
        again.answer(query(1, theta=4.0), costing(COST), {}, never)


def test_threads_share_one_ledger_without_overspending(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 10))
    got, lock = [], threading.Lock()

    def ask(identity):
        for k in range(1, 11):
            try:
                ledger.answer(query(k, theta=identity), costing(COST * k), {}, value(identity))
                with lock:
                    got.append(k)
            except Refusal:
                pass

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(got) == len(set(got))
    assert ledger.account("t").spent == COST * len(got)
    ledger.verify()


def test_a_long_release_keeps_nobody_waiting_and_counts_only_when_committed(tmp_path):
    """While an answer is computed others read, accept and answer, also from another process; who commits first has
    answered."""
    ledger, other = Ledger(tmp_path / "a.ledger", lifetime=3.0), Ledger(tmp_path / "a.ledger")
    for terms in ("t", "u"):
        ledger.accept(reserve(terms, Fraction(1), 10))
    began, go, outcome = threading.Event(), threading.Event(), []

    def slow():
        began.set()
        assert go.wait(30)
        return never  # no noise is drawn for an answer that is not stored

    def ask(question):
        try:
            outcome.append(ledger.answer(question, costing(COST), {}, slow)[0][0])
        except Refusal as refusal:
            outcome.append(type(refusal))

    for round_of, rival in (("t", query(1)), ("u", query(1, terms="u", theta=5.0))):
        began.clear(), go.clear()
        thread = threading.Thread(target=ask, args=(query(1, terms=round_of),))
        thread.start()
        assert began.wait(30)
        assert ledger.account(round_of).spent == 0
        for each, name in ((ledger, "v"), (other, "w")):
            each.accept(reserve(name + round_of, Fraction(1, 8), 1))
            each.answer(query(1, terms=name + round_of), costing(Fraction(1, 8)), {}, value())
        stored, account = other.answer(rival, costing(COST), {}, value(2.0))
        assert (stored[0], account.spent) == (2.0, COST)
        go.set()
        thread.join(30)
    # the same question got the stored answer, another one for the same round a refusal
    assert outcome == [2.0, OutOfOrder]
    assert ledger.account("t").spent == ledger.account("u").spent == COST
    assert ledger.verify() == other.verify()


def _greedy(path, identity, start):
    ledger = Ledger(path)
    start.wait()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        account = ledger.account("t")
        if account.answered == account.rounds:
            break
        try:
            ledger.answer(
                query(account.answered + 1, theta=identity), costing(COST * (account.answered + 1)), {}, value(identity)
            )
        except Refusal:
            continue
    for k in (11, 12):
        try:
            ledger.answer(query(k, theta=identity), costing(COST * k), {}, value(identity))
        except Refusal:
            continue
        os._exit(3)
    ledger.close()


def test_eight_processes_at_once_never_overspend(tmp_path):
    path = tmp_path / "a.ledger"
    ledger = Ledger(path, lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 10))
    ledger.close()
    start = FORK.Event()
    crowd = [FORK.Process(target=_greedy, args=(path, i, start)) for i in range(8)]
    [p.start() for p in crowd]
    start.set()
    [p.join() for p in crowd]
    assert [p.exitcode for p in crowd] == [0] * 8
    ledger = Ledger(path)
    assert ledger.account("t").spent == 1
    assert ledger.account("t").answered == 10
    assert ledger.verify() == 12


def _release(folder, tables, terms):
    """A whole training run with durable ledgers; killed at any moment, it may be started again."""
    owners = [parley.Owner(name, table, ledger=Ledger(folder / name, lifetime=1.0)) for name, table in tables.items()]
    for owner in owners:
        owner.accept(terms, other_books="one of many runs")
    result = parley.train(terms, owners)
    np.save(folder / "theta.npy", result.theta)


def _answers(path):
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT query, content, answer, epsilon FROM entries WHERE kind='answer'").fetchall()
    return {row[0]: row[1:] for row in rows}


def test_kill_at_random_moments_loses_and_doubles_nothing(tmp_path):
    """PARLEY_KILLS sets how often (default 20): no answer without its debit, never two answers to one query, no debit
    lost."""
    kills = int(os.environ.get("PARLEY_KILLS", "20"))
    terms = make_terms(60, 40, epsilon=1.0, learning__horizon=25)
    tables = {"a": regression_table(60, seed=1), "b": regression_table(40, seed=2)}
    rng = random.Random(4)
    killed, runs, longest = 0, 0, 0.08
    while killed < kills:
        folder = tmp_path / f"run{runs}"
        folder.mkdir()
        runs += 1
        seen = {"a": {}, "b": {}}
        while True:
            began = time.monotonic()
            child = FORK.Process(target=_release, args=(folder, tables, terms))
            child.start()
            child.join(rng.uniform(0, longest) if killed < kills else None)
            if child.exitcode is None:
                os.kill(child.pid, signal.SIGKILL)
                killed += 1
            child.join()
            for name in ("a", "b"):
                if not (folder / name).exists():
                    continue
                try:
                    ledger = Ledger(folder / name)
                except LedgerError as error:  # killed before the file became a ledger: nothing was promised yet
                    if "contains no ledger" not in str(error) or seen[name]:
                        raise
                    continue
                ledger.verify()
                now = _answers(folder / name)
                assert seen[name].items() <= now.items()  # nothing lost, nothing changed
                seen[name] = now
                if any(entry["kind"] == "accept" for entry in ledger.entries()):
                    assert ledger.account(terms.hash).spent == sum(Fraction(row[2]) for row in now.values())
                ledger.close()
            if child.exitcode == 0:
                longest = max(longest, 1.1 * (time.monotonic() - began))
                break
            assert child.exitcode == -signal.SIGKILL
        for name in ("a", "b"):
            assert Ledger(folder / name).account(terms.hash).spent == 1
        first = np.load(folder / "theta.npy")
        _release(folder, tables, terms)  # a finished run asked again costs nothing and gives the same model
        np.testing.assert_array_equal(np.load(folder / "theta.npy"), first)
        assert Ledger(folder / "a").account(terms.hash).spent == 1
