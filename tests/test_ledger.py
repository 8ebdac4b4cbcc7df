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
from hypothesis import given, settings
from hypothesis import strategies as st

import parley
from bookkeeping import COST, costing, filled, forget, never, query, reserve, value
from parley.errors import (
    BrokenChainError,
    BudgetExhausted,
    ContentMismatch,
    LedgerError,
    OutOfOrder,
    Refusal,
    UnknownTerms,
)
from parley.ledger import Ledger, StudyLedger
from parley.ledger.account import Reservation
from parley.queries import GradientQuery
from samples import make_terms, regression_table

FORK = multiprocessing.get_context("fork")


@pytest.fixture(params=["durable", "study"])
def ledger(request, tmp_path):
    if request.param == "study":
        return StudyLedger()
    return Ledger(tmp_path / "a.ledger", lifetime=3.0)


def test_an_answer_is_debited_and_repeated_for_free(ledger):
    ledger.accept(reserve("t", Fraction(1), 10))
    first, _ = ledger.answer(query(1), costing(COST), {}, value(1.0))
    again, _ = ledger.answer(query(1), costing(COST), {}, never)
    np.testing.assert_array_equal(first, again)
    assert ledger.account("t").spent == COST
    assert ledger.account("t").answered == 1


def test_all_rounds_spend_the_budget_exactly_and_the_next_is_refused(ledger):
    ledger.accept(reserve("t", Fraction(1), 10))
    for k in range(1, 11):
        ledger.answer(query(k), costing(COST * k), {}, value())
    assert ledger.account("t").spent == 1
    with pytest.raises(OutOfOrder, match="round 11 was asked: expected no further round"):
        ledger.answer(query(11), costing(COST * 11), {}, never)
    assert ledger.account("t").spent == 1


@pytest.mark.parametrize(
    ("bad", "cost", "refusal"),
    [
        (query(2), COST, OutOfOrder),
        (query(0), COST, OutOfOrder),
        (query(-1), COST, OutOfOrder),
        (query(1, terms="other"), COST, UnknownTerms),
        (query(1, learner="stranger"), COST, UnknownTerms),
        (query(1), Fraction(1) + Fraction(1, 10**30), BudgetExhausted),
    ],
)
def test_a_refusal_changes_nothing(ledger, bad, cost, refusal):
    ledger.accept(reserve("t", Fraction(1), 10))
    before = ledger.account("t")
    with pytest.raises(refusal):
        ledger.answer(bad, costing(cost), {}, never)
    assert ledger.account("t") == before


def test_a_query_id_names_one_question_for_ever(ledger):
    ledger.accept(reserve("t", Fraction(1), 10))
    asked = query(1, theta=0.0)
    ledger.answer(asked, costing(COST), {}, value())
    forged = GradientQuery(asked.id, "t", "learner", 1, np.ones(3))
    with pytest.raises(ContentMismatch, match="choose a new id"):
        ledger.answer(forged, costing(COST), {}, never)
    with pytest.raises(OutOfOrder):  # another id, but the round is gone
        ledger.answer(query(1, theta=2.0), costing(COST), {}, never)


def test_a_failing_release_leaves_no_debit(ledger):
    ledger.accept(reserve("t", Fraction(1), 10))
    with pytest.raises(AssertionError):
        ledger.answer(query(1), costing(COST), {}, never)
    assert ledger.account("t").spent == 0
    ledger.answer(query(1), costing(COST), {}, value())


def test_terms_reserve_from_one_lifetime_budget(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.0)
    ledger.accept(reserve("t1", Fraction(7, 10), 10))
    ledger.accept(reserve("t1", Fraction(7, 10), 10))  # again: nothing changes
    assert ledger.reserved == (Fraction(7, 10), 0)
    with pytest.raises(BudgetExhausted, match="lifetime budget is 1"):
        ledger.accept(reserve("t2", Fraction(4, 10), 10))
    ledger.accept(reserve("t3", Fraction(3, 10), 10))
    assert ledger.reserved == (1, 0)
    with pytest.raises(LedgerError, match="accepted with another"):
        ledger.accept(reserve("t1", Fraction(7, 10), 11))


def test_delta_is_reserved_and_spent_too(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=2.0, lifetime_delta=1e-5)
    small = Fraction("6e-6")
    ledger.accept(reserve("t1", Fraction(1), 2, delta=small))
    with pytest.raises(BudgetExhausted, match=r"lifetime budget is \(2, 1e-05\)"):
        ledger.accept(reserve("t2", Fraction(1), 2, delta=small))
    ledger.answer(query(1, terms="t1"), costing(Fraction(1, 2)), {}, value())
    ledger.answer(query(2, terms="t1"), costing(Fraction(1)), {}, value())
    assert [entry["delta"] for entry in ledger.entries()][2:] == [str(small), "0"]
    assert ledger.verify() == 4
    ledger.close()
    assert Ledger(tmp_path / "a.ledger", lifetime=2.0).lifetime[1] == Fraction("1e-5")
    for wrong in (float("nan"), "x", 1.0, 2e-5):
        with pytest.raises(LedgerError):
            Ledger(tmp_path / "a.ledger", lifetime=2.0, lifetime_delta=wrong)
    pure = Ledger(tmp_path / "b.ledger", lifetime=2.0)
    with pytest.raises(BudgetExhausted):
        pure.accept(reserve("t1", Fraction(1), 2, delta=small))


