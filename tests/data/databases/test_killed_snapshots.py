"""A snapshot that was killed: no half folder opens as a table, and what it left is gone after the next."""

import fcntl
import os
import shutil
import signal
import threading
from itertools import count
from pathlib import Path

import pytest
from databases import write_sqlite
from loans_database import ALL, LOANS, take

from parley.data.databases import Request, open_database, take_snapshot
from parley.data.sources import find_source
from parley.durable import unfinished_folder
from parley.errors import DataError, ParleyError, SettingError


@pytest.fixture
def loans(tmp_path):
    return write_sqlite(tmp_path / "loans.db", LOANS)


def killed_at(step, uri, folder):
    """Take a snapshot in a process that is killed at this step of its writing; whether it was."""
    child = os.fork()
    if not child:
        steps = count()

        def dying(real):
            def act(*arguments, **named):
                if next(steps) == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments, **named)

            return act

        os.fsync, os.open, Path.rename = dying(os.fsync), dying(os.open), dying(Path.rename)
        try:
            take(uri, ALL, folder)
        finally:
            os._exit(not folder.exists())
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or status == 0
    return os.WIFSIGNALED(status)


def test_whatever_kills_it_no_half_folder_opens_as_a_table(loans, tmp_path):
    """At every step of writing; and the next one begins anew."""
    folder, hidden = tmp_path / "table", tmp_path / ".table.parley-unfinished"
    for step in count():
        killed = killed_at(step, loans, folder)
        for place in (folder, hidden):
            if place.exists():
                try:
                    whole = len(find_source(place)) == 3 and find_source(place).digest() is not None
                except DataError:
                    whole = place == hidden  # it is no table, and nobody takes it for one
                assert whole
                shutil.rmtree(place)
        if not killed:
            break
    assert step > 6


def test_what_a_killed_one_left_is_gone_after_the_next_and_two_at_once_are_refused(loans, tmp_path):
    hidden = tmp_path / ".table.parley-unfinished"
    hidden.mkdir()
    (hidden / "part-000000.parquet.unfinished").write_bytes(b"half")
    take(loans, ALL, tmp_path / "table")
    assert not hidden.exists()
    assert sorted(file.name for file in (tmp_path / "table").iterdir()) == [
        "parley-snapshot.json",
        "part-000000.parquet",
    ]

    began, go_on = threading.Event(), threading.Event()

    def wait(done, total):
        began.set()
        assert go_on.wait(60)

    def slowly():
        with open_database(loans) as database:
            take_snapshot(database, Request(ALL, ("id",)), tmp_path / "other", wait)

    first = threading.Thread(target=slowly)
    first.start()
    assert began.wait(60)
    try:
        with pytest.raises(SettingError, match="another snapshot is being written"):
            take(loans, ALL, tmp_path / "other")
    finally:
        go_on.set()
        first.join()
    assert len(find_source(tmp_path / "other")) == 3


def test_what_a_killed_one_left_is_gone_whatever_the_next_is_called_unless_another_is_at_it(loans, tmp_path):
    left, held = (tmp_path / f".{name}.parley-unfinished" for name in ("march", "april"))
    for folder in (left, held):
        (folder / "below").mkdir(parents=True)
        (folder / "part-000000.parquet.unfinished").write_bytes(b"half")
    lock = os.open(held, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        take(loans, ALL, tmp_path / "may")
    finally:
        os.close(lock)
    assert (left.exists(), (held / "part-000000.parquet.unfinished").exists()) == (False, True)
    take(loans, ALL, tmp_path / "april")
    assert not held.exists()


def test_a_folder_of_another_account_is_not_taken_over(loans, tmp_path, monkeypatch):
    hidden = tmp_path / ".table.parley-unfinished"
    hidden.mkdir()
    hidden.chmod(0o777)
    uid = os.geteuid()
    with monkeypatch.context() as other:
        other.setattr("os.geteuid", lambda: uid + 1)
        with pytest.raises(SettingError, match="belongs to another account"):
            take(loans, ALL, tmp_path / "table")
    assert hidden.exists()
    with unfinished_folder(tmp_path / "table") as fresh:
        assert (fresh, fresh.stat().st_mode & 0o777) == (hidden, 0o700)


def test_a_link_in_the_place_of_the_unfinished_folder_is_not_followed(loans, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / ".table.parley-unfinished").symlink_to(tmp_path / "precious")
    with pytest.raises(ParleyError, match="cannot be written"):
        take(loans, ALL, tmp_path / "table")
    assert (tmp_path / "precious" / "file").exists()
