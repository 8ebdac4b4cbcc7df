import sqlite3
from fractions import Fraction

import numpy as np
import pytest
from bookkeeping import COST, costing, each, filled, never, old_ledger, query, value

from parley.errors import LedgerError
from parley.owner.ledger import Ledger
from parley.owner.ledger.opening import APPLICATION_ID, SCHEMA_VERSION
from parley.protocol.queries import GradientQuery


def pragma(path, name):
    with sqlite3.connect(path) as db:
        return db.execute(f"PRAGMA {name}").fetchone()[0]


def test_a_new_file_says_what_it_is(tmp_path):
    path = filled(tmp_path)
    assert (pragma(path, "application_id"), pragma(path, "user_version")) == (APPLICATION_ID, SCHEMA_VERSION)


def test_a_file_without_a_version_is_upgraded_and_keeps_every_promise(tmp_path, own_state):
    path = old_ledger(tmp_path)
    with sqlite3.connect(path) as db:
        columns = ", ".join(row[1] for row in db.execute("PRAGMA table_info(entries)"))
        before = db.execute(f"SELECT {columns} FROM entries ORDER BY seq").fetchall()
    ledger = Ledger(path)
    assert (pragma(path, "application_id"), pragma(path, "user_version")) == (APPLICATION_ID, SCHEMA_VERSION)
    assert ledger.verify() == len(before) + 1
    with sqlite3.connect(path) as db:
        assert db.execute(f"SELECT {columns} FROM entries WHERE kind != 'upgrade' ORDER BY seq").fetchall() == before
    assert ledger.lifetime == (3, Fraction("1e-5"))
    assert (ledger.account("t").spent, ledger.account("u").spent, ledger.account("u").answers) == (3 * COST, COST, 2)
    known = GradientQuery.ask("t", "learner", 2, np.full(3, 2.0))
    np.testing.assert_array_equal(ledger.answer(known, each, {}, never)[0], 2.5)
    ledger.answer(query(4), each, {}, value())
    ledger.close()
    again = Ledger(path)
    assert [entry["kind"] for entry in again.entries()].count("upgrade") == 1
    assert again.verify() == len(before) + 2
    assert again.hash_at(len(before)) is None  # hashes from before tell more than they should, and nobody was told them
    assert again.hash_at(len(before) + 1) is not None


def test_an_upgrade_of_a_broken_file_changes_nothing(tmp_path):
    path = old_ledger(tmp_path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET epsilon='1/100' WHERE seq=5")
    with pytest.raises(LedgerError, match="row 5 does not follow"):
        Ledger(path)
    assert pragma(path, "user_version") == 0
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT COUNT(*) FROM entries").fetchone() == (8,)
        assert "CHECK" in db.execute("SELECT sql FROM sqlite_master WHERE name='entries'").fetchone()[0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (f"PRAGMA user_version = {SCHEMA_VERSION + 1}", "reads ledgers up to format version.*update Parley"),
        ("PRAGMA application_id = 7", "not a ledger"),
        ("PRAGMA user_version = 0", "not a ledger"),
        ("DROP TABLE entries", "not a ledger"),
    ],
)
def test_a_file_of_another_kind_or_a_later_version_is_refused_unread(tmp_path, change, sentence):
    path = filled(tmp_path)
    (tmp_path / "a.ledger.verified").unlink()
    with sqlite3.connect(path) as db:
        db.execute(change)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    for lifetime in (None, 3.0):
        with pytest.raises(LedgerError, match=sentence):
            Ledger(path, lifetime)
    assert path.read_bytes() == before


def test_the_first_parley_cannot_write_to_an_upgraded_file(tmp_path):
    """A daemon that ran on while somebody updated Parley: its rows have no pad."""
    path = filled(tmp_path)
    columns = "seq, time, kind, epsilon, delta, balance, previous, hash"
    with sqlite3.connect(path) as db, pytest.raises(sqlite3.IntegrityError, match="pad"):
        db.execute(f"INSERT INTO entries ({columns}) VALUES (7, 'now', 'answer', '0', '0', '0', '', '')")


def test_a_ledger_in_memory_is_none():
    for path in ("", ":memory:"):
        with pytest.raises(LedgerError, match="a ledger must be a file"):
            Ledger(path, lifetime=1.0)


def test_closed_terms_answer_nothing_more_and_count_in_full(tmp_path, own_state):
    from parley.errors import BudgetExhausted

    path = old_ledger(tmp_path)  # the kind `close` was not allowed there
    ledger = Ledger(path)
    ledger.close_terms("t", "owner")
    ledger.close_terms("t", "owner")
    with pytest.raises(BudgetExhausted, match="closed"):
        ledger.answer(query(4), costing(Fraction(4, 10)), {}, never)
    account = ledger.account("t")
    assert (account.spent, account.closed, account.used_up, account.left) == (1, True, True, (0, 0))
    np.testing.assert_array_equal(  # what was told before may be told again
        ledger.answer(GradientQuery.ask("t", "learner", 1, np.full(3, 1.0)), each, {}, never)[0], 1.5
    )
    assert [(e["epsilon"], e["delta"], e["balance"]) for e in ledger.entries() if e["kind"] == "close"] == [
        ("7/10", "0", "1")
    ]
    ledger.close()
    assert Ledger(path).verify() == 10
