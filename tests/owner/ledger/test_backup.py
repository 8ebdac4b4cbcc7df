import shutil
import sqlite3
import stat
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from bookkeeping import COST, costing, each, filled, never, old_ledger, query, reserve, value

from parley.errors import BudgetExhausted, LedgerError
from parley.owner.ledger import Ledger
from parley.owner.ledger.backup import back_up, restore


def test_a_backup_beside_a_ledger_in_use_has_every_row(tmp_path):
    """A plain copy of the file had 1 of 163 rows."""
    ledger = Ledger(filled(tmp_path, answers=0, rounds=200))
    over, troubles = threading.Event(), []

    def busy():
        try:
            for k in range(1, 201):
                ledger.answer(query(k), each, {}, value(k))
                if over.is_set():
                    return
        except LedgerError as error:
            troubles.append(error)

    thread = threading.Thread(target=busy)
    thread.start()
    ends = [back_up(ledger, tmp_path / f"backup{k}") for k in range(5)]
    over.set()
    thread.join()
    assert not troubles
    for k, end in enumerate(ends):
        path = tmp_path / f"backup{k}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        copy = Ledger(path, remembered=False)
        assert copy.head == end
        assert copy.verify() == end.entries
        assert ledger.hash_at(end.entries) == end.hash
        copy.close()
    assert back_up(ledger, tmp_path / "last") == ledger.head
    assert not list(tmp_path.glob(".*"))
    ledger.close()


def test_a_backup_is_one_file_and_replaces_nothing(tmp_path):
    ledger = Ledger(filled(tmp_path))
    (tmp_path / "there").write_text("something")
    with pytest.raises(LedgerError, match="never replaces a file"):
        back_up(ledger, tmp_path / "there")
    assert (tmp_path / "there").read_text() == "something"
    with pytest.raises(LedgerError, match="cannot be written"):
        back_up(ledger, tmp_path / "nowhere" / "copy")
    (tmp_path / "far").mkdir()
    end = back_up(ledger, tmp_path / "far" / "copy")
    assert [file.name for file in (tmp_path / "far").iterdir()] == ["copy"]
    # nothing beside it is needed
    with sqlite3.connect(f"file:{tmp_path}/far/copy?mode=ro&immutable=1", uri=True) as db:
        assert db.execute("SELECT MAX(seq), COUNT(*) FROM entries").fetchone() == (end.entries, end.entries)


