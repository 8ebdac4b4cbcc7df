"""What the state folder remembers of a ledger: an older ledger, a copy and one without a memory are refused."""

import os
import shutil
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from bookkeeping import COST, OLD, each, filled, forget, never, query, reserve, value

from parley.errors import BrokenChainError, LedgerError, MissingMemoryError, StateFolderError
from parley.owner.ledger import Ledger
from parley.owner.ledger.backup import back_up, restore

pytestmark = pytest.mark.usefixtures("own_state")


def memory_of(state):
    (path,) = (state / "ledgers").iterdir()
    return path


def put_back(copy, path):
    """An older ledger in its place, and nothing beside it that knows better."""
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    shutil.copy(copy, path)
    forget(path)


@pytest.mark.parametrize("forgotten", [False, True])
def test_an_older_ledger_is_refused_whatever_is_missing_beside_it(tmp_path, own_state, forgotten):
    """Without `.verified` and `.drawing` an older ledger answered the same question with a second noise."""
    path = filled(tmp_path, answers=1)
    shutil.copy(path, tmp_path / "older")
    ledger = Ledger(path)
    ledger.answer(query(2), each, {}, value(2))
    ledger.close()
    shutil.copy(path, tmp_path / "latest")
    put_back(tmp_path / "older", path)
    known = memory_of(own_state).read_bytes()
    if forgotten:
        memory_of(own_state).unlink()
    for _ in range(2):  # nor by trying twice
        with pytest.raises(MissingMemoryError if forgotten else BrokenChainError, match="parley owner restore"):
            Ledger(path)
    (own_state / "ledgers" / Ledger(path, remembered=False).identity).write_bytes(known)
    put_back(tmp_path / "latest", path)
    assert Ledger(path).answer(query(2), each, {}, never)[0].tolist() == [2.0] * 3


def test_the_memory_is_for_this_account_alone_and_no_link(tmp_path, own_state):
    path = filled(tmp_path)
    memory = memory_of(own_state)
    assert memory.stat().st_mode & 0o777 == 0o600
    assert memory.parent.stat().st_mode & 0o777 == 0o700
    memory.chmod(0o620)
    with pytest.raises(StateFolderError, match="no other account may write"):
        Ledger(path)
    memory.rename(tmp_path / "elsewhere")
    memory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match="cannot be opened and locked"):
        Ledger(path)
    memory.unlink()
    memory.write_bytes(b"")
    with pytest.raises(BrokenChainError, match="does not contain the head of the ledger"):
        Ledger(path)


def test_a_memory_that_is_moved_away_while_in_use_ends_the_answers(tmp_path, own_state):
    ledger = Ledger(filled(tmp_path, answers=1))
    memory_of(own_state).rename(tmp_path / "kept")
    with pytest.raises(MissingMemoryError):
        ledger.answer(query(2), each, {}, value(2))
    with pytest.raises(MissingMemoryError):
        ledger.accept(reserve("u", Fraction(1), 1))
    assert ledger.head.entries == 3
    shutil.copy(tmp_path / "kept", own_state / "ledgers" / ledger.identity)
    with pytest.raises(LedgerError, match="moved or replaced while in use"):
        ledger.answer(query(2), each, {}, value(2))


def test_of_two_copies_in_use_at_once_one_answers(tmp_path):
    (tmp_path / "one").mkdir()
    path = filled(tmp_path / "one", answers=1)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    one, two = Ledger(path), Ledger(tmp_path / "two" / "a.ledger")
    one.answer(query(2), each, {}, value(2))
    for work in (
        lambda: two.answer(query(2), each, {}, value(7)),
        lambda: two.accept(reserve("u", Fraction(1), 1)),
        lambda: two.close_terms("t", "owner"),
    ):
        with pytest.raises(BrokenChainError, match="another copy was used"):
            work()
    assert two.head.entries == 3
    one.accept(reserve("u", Fraction(1), 1))