def test_a_ledger_belongs_to_one_owner(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=2.0)
    ledger.accept(reserve("t", Fraction(1), 10, owner="a"))
    with pytest.raises(LedgerError, match="it is the ledger of 'a', not of 'b'"):
        ledger.accept(reserve("t", Fraction(1), 10, owner="b"))


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


def test_rows_cut_off_the_end_are_noticed_by_who_remembers_them(tmp_path):
    """The chain alone notices changed and missing rows, not a missing end; the documentation says so."""
    path = filled(tmp_path)
    Ledger(path).close()
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM entries WHERE seq=6")
    with pytest.raises(BrokenChainError, match="rolled back"):
        Ledger(path)
    forget(path)
    assert Ledger(path).account("t").answered == 3


def test_a_file_that_was_killed_in_the_making_can_be_made_again(tmp_path):
    (tmp_path / "a.ledger").touch()
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger(tmp_path / "a.ledger")
    assert Ledger(tmp_path / "a.ledger", lifetime=1.0).lifetime == (1, 0)


def test_the_file_remembers(tmp_path):
    path = tmp_path / "a.ledger"
    ledger = Ledger(path, lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 10))
    first, _ = ledger.answer(query(1), costing(COST), {"mechanism": "laplace"}, lambda: lambda: np.array([0.1, -0.0, 5e-324]))
    ledger.close()
    again = Ledger(path)
    assert again.lifetime == (1, 0)
    np.testing.assert_array_equal(again.answer(query(1), costing(COST), {}, never)[0], first)
    assert np.signbit(again.answer(query(1), costing(COST), {}, never)[0][1])
    assert again.verify() == 3
    assert [entry["kind"] for entry in again.entries()] == ["open", "accept", "answer"]
    with pytest.raises(LedgerError, match="never changes"):
        Ledger(path, lifetime=2.0)


