"""What is written once stays, and what was changed is noticed."""

import sqlite3

import pytest

from parley.errors import BrokenChainError, GuaranteeError, LedgerError
from parley.network.hosting import journal as room
from parley.network.hosting.journal import Journal

TERMS = "a" * 64


def filled(path):
    journal = Journal(path)
    journal.propose(TERMS, 1, "held")
    journal.agree(TERMS, 1, "record", "s/1", b"sums one")
    journal.propose(TERMS, 2, "held")
    journal.abort(TERMS, 2, "why")
    journal.close()
    return path


def test_everything_is_there_after_a_restart(tmp_path):
    journal = Journal(filled(tmp_path / "j"))
    assert journal.entry(TERMS, 1).sums == b"sums one"
    assert journal.entry(TERMS, 2).aborted == "why"
    assert journal.entry(TERMS, 3).open
    assert journal.counts(TERMS) == {"proposal": 2, "record": 1, "void": 1}


def test_each_step_is_written_once(tmp_path):
    journal = Journal(filled(tmp_path / "j"))
    assert journal.propose(TERMS, 1, "other").proposal == "held"
    assert journal.agree(TERMS, 1, "other", "s/2", b"other").record == "record"
    assert journal.abort(TERMS, 2, "other").aborted == "why"
    assert journal.agree(TERMS, 2, "record", "s/2", b"sums").record is None
    assert journal.propose(TERMS, 2, "other").proposal == "held"


def test_a_record_needs_a_proposal():
    with pytest.raises(GuaranteeError):
        Journal().agree(TERMS, 1, "record", "s/1", b"sums")


def test_what_is_aborted_before_it_is_proposed_stays_so():
    journal = Journal()
    journal.abort(TERMS, 1, "why")
    assert journal.propose(TERMS, 1, "held").proposal is None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET body='x' WHERE seq=1",
        "UPDATE entries SET sums=x'00' WHERE seq=2",
        "DELETE FROM entries WHERE seq=2",
    ],
)
def test_a_changed_file_is_refused(tmp_path, change):
    path = filled(tmp_path / "j")
    with sqlite3.connect(path) as db:
        db.execute(change)
    db.close()
    with pytest.raises(BrokenChainError):
        Journal(path)


def test_something_else_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "j") as db:
        db.execute("CREATE TABLE other (x)")
    db.close()
    with pytest.raises(LedgerError, match="expected a host's journal"):
        Journal(tmp_path / "j")


def test_a_journal_that_is_moved_away_is_noticed(tmp_path):
    path = filled(tmp_path / "j")
    journal = Journal(path)
    path.rename(tmp_path / "away")
    with pytest.raises(LedgerError, match="journal was moved"):
        journal.entry(TERMS, 1)


def test_old_sums_are_let_go_and_the_chain_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "KEPT_SUM_BYTES", 20)
    journal = Journal(tmp_path / "j")
    for number in range(1, 5):
        journal.propose(TERMS, number, "held")
        journal.agree(TERMS, number, "record", f"s/{number}", b"ten bytes.")
    assert [journal.entry(TERMS, number).sums is not None for number in range(1, 5)] == [False, False, True, True]
    journal.close()
    assert Journal(tmp_path / "j").entry(TERMS, 1).record == "record"


def test_what_was_opened_is_never_aborted_and_what_was_aborted_is_never_opened(tmp_path):
    path = filled(tmp_path / "j")
    journal = Journal(path)
    assert not journal.entry(TERMS, 1).opened
    assert journal.open(TERMS, 1).opened
    assert journal.open(TERMS, 1).opened  # once
    assert journal.abort(TERMS, 1, "why").aborted is None
    assert not journal.open(TERMS, 2).opened
    with pytest.raises(GuaranteeError):
        journal.open(TERMS, 3)
    assert journal.counts(TERMS) == {"proposal": 2, "record": 1, "opened": 1, "void": 1}
    journal.close()
    assert Journal(path).entry(TERMS, 1).opened