def test_an_answer_that_was_stored_by_who_died_is_noted_before_it_is_sent(tmp_path, own_state):
    path = filled(tmp_path, answers=1)
    reader = Ledger(path)
    before = memory_of(own_state).read_bytes()
    other = Ledger(path)
    other.answer(query(2), each, {}, value(2))
    other.close()
    with memory_of(own_state).open("r+b") as file:  # as if it had died between the commit and the note
        file.write(before)
    reader.answer(query(2), each, {}, never)
    assert memory_of(own_state).read_bytes() == f"{4:020d} {reader.head.hash}\n".encode()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_first_opening_by_this_version_remembers_in_the_chain_and_outside(tmp_path, own_state, version):
    path = Path(shutil.copy(OLD.with_name(f"version-{version}.ledger"), tmp_path / "a.ledger"))
    Ledger(path, writes=version == 0).close()  # who only looks leaves it as it is
    assert version == 0 or path.read_bytes() == OLD.with_name(f"version-{version}.ledger").read_bytes()
    ledger = Ledger(path)
    row = list(ledger.entries())[-1]
    assert (row["kind"], row["event"]) == ("memory" if version else "upgrade", f'{{"from": {version}}}')
    assert memory_of(own_state).read_bytes() == f"{ledger.head.entries:020d} {ledger.head.hash}\n".encode()
    answered = ledger.account("t").answered
    ledger.answer(query(answered + 1), each, {}, value(1))
    assert ledger.verify() == ledger.head.entries
    ledger.close()
    put_back(OLD.with_name(f"version-{version}.ledger"), path)  # the one from before, which knows of no memory
    with pytest.raises(BrokenChainError, match="rolled back"):
        Ledger(path)


def test_a_restore_is_the_one_copy_that_goes_on(tmp_path, own_state):
    path = filled(tmp_path, answers=1)
    ledger = Ledger(path)
    back_up(ledger, tmp_path / "backup")
    ledger.answer(query(2), each, {}, value(2))
    ledger.close()
    shutil.copy(path, tmp_path / "latest")
    put_back(tmp_path / "backup", path)
    memory_of(own_state).unlink()  # on a new machine
    restore(tmp_path / "backup", path, "a", [], everything=False)
    restored = Ledger(path)
    restored.accept(reserve("u", Fraction(1), 1))
    restored.close()
    put_back(tmp_path / "latest", tmp_path / "moved")
    with pytest.raises(BrokenChainError, match="rolled back"):
        Ledger(tmp_path / "moved")
    restore(path, path, "a", [], everything=True)  # the ledger itself, where only the memory was lost
    assert Ledger(path).reserved == Ledger(path).lifetime


KILLED = """
import os, sys
from parley.owner.ledger import Ledger
from parley.owner.ledger.chain import Memory
sys.path.insert(0, {support!r})
from bookkeeping import each, query, value
def killed(*arguments):
    os._exit(9)
setattr(Memory, {where!r}, killed)
{work}
"""


@pytest.mark.parametrize("where", ["begin", "note"])
def test_killed_between_ledger_and_memory_it_opens_again(tmp_path, own_state, where):
    """While it is made, while an earlier version's is taken up, and after an answer."""
    support = str(Path(__file__).parents[2] / "support")
    shutil.copy(OLD.with_name("version-1.ledger"), tmp_path / "old.ledger")
    works = [
        "Ledger('new.ledger', lifetime=3)",
        "Ledger('old.ledger')",
        "Ledger('a.ledger').answer(query(2), each, {}, value(2))",
    ]
    filled(tmp_path, answers=1)
    for work in works:
        code = KILLED.format(support=support, where=where, work=work)
        ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ, check=False).returncode
        assert ended in (0, 9)
    Ledger(tmp_path / "new.ledger", lifetime=3).close()
    Ledger(tmp_path / "old.ledger").close()
    ledger = Ledger(tmp_path / "a.ledger")
    assert ledger.account("t").spent == 2 * COST
    assert ledger.answer(query(2), each, {}, never)[0].tolist() == [2.0] * 3


def test_a_state_folder_that_cannot_be_made_leaves_no_ledger(tmp_path, monkeypatch):
    monkeypatch.delenv("PARLEY_STATE")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for home, sentence in (("/tmp", "temporary folder"), ("/dev/null", "cannot be created")):
        monkeypatch.setenv("HOME", home)
        with pytest.raises(StateFolderError, match=f"{sentence}.*set PARLEY_STATE"):
            Ledger(tmp_path / "a.ledger", lifetime=3)
        assert not (tmp_path / "a.ledger").exists()


def test_a_ledger_without_a_version_is_not_upgraded_by_who_looks_and_has_no_state_folder(tmp_path, monkeypatch):
    path = Path(shutil.copy(OLD, tmp_path / "a.ledger"))
    with monkeypatch.context() as patched:
        patched.setenv("PARLEY_STATE", "/dev/null/state")
        with pytest.raises(StateFolderError):
            Ledger(path, writes=False)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (0,)
    db.close()
    Ledger(path).close()
