"""Long runs: facts stay for ever, of the answers the latest; what is gone is refused, never answered anew."""

import hashlib
import sqlite3

import numpy as np
import pytest
from bookkeeping import each, filled, never, query, value

import parley.owner.ledger.chain
import parley.owner.ledger.stored_rows
from parley.errors import BrokenChainError, OutOfOrder
from parley.owner.ledger import Ledger


@pytest.fixture
def narrow(monkeypatch):
    """Room for two answers of three numbers."""
    monkeypatch.setattr(parley.owner.ledger.stored_rows, "MAX_KEPT_ANSWER_BYTES", 50)


def kept(path):
    with sqlite3.connect(path) as db:
        return [
            r
            for (r,) in db.execute(
                "SELECT round FROM entries WHERE kind='answer' AND answer IS NOT NULL ORDER BY round"
            )
        ]


def test_the_latest_answers_stay_and_all_facts(tmp_path, narrow):
    path = filled(tmp_path, answers=0)
    ledger = Ledger(path)
    for k in range(1, 8):
        ledger.answer(query(k), each, {}, value(float(k)), prune=True)
    assert kept(path) == [6, 7]
    assert ledger.account("t").answered == 7
    assert [entry["round"] for entry in ledger.entries() if entry["kind"] == "answer"] == list(range(1, 8))
    ledger.verify()
    ledger.close()
    again = Ledger(path)
    np.testing.assert_array_equal(again.answer(query(7), each, {}, never)[0], 7.0)
    with pytest.raises(OutOfOrder, match="no longer stores the answer"):
        again.answer(query(5), each, {}, never)
    assert again.account("t").answered == 7
    again.verify()


def test_the_last_answer_stays_however_long_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(parley.owner.ledger.stored_rows, "MAX_KEPT_ANSWER_BYTES", 1)
    path = filled(tmp_path, answers=0)
    ledger = Ledger(path)
    for k in range(1, 4):
        ledger.answer(query(k), each, {}, value(float(k)), prune=True)
        np.testing.assert_array_equal(ledger.answer(query(k), each, {}, never)[0], float(k))
    assert kept(path) == [3]


@pytest.mark.parametrize("column", ["pruned", "answer"])
def test_a_digest_that_was_changed_or_an_answer_put_back_is_noticed(tmp_path, narrow, column):
    path = filled(tmp_path, answers=0)
    ledger = Ledger(path)
    for k in range(1, 5):
        ledger.answer(query(k), each, {}, value(float(k)), prune=True)
    ledger.close()
    with sqlite3.connect(path) as db:
        (seq,) = db.execute("SELECT seq FROM entries WHERE kind='answer' AND round=1").fetchone()
        db.execute(f"UPDATE entries SET {column}=? WHERE seq=?", (bytes(32), seq))
    with pytest.raises(BrokenChainError, match=f"row {seq}"):
        Ledger(path)


@pytest.mark.parametrize("written_before", [False, True])
def test_letting_go_hashes_no_answer_again(tmp_path, narrow, monkeypatch, written_before):
    """The digest is kept from the first; ledgers that have none yet of their answers get it when those go."""
    path = filled(tmp_path, answers=0)
    ledger, hashed = Ledger(path), []
    ledger.answer(query(1), each, {}, value(1.0), prune=True)
    if written_before:
        with sqlite3.connect(path) as db:
            db.execute("UPDATE entries SET pruned=NULL")
    for module in (parley.owner.ledger.stored_rows, parley.owner.ledger.chain):
        monkeypatch.setattr(
            module, "answer_digest", lambda answer: hashed.append(answer) or hashlib.sha256(answer).digest()
        )
    for k in (2, 3):
        ledger.answer(query(k), each, {}, value(float(k)), prune=True)
    monkeypatch.undo()
    numbers = [np.frombuffer(answer)[0] for answer in hashed]
    assert numbers == ([2.0, 3.0, 1.0] if written_before else [2.0, 3.0])
    with sqlite3.connect(path) as db:
        digests = [digest for (digest,) in db.execute("SELECT pruned FROM entries WHERE kind='answer' ORDER BY round")]
    assert digests == [hashlib.sha256(np.full(3, float(k)).tobytes()).digest() for k in (1, 2, 3)]
    ledger.verify()


def test_a_wrong_digest_beside_an_answer_is_noticed(tmp_path):
    """Once the answer is gone it would break the chain."""
    path = filled(tmp_path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET pruned=? WHERE seq=4", (bytes(32),))
    with pytest.raises(BrokenChainError, match="row 4"):
        Ledger(path)