def test_a_broken_ledger_is_not_backed_up(tmp_path):
    path = filled(tmp_path)
    ledger = Ledger(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET balance='1/100' WHERE seq=6")
    with pytest.raises(LedgerError, match="row 6 does not follow"):
        back_up(ledger, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def lost_ledger(tmp_path):
    """A backup after two answers; then two more, and another agreement with one: all lost."""
    ledger = Ledger(filled(tmp_path, answers=2))
    back_up(ledger, tmp_path / "backup")
    for k in (3, 4):
        ledger.answer(query(k), each, {}, value(k))
    ledger.accept(reserve("u", Fraction(1, 2), 5))
    ledger.answer(query(1, terms="u"), costing(COST), {}, value())
    ledger.close()
    for file in tmp_path.glob("a.ledger*"):
        file.unlink()
    return tmp_path / "a.ledger"


LOST = [reserve("t", Fraction(1), 10), reserve("u", Fraction(1, 2), 5)]


def test_after_a_restore_nothing_lost_can_be_spent_again(tmp_path):
    path = lost_ledger(tmp_path)
    end, aside = restore(tmp_path / "backup", path, "a", LOST, everything=False)
    assert aside is None
    ledger = Ledger(path)
    assert ledger.head == end
    assert ledger.verify() == end.entries
    for question in (query(3), query(1, terms="u")):
        with pytest.raises(BudgetExhausted, match="closed"):
            ledger.answer(question, each, {}, never)
    assert [ledger.account(terms).spent for terms in "tu"] == [1, Fraction(1, 2)]
    assert ledger.reserved == (Fraction(3, 2), 0)
    # what was told before may be told again
    np.testing.assert_array_equal(ledger.answer(query(2), each, {}, never)[0], 2.0)
    for again in LOST:
        with pytest.raises(BudgetExhausted, match="closed"):
            ledger.accept(again)
    ledger.accept(reserve("new", Fraction(3, 2), 1))
    with pytest.raises(BudgetExhausted):
        ledger.accept(reserve("more", Fraction(1, 100), 1))


def test_who_does_not_know_what_was_accepted_since_has_nothing_left(tmp_path):
    path = lost_ledger(tmp_path)
    restore(tmp_path / "backup", path, "a", [], everything=True)
    ledger = Ledger(path)
    assert ledger.reserved == ledger.lifetime == (3, 0)
    with pytest.raises(BudgetExhausted):
        ledger.accept(reserve("u", Fraction(1, 10**9), 5))
    with pytest.raises(BudgetExhausted, match="closed"):
        ledger.answer(query(3), each, {}, never)
    ledger.close()
    restore(path, path, "a", [], everything=True)  # the ledger itself, once more
    assert Ledger(path).reserved == (3, 0)


def test_a_restore_counts_delta_too(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=2.0, lifetime_delta=1e-5)
    ledger.accept(reserve("t", Fraction(1), 10, delta=Fraction("1e-6")))
    ledger.accept(reserve("u", Fraction(1, 2), 10, delta=Fraction("2e-6")))
    ledger.answer(query(1), each, {}, value())
    ledger.close()
    restore(ledger.path, ledger.path, "a", [], everything=True)
    ledger = Ledger(ledger.path)
    assert ledger.reserved == ledger.lifetime == (2, Fraction("1e-5"))
    booked = [(e["kind"], e["epsilon"], Fraction(e["delta"])) for e in ledger.entries()][-3:]
    assert booked == [("close", "9/10", 0), ("close", "1/2", Fraction("2e-6")), ("restore", "1/2", Fraction("7e-6"))]


def test_more_than_the_lifetime_budget_cannot_have_been_accepted(tmp_path):
    path = lost_ledger(tmp_path)
    with pytest.raises(BudgetExhausted, match="lifetime budget is epsilon = 3"):
        restore(tmp_path / "backup", path, "a", [reserve("u", Fraction(5, 2), 5)], everything=False)
    assert not path.exists()
    with pytest.raises(LedgerError, match="ledger of 'a', not of 'b'"):
        restore(tmp_path / "backup", path, "b", [], everything=True)
    assert not path.exists()


def test_a_whole_ledger_is_not_replaced_by_its_own_past(tmp_path):
    path = filled(tmp_path, answers=2)
    ledger = Ledger(path)
    back_up(ledger, tmp_path / "backup")
    ledger.answer(query(3), each, {}, value())
    ledger.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="contains this backup and 1 more row"):
        restore(tmp_path / "backup", path, "a", [], everything=False)
    assert path.read_bytes() == before


def test_what_was_in_place_is_kept_and_its_wal_file_spoils_nothing(tmp_path):
    """SQLite would play a -wal file that was left behind over the restored ledger."""
    path = filled(tmp_path, answers=2)
    ledger = Ledger(path)
    back_up(ledger, tmp_path / "backup")
    other = filled(tmp_path_of(tmp_path, "other"), answers=4)
    busy = Ledger(other)
    busy.answer(query(5), each, {}, value())
    ledger.close()
    for end in ("", "-wal"):  # a damaged ledger with rows in its -wal file
        shutil.copy(f"{other}{end}", f"{path}{end}")
    assert Path(f"{path}-wal").stat().st_size > 0
    _, aside = restore(tmp_path / "backup", path, "a", [], everything=False)
    restored = Ledger(path)
    assert restored.verify() == 6
    assert restored.account("t").closed
    with sqlite3.connect(aside) as db:
        assert db.execute("SELECT COUNT(*) FROM entries").fetchone() == (7,)
    busy.close()


def tmp_path_of(folder, name):
    (folder / name).mkdir()
    return folder / name


@pytest.mark.parametrize("failing", range(4))
def test_a_restore_that_is_cut_short_leaves_no_ledger_that_answers(tmp_path, monkeypatch, failing):
    """Whatever of the renaming was done: the old ledger, none, or the new one; and restoring again ends well."""
    path = filled(tmp_path, answers=2)
    ledger = Ledger(path)
    back_up(ledger, tmp_path / "backup")
    ledger.answer(query(3), each, {}, value())
    ledger.remember()
    ledger.close()
    shutil.copy(tmp_path / "backup", path)  # rolled back
    Path(f"{path}-wal").write_bytes(b"")
    steps, rename, unlink = [], Path.rename, Path.unlink

    class CutError(BaseException):
        """As if the machine had stopped."""

    def counted(step):
        def take(self, *arguments, **settings):
            if "restoring" not in self.name or step is rename:
                steps.append(self)
                if len(steps) > failing:
                    raise CutError
            return step(self, *arguments, **settings)

        return take

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", counted(rename))
        patched.setattr(
            Path,
            "unlink",
            lambda self, *a, **s: (
                counted(unlink)(self, *a, **s) if "a.ledger.v" in self.name else unlink(self, *a, **s)
            ),
        )
        with pytest.raises(CutError):
            restore(tmp_path / "backup", path, "a", [], everything=False)
    if path.exists():
        with pytest.raises(LedgerError, match="rolled back or replaced"):
            Ledger(path)
    else:
        with pytest.raises(LedgerError, match="the ledger does not exist"):
            Ledger(path)
    restore(tmp_path / "backup", path, "a", [], everything=False)
    assert Ledger(path).account("t").closed


def test_a_backup_from_before_versions_can_be_restored(tmp_path):
    restore(old_ledger(tmp_path), tmp_path / "a.ledger", "a", [], everything=False)
    ledger = Ledger(tmp_path / "a.ledger")
    assert all(ledger.account(terms).closed for terms in "tu")
    assert ledger.verify() == 12
    with pytest.raises(LedgerError, match="the ledger does not exist"):
        restore(tmp_path / "nothing", tmp_path / "a.ledger", "a", [], everything=False)