@pytest.mark.parametrize(
    "path", [":memory:", "./:memory:", "", ".", "file:a.ledger", "./file:a.ledger", "file::memory:?cache=shared", "/dev/null"]
)
def test_what_is_no_file_keeps_no_books(tmp_path, monkeypatch, path):
    """SQLite takes these for a database in memory, a passing one, or none at all: gone after a crash, and the budget is whole again."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError, match="a ledger is a file; give its path"):
        Ledger(path, lifetime=1.0)
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_needs_a_lifetime_budget_and_a_strange_file_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="give its lifetime budget"):
        Ledger(tmp_path / "none.ledger")
    assert not (tmp_path / "none.ledger").exists()
    (tmp_path / "junk.ledger").write_bytes(b"not a database at all, sorry" * 100)
    with pytest.raises(LedgerError, match="nothing was released"):
        Ledger(tmp_path / "junk.ledger", lifetime=1.0)


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE entries SET epsilon='1/100' WHERE seq=4",
        "UPDATE entries SET balance='1/100' WHERE seq=6",
        "UPDATE entries SET event='{}' WHERE seq=3",
        "UPDATE entries SET answer=zeroblob(24) WHERE seq=5",
        "UPDATE entries SET learner='me' WHERE seq=2",
        "UPDATE entries SET epsilon='100' WHERE seq=1",
        "UPDATE entries SET epsilon='rubbish' WHERE seq=1",
        "DELETE FROM entries WHERE seq=4",
        "DELETE FROM entries WHERE seq=1",
        "UPDATE entries SET round=9 WHERE seq=6",
    ],
)
def test_a_changed_or_missing_row_breaks_the_chain(tmp_path, tamper):
    path = filled(tmp_path)
    with sqlite3.connect(path) as db:
        db.execute(tamper)
    with pytest.raises(LedgerError):
        Ledger(path)


def test_a_chain_with_recomputed_hashes_still_has_to_add_up(tmp_path):
    """Somebody who recomputes hashes can forge history, but not one in which the debits exceed the budget."""
    from parley.ledger.chain import COLUMNS, START, row_hash

    path = filled(tmp_path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET epsilon='1/20' WHERE kind='accept'")
        previous = START
        for *row, pad in db.execute(f"SELECT {', '.join(COLUMNS)}, pad FROM entries ORDER BY seq").fetchall():
            link = row_hash(previous, tuple(row), pad)
            db.execute("UPDATE entries SET previous=?, hash=? WHERE seq=?", (previous, link, row[0]))
            previous = link
    with pytest.raises(BrokenChainError, match="does not follow"):
        Ledger(path)


def test_a_ledger_that_was_moved_away_or_replaced_is_not_written_to(tmp_path):
    path = tmp_path / "a.ledger"
    ledger = Ledger(path, lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 10))
    path.rename(tmp_path / "moved")
    with pytest.raises(LedgerError, match="moved or replaced"):
        ledger.answer(query(1), costing(COST), {}, value())
    with pytest.raises(LedgerError, match="rolled back or replaced"):
        Ledger(path, lifetime=1.0)  # no fresh budget for who loses the ledger alone
    (tmp_path / "a.ledger.verified").unlink()
    Ledger(path, lifetime=1.0).close()
    with pytest.raises(LedgerError, match="moved or replaced"):
        ledger.account("t")
    ledger.close()


def test_a_ledger_that_cannot_be_written_releases_nothing(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 10))
    ledger._writer._opened().execute("PRAGMA query_only=ON")
    with pytest.raises(LedgerError, match="nothing was released"):
        ledger.answer(query(1), costing(COST), {}, value())
    ledger._writer._opened().execute("PRAGMA query_only=OFF")
    assert ledger.account("t").spent == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 7), st.integers(0, 2), st.fractions(0, Fraction(3, 2))), max_size=25))
def test_no_sequence_of_queries_overspends_or_changes_an_answer(tmp_path_factory, steps):
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "a.ledger", lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 5))
    answers = {}
    for count, (k, theta, spent) in enumerate(steps):
        before = ledger.account("t").spent
        asked = query(k, theta=theta)
        try:
            got, _ = ledger.answer(asked, costing(spent), {}, value(float(count)))
        except Refusal:
            assert ledger.account("t").spent == before
            continue
        np.testing.assert_array_equal(answers.setdefault(asked.id, got), got)
        assert before <= ledger.account("t").spent <= 1
    ledger.verify()
    ledger.close()


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
    """While an answer is computed others read, accept and answer, also from another process; who commits first has answered."""
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
    assert outcome == [2.0, OutOfOrder]  # the same question got the stored answer, another one for the same round a refusal
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
            ledger.answer(query(account.answered + 1, theta=identity), costing(COST * (account.answered + 1)), {}, value(identity))
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
        owner.accept(terms)
    result = parley.train(terms, owners)
    np.save(folder / "theta.npy", result.theta)


def _answers(path):
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT query, content, answer, epsilon FROM entries WHERE kind='answer'").fetchall()
    return {row[0]: row[1:] for row in rows}


def test_kill_at_random_moments_loses_and_doubles_nothing(tmp_path):
    """PARLEY_KILLS sets how often (default 20): no answer without its debit, never two answers to one query, no debit lost."""
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
                    if "not a ledger" not in str(error) or seen[name]:
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


@pytest.mark.parametrize("gaps", [True, False])
def test_missed_rounds_cost_nothing_where_the_terms_let_them_be_skipped(tmp_path, gaps):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 10, gaps=gaps))
    ledger.answer(query(1), lambda answers: COST * answers, {}, value())
    if not gaps:
        with pytest.raises(OutOfOrder):
            ledger.answer(query(4), lambda answers: COST * answers, {}, never)
        return
    ledger.answer(query(4), lambda answers: COST * answers, {}, value())
    for late in (2, 3, 4, 11):
        with pytest.raises(OutOfOrder):
            ledger.answer(query(late, theta=9.0), lambda answers: COST * answers, {}, never)
    ledger.close()
    account = Ledger(tmp_path / "a.ledger").account("t")
    assert (account.spent, account.answered, account.answers) == (2 * COST, 4, 2)


def test_a_query_id_belongs_to_its_agreement(tmp_path):
    """Ids follow from public facts, so another agreement's learner can guess one: using it first must spoil nothing."""
    ledger = Ledger(tmp_path / "a.ledger", lifetime=2.0)
    for terms, learner in (("t", "learner"), ("u", "mallory")):
        ledger.accept(Reservation(terms, "a", learner, Fraction(1), Fraction(0), 4))
    honest = GradientQuery.ask("t", "learner", 1, np.zeros(3))
    ledger.answer(GradientQuery(honest.id, "u", "mallory", 1, np.ones(3)), lambda k: Fraction(k, 4), {}, lambda: lambda: np.ones(3))
    value, _ = ledger.answer(honest, lambda k: Fraction(k, 4), {}, lambda: lambda: np.full(3, 7.0))
    np.testing.assert_array_equal(value, 7.0)
    assert ledger.verify() == 5
