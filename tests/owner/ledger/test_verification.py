import json
import shutil
import sqlite3
from fractions import Fraction

import pytest
from bookkeeping import COST, each, filled, forget, query, reserve, value

import parley.owner.ledger.ledger
import parley.owner.ledger.opening
from parley.errors import BrokenChainError, LedgerError
from parley.owner.ledger import Ledger
from parley.owner.ledger.chain import COLUMNS, row_hash


@pytest.fixture
def looked_at(monkeypatch):
    """The rows that were verified, with short ledgers treated like long ones."""
    seen = []

    def counted(previous, row, pad, digest):
        seen.append(row[0])
        return row_hash(previous, row, pad, digest)

    monkeypatch.setattr(parley.owner.ledger.opening, "row_hash", counted)
    monkeypatch.setattr(parley.owner.ledger.ledger, "MAX_ROWS_VERIFIED_FULLY", 0)
    return seen


def remembered(path):
    ledger = Ledger(path)
    ledger.remember()
    ledger.close()


def test_what_is_remembered_keeps_its_form(tmp_path):
    """Files beside ledgers are read by the next Parley, and by the one before."""
    path = filled(tmp_path)
    remembered(path)
    content = json.loads((tmp_path / "a.ledger.verified").read_text())
    assert set(content) == {"format", "entries", "hash", "lifetime", "reserved", "accounts", "tables", "sha256"}
    account = {
        "terms": "t",
        "learner": "learner",
        "rounds": 10,
        "gaps": False,
        "answered": 4,
        "answers": 4,
        "closed": False,
    }
    assert content["accounts"] == [account | {"epsilon": "1", "delta": "0", "spent": "2/5"}]


def test_rows_that_were_verified_are_not_looked_at_again(tmp_path, looked_at):
    path = filled(tmp_path)
    remembered(path)
    looked_at.clear()
    ledger = Ledger(path)
    assert looked_at == []
    ledger.answer(query(5), each, {}, value())
    ledger.remember()
    assert looked_at == [7]
    assert ledger.verify() == 7
    assert looked_at == [7, *range(1, 8)]
    ledger.close()
    looked_at.clear()
    assert Ledger(path).account("t").spent == 5 * COST
    assert looked_at == []


def test_a_row_after_the_remembered_ones_is_verified_and_one_before_by_the_full_look(tmp_path, looked_at):
    path = filled(tmp_path)
    remembered(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET event='{}' WHERE seq=4")
    ledger = Ledger(path)
    with pytest.raises(BrokenChainError, match="row 4"):
        ledger.verify()
    ledger.answer(query(5), each, {}, value())
    ledger.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET balance='4/10' WHERE seq=7")
    with pytest.raises(BrokenChainError, match="row 7"):
        Ledger(path)


def test_accounts_go_on_from_what_was_remembered(tmp_path, looked_at):
    """A forged row with the right hash still has to follow from the remembered balances."""
    path = filled(tmp_path)
    remembered(path)
    with sqlite3.connect(path) as db:
        (previous,) = db.execute("SELECT hash FROM entries WHERE seq=6").fetchone()
        forged = (
            7,
            "now",
            "answer",
            None,
            "t",
            "learner",
            5,
            "q",
            "c",
            "{}",
            "0",
            "0",
            str(3 * COST),
            "[3]",
            bytes(24),
        )
        link = row_hash(previous, forged, bytes(32))
        columns = ", ".join((*COLUMNS, "pad", "previous", "hash"))
        db.execute(
            f"INSERT INTO entries ({columns}) VALUES ({', '.join('?' * 18)})", (*forged, bytes(32), previous, link)
        )
    with pytest.raises(BrokenChainError, match="row 7"):
        Ledger(path)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": "parley-verified-1"}', None])
def test_a_damaged_memory_is_no_memory(tmp_path, looked_at, damage):
    path = filled(tmp_path)
    remembered(path)
    memory = tmp_path / "a.ledger.verified"
    if damage is None:  # one digit changed
        content = json.loads(memory.read_text())
        damage = json.dumps(content | {"reserved": ["0", "0"]}).encode()
    memory.write_bytes(damage)
    looked_at.clear()
    Ledger(path).close()
    assert looked_at == list(range(1, 7))
    assert json.loads(memory.read_text())["entries"] == 6


def test_a_short_ledger_is_verified_in_full_at_every_opening(tmp_path):
    path = filled(tmp_path)
    remembered(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET event='{}' WHERE seq=4")
    with pytest.raises(BrokenChainError, match="row 4"):
        Ledger(path)


@pytest.mark.parametrize("fully", [0, 10_000])
@pytest.mark.parametrize("later", [0, 1, 5])
@pytest.mark.parametrize("remembers", ["a.ledger.verified", "a.ledger.drawing", "the state folder"])
def test_a_ledger_that_went_back_in_time_is_refused(tmp_path, monkeypatch, fully, later, remembers):
    """Put back alone, also when it has outgrown the one that it was a copy of."""
    monkeypatch.setattr(parley.owner.ledger.ledger, "MAX_ROWS_VERIFIED_FULLY", fully)
    path = filled(tmp_path, answers=2)
    ledger = Ledger(path)
    ledger.remember()
    shutil.copy(path, tmp_path / "copy")
    for k in (3, 4):
        ledger.answer(query(k), each, {}, value())
    ledger.remember()
    ledger.close()
    shutil.copy(tmp_path / "copy", path)
    outside = remembers == "the state folder"
    memory = b"" if outside else (tmp_path / remembers).read_bytes()
    forget(path)
    if later:
        ledger = Ledger(path, remembered=False)
        for k in range(3, 3 + later):
            ledger.answer(query(k, theta=7.0), each, {}, value())
        ledger.close()
        forget(path)
    if not outside:
        (tmp_path / remembers).write_bytes(memory)
    with pytest.raises(
        BrokenChainError, match=f"rolled back or .* had 6 rows, but the {4 + later} rows now in the file"
    ):
        Ledger(path, remembered=outside)


def test_nobody_who_looks_waits_for_who_writes(tmp_path):
    """Opening, verifying and reading take no write lock, and see the last committed row."""
    path = filled(tmp_path)
    with sqlite3.connect(path, isolation_level=None) as writer:
        writer.execute("BEGIN IMMEDIATE")
        ledger = Ledger(path)
        assert ledger.verify() == len(list(ledger.entries())) == ledger.head.entries == 6
        assert ledger.account("t").spent == 4 * COST
        assert ledger.lifetime == (3, 0)
        assert ledger.reserved == (1, 0)
        ledger.require_room(reserve("u", Fraction(1), 1))
        ledger.remember()
        writer.execute("ROLLBACK")
    ledger.close()


def test_a_look_at_all_rows_keeps_nobody_from_answering(tmp_path):
    ledger, other = Ledger(filled(tmp_path)), Ledger(tmp_path / "a.ledger")
    rows = other.entries()
    next(rows)
    ledger.answer(query(5), each, {}, value())  # would wait for the reader if that held a lock
    assert [entry["seq"] for entry in rows] == [2, 3, 4, 5, 6, 7]
    assert other.account("t").answered == 5


def test_only_lines_of_this_file_are_believed(tmp_path):
    """Another ledger's memory beside this ledger is a sign that it was replaced."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    paths = [filled(tmp_path / name) for name in ("one", "two")]
    remembered(paths[0])
    shutil.copy(paths[0], paths[1])
    with pytest.raises(LedgerError, match="rolled back or replaced"):
        Ledger(paths[1])
