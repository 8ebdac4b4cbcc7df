"""The file: one lifetime budget for one table, and what is noticed of a file that is changed, moved or none."""

import sqlite3
from fractions import Fraction

import numpy as np
import pytest
from bookkeeping import COST, costing, filled, forget, never, query, reserve, value

from parley.errors import BrokenChainError, BudgetExhausted, LedgerError
from parley.owner.ledger import Ledger, begun
from parley.owner.ledger.connections import PRAGMAS


def test_terms_reserve_from_one_lifetime_budget(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.0)
    ledger.accept(reserve("t1", Fraction(7, 10), 10))
    ledger.accept(reserve("t1", Fraction(7, 10), 10))  # again: nothing changes
    assert ledger.reserved == (Fraction(7, 10), 0)
    with pytest.raises(BudgetExhausted, match="lifetime budget is epsilon = 1"):
        ledger.accept(reserve("t2", Fraction(4, 10), 10))
    ledger.accept(reserve("t3", Fraction(3, 10), 10))
    assert ledger.reserved == (1, 0)
    with pytest.raises(LedgerError, match="accepted with another"):
        ledger.accept(reserve("t1", Fraction(7, 10), 11))


def test_delta_is_reserved_and_spent_too(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=2.0, lifetime_delta=1e-5)
    small = Fraction("6e-6")
    ledger.accept(reserve("t1", Fraction(1), 2, delta=small))
    with pytest.raises(BudgetExhausted, match="lifetime budget is epsilon = 2, delta = 1e-05"):
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
    with pytest.raises(LedgerError, match="this is the ledger of 'a', not of 'b'"):
        ledger.accept(reserve("t", Fraction(1), 10, owner="b"))


def test_rows_cut_off_the_end_are_noticed_by_who_remembers_them(tmp_path):
    """The chain alone notices changed and missing rows, not a missing end; the documentation says so."""
    path = filled(tmp_path)
    Ledger(path).close()
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM entries WHERE seq=6")
    with pytest.raises(BrokenChainError, match="rolled back"):
        Ledger(path)
    forget(path)
    with pytest.raises(BrokenChainError, match="rolled back"):
        Ledger(path)
    assert Ledger(path, remembered=False).account("t").answered == 3


def test_a_file_that_was_killed_in_the_making_can_be_made_again(tmp_path):
    (tmp_path / "a.ledger").touch()
    with pytest.raises(LedgerError, match="contains no ledger"):
        Ledger(tmp_path / "a.ledger")
    assert Ledger(tmp_path / "a.ledger", lifetime=1.0).lifetime == (1, 0)


def test_the_file_remembers(tmp_path):
    path = tmp_path / "a.ledger"
    ledger = Ledger(path, lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 10))
    first, _ = ledger.answer(
        query(1), costing(COST), {"mechanism": "laplace"}, lambda: lambda: np.array([0.1, -0.0, 5e-324])
    )
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
    "path",
    [":memory:", "./:memory:", "", ".", "file:a.ledger", "./file:a.ledger", "file::memory:?cache=shared", "/dev/null"],
)
def test_what_is_no_file_keeps_no_books(tmp_path, monkeypatch, path):
    """SQLite takes these for a database in memory, a passing one, or none at all: gone after a crash, and the budget is
    whole again."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError, match="a ledger must be a file; give the path of a file"):
        Ledger(path, lifetime=1.0)
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_needs_a_lifetime_budget_and_a_strange_file_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="give a lifetime budget"):
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
    from parley.owner.ledger.chain import COLUMNS, FIRST_PREVIOUS_HASH, row_hash

    path = filled(tmp_path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET epsilon='1/20' WHERE kind='accept'")
        previous = FIRST_PREVIOUS_HASH
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


@pytest.mark.parametrize("pragmas", [None, (), PRAGMAS])
def test_a_file_whose_making_was_cut_short_is_no_ledger_and_whoever_looks_leaves_it_so(tmp_path, pragmas):
    path = tmp_path / "a.ledger"
    assert not begun(path)
    path.touch()
    if pragmas is not None:  # killed before the first row was committed
        db = sqlite3.connect(path, isolation_level=None)
        for pragma in pragmas:
            db.execute(f"PRAGMA {pragma}")
        db.execute("BEGIN IMMEDIATE")
        db.close()
    before = path.read_bytes()
    assert not begun(path)
    assert path.read_bytes() == before
    Ledger(path, lifetime=3.0).close()
    assert begun(path)


def test_a_ledger_that_was_emptied_is_not_one_to_be_made(tmp_path):
    path = tmp_path / "a.ledger"
    Ledger(path, lifetime=3.0).close()
    path.write_bytes(b"")
    assert begun(path)
    for lifetime in (None, 3.0):
        with pytest.raises(BrokenChainError, match="rolled back"):
            Ledger(path, lifetime=lifetime)
    path.unlink()
    path.with_name("a.ledger.verified").unlink()
    path.write_bytes(b"junk" * 2000)
    assert begun(path)
    with pytest.raises(LedgerError):
        Ledger(path, lifetime=3.0)
