"""A disk that is full at any write: one sentence, nothing half-written, and books that open again, completed where that
is possible."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest
from consortium import ask
from hosted_consortium import HOSTS, HostedConsortium
from samples import regression_table

import parley
from parley import durable
from parley.errors import LedgerError, ParleyError
from parley.network.hosting.daemon import Readiness
from parley.network.hosting.journal import Journal
from parley.network.hosting.offer import consider as consider_as_host
from parley.network.hosting.offer import open_host
from parley.network.identity.settings import load_host, load_owner
from parley.network.serving.acceptance import PENDING_SUFFIX, Acceptances, require_both
from parley.network.serving.daemon import open_owner
from parley.network.serving.health import room_problems
from parley.network.serving.offer import consider
from parley.network.serving.opening import ledger_statement, open_ledger
from parley.owner.ledger import connections
from parley.owner.ledger.account import Reservation
from parley.owner.ledger.backup import back_up, restore

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Disk:
    """Refuses the write number `last`, and counts them."""

    def __init__(self, monkeypatch):
        self.writes, self.last = 0, None
        for owner, name in (
            (durable.os, "fsync"),
            (durable.os, "link"),
            (Path, "replace"),
            (Path, "rename"),
            (Path, "mkdir"),
        ):
            monkeypatch.setattr(owner, name, self.before(getattr(owner, name)))
        opened = os.open
        monkeypatch.setattr(
            durable.os, "open", lambda *a, **k: self.before(opened)(*a, **k) if a[1] & os.O_CREAT else opened(*a, **k)
        )
        disk = self

        class Connection(sqlite3.Connection):
            def execute(self, statement, *values):
                if statement == "COMMIT" and self.total_changes:
                    disk.write(sqlite3.OperationalError("database or disk is full"))
                return super().execute(statement, *values)

        connect = sqlite3.connect
        monkeypatch.setattr(connections.sqlite3, "connect", lambda *a, **k: connect(*a, factory=Connection, **k))

    def write(self, error=FULL):
        self.writes += 1
        if self.writes == self.last:
            raise error

    def before(self, call):
        def guarded(*arguments, **named):
            self.write()
            return call(*arguments, **named)

        return guarded


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """An owner's and a host's books before anything was accepted, with what is remembered of them."""
    folder = tmp_path_factory.mktemp("books")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PARLEY_STATE", str(folder / "state"))
        return made_books(folder)


def made_books(folder):
    consortium = HostedConsortium(folder)
    consortium.write_terms("shared.toml", horizon=2, epsilon=1.0)
    HostedConsortium.__mro__[1].write_terms(consortium, "own.toml", horizon=2, epsilon=1.0)
    return folder


pytestmark = pytest.mark.usefixtures("own_state")


def copied(books, folder):
    """A copy of books with all that is remembered of them, as on another machine; `own_state` ends it."""
    shutil.copytree(books, folder)
    os.environ["PARLEY_STATE"] = str(folder / "state")
    return folder


def at_every_write(disk, books, tmp_path, work, check):
    """Do the work with the disk full at each of its writes in turn; `check` looks at what is left. How many writes
    there are."""
    said = []
    for last in range(1, 100):
        folder = tmp_path / str(last)
        disk.last = None
        copied(books, folder)
        disk.writes, disk.last = 0, last
        error = None
        try:
            work(folder)
        except ParleyError as refusal:
            error = refusal
            said.append(str(refusal))
        reached, disk.last = disk.writes >= last, None
        check(folder, error)
        shutil.rmtree(folder)
        if not reached:
            assert error is None
            break
    assert not any("Errno" in sentence or "\n" in sentence for sentence in said)
    assert any("disk is full" in sentence for sentence in said)
    return last - 1


def accept(folder, file="own.toml"):
    offer = consider(parley.load_terms(folder / file), load_owner(folder / "a.toml"))
    try:
        offer.accept()
    finally:
        offer.owner.ledger.close()


def test_accepting_is_whole_or_nothing_and_can_be_repeated(disk, books, tmp_path):
    """The file of the accepted terms was written after the ledger's row: without room for it no daemon started any
    more."""
    kinds = set()

    def check(folder, error):
        settings = load_owner(folder / "a.toml")
        owner = open_owner(settings)  # what a daemon does at its start; it completes what it can
        accounts, files = len(owner.ledger.accounts()), len(Acceptances(settings.accepted).hashes())
        owner.ledger.close()
        assert accounts == files
        assert files == 1 or error is not None
        kinds.add((files, error is None))
        accept(folder)
        owner = open_owner(settings)
        assert owner.ledger.reserved[0] == Fraction(1)
        assert not list(settings.accepted.glob(f"*.{PENDING_SUFFIX}"))
        owner.ledger.close()

    assert at_every_write(disk, books, tmp_path, accept, check) >= 5
    assert kinds == {(0, False), (1, False), (1, True)}  # not accepted; accepted and completed by the start; no trouble


def test_an_interrupted_acceptance_is_completed_only_if_the_ledger_holds_it(books, tmp_path):
    folder = copied(books, tmp_path / "books")
    accept(folder)
    settings = load_owner(folder / "a.toml")
    (done,) = settings.accepted.iterdir()
    done.rename(done.with_suffix(f".{PENDING_SUFFIX}"))  # a crash after the ledger's row
    other = settings.accepted / f"{'0' * 64}.{PENDING_SUFFIX}"
    other.write_text("a crash before it")
    owner = open_owner(settings)
    require_both(owner.ledger, Acceptances(settings.accepted))
    owner.ledger.close()
    assert sorted(path.name for path in settings.accepted.iterdir()) == sorted([other.name, done.name])


def test_a_refusal_leaves_no_file(books, tmp_path):
    folder = copied(books, tmp_path / "books")
    terms = (folder / "own.toml").read_text().replace("epsilon = 1.0", "epsilon = 4.0")
    (folder / "own.toml").write_text(terms)
    accept(folder)
    (folder / "own.toml").write_text(terms.replace("horizon = 2", "horizon = 3"))
    with pytest.raises(ParleyError):
        accept(folder)
    assert len(list((folder / "accepted-a").iterdir())) == 1


def test_a_host_accepts_whole_or_nothing(disk, books, tmp_path):
    def work(folder):
        consider_as_host(parley.load_terms(folder / "shared.toml"), load_host(folder / "h0.toml")).accept()

    def check(folder, error):
        settings = load_host(folder / "h0.toml")
        work(folder)
        journal = Journal(settings.journal)
        (terms,) = Acceptances(settings.accepted).hashes()
        assert journal.begun(terms)
        assert journal.entries == 2  # its memory, and this
        journal.close()

    assert at_every_write(disk, books, tmp_path, work, check) >= 4
    assert HOSTS[0] == "h0"


def test_an_answer_is_stored_whole_or_not_at_all_and_is_the_same_ever_after(disk, books, tmp_path):
    agreed = copied(books, tmp_path / "agreed")
    accept(agreed)

    def work(folder):
        owner = open_owner(load_owner(folder / "a.toml"))
        try:
            terms = parley.load_terms(folder / "own.toml")
            owner.accept(terms)
            return owner.answer(ask(terms)).value.tolist()
        finally:
            owner.ledger.close()

    def check(folder, error):
        ledger = parley.Ledger(folder / "a.ledger")
        ledger.verify()
        accounts = [account for _, account in ledger.accounts()]
        ledger.close()
        assert all(account.spent in (0, Fraction(1, 2)) for account in accounts)
        assert work(folder) == work(folder)

    assert at_every_write(disk, agreed, tmp_path, work, check) >= 2


def test_a_backup_is_whole_or_not_there(disk, books, tmp_path):
    def work(folder):
        ledger = parley.Ledger(folder / "a.ledger")
        try:
            back_up(ledger, folder / "copy.ledger")
        finally:
            ledger.close()

    def check(folder, error):
        left = {path.name for path in folder.iterdir() if "copy.ledger" in path.name}
        assert left in (set(), {"copy.ledger"})
        if left:
            parley.Ledger(folder / "copy.ledger").verify()
        else:
            work(folder)

    assert at_every_write(disk, books, tmp_path, work, check) >= 3


def test_a_restore_leaves_the_old_ledger_or_the_new_one_or_says_where_the_old_one_is(disk, books, tmp_path):
    copied(books, tmp_path / "books")
    ledger = parley.Ledger(tmp_path / "books" / "a.ledger")
    back_up(ledger, tmp_path / "books" / "copy.ledger")
    ledger.close()

    def work(folder):
        restore(folder / "copy.ledger", folder / "a.ledger", "a", [], True)

    def check(folder, error):
        if (folder / "a.ledger").exists():
            parley.Ledger(folder / "a.ledger").close()
        else:
            assert list(folder.glob("a.ledger.replaced-*"))
            assert "replaced-" in str(error)
        assert not list(folder.glob(".a.ledger*"))
        if error is not None and "restored ledger is in place" not in str(error):
            work(folder)
        restored = parley.Ledger(folder / "a.ledger")
        assert restored.reserved == restored.lifetime
        restored.close()

    assert at_every_write(disk, tmp_path / "books", tmp_path, work, check) >= 3


def test_books_are_opened_whole_or_not_at_all(disk, books, tmp_path):
    table = tmp_path / "table.csv"
    regression_table(10, seed=1).to_csv(table, index=False)
    empty = tmp_path / "empty"
    empty.mkdir()

    def as_owner(folder):
        open_ledger(folder / "made" / "a", "a", table, 1.0, 0.0, "127.0.0.1:0")

    def as_host(folder):
        open_host(folder / "made" / "h", "h", "127.0.0.1:0")

    for work in (as_owner, as_host):

        def check(folder, error, work=work):
            assert bool(list(folder.glob("made/*/*.toml"))) is (error is None)
            if error is not None:
                work(folder)

        assert at_every_write(disk, empty, tmp_path / work.__name__, work, check) >= 3


def can_mount():
    return os.geteuid() == 0 and shutil.which("mount") is not None


@pytest.fixture
def small_disk(tmp_path):
    """A real one, of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    made = (
        can_mount()
        and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=False).returncode == 0
    )
    if not made:
        pytest.skip("needs leave to mount a tmpfs")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_real_disk_that_is_full_while_accepting(books, small_disk):
    kinds = set()
    for left in range(0, 200, 12):  # kilobytes
        folder = copied(books, small_disk / "books")
        about = os.statvfs(small_disk)
        (small_disk / "filler").write_bytes(bytes(max(0, about.f_bavail * about.f_frsize - 1024 * left)))
        error = None
        try:
            accept(folder)
        except ParleyError as refusal:
            error = str(refusal)
            assert "Errno" not in error
        (small_disk / "filler").unlink()
        settings = load_owner(folder / "a.toml")
        owner = open_owner(settings)
        kinds.add((len(owner.ledger.accounts()), error is None))
        assert len(owner.ledger.accounts()) == len(Acceptances(settings.accepted).hashes())
        owner.ledger.close()
        accept(folder)
        shutil.rmtree(folder)
    assert {(0, False), (1, True)} <= kinds


class Settled:
    """A host's service and network of which nothing is to be said."""

    hosted, ends = (), datetime.max.replace(tzinfo=UTC)
    witnesses = SimpleNamespace(require_held=lambda: None)


def test_a_host_is_not_ready_while_its_disk_is_full(small_disk):
    """It said so while nothing could be written any more."""
    journal = Journal(small_disk / "h0.journal")
    full = small_disk / "full"
    about = os.statvfs(small_disk)
    for left in (None, 0):
        readiness = Readiness(journal, Acceptances(small_disk / "accepted"), Settled, Settled)
        said = readiness.problems()
        assert said == ([] if left is None else ["nothing can be written where the journal lies (the disk is full)"])
        full.write_bytes(bytes(about.f_bavail * about.f_frsize))
    assert [path.name for path in small_disk.iterdir() if "room" in path.name] == []
    journal.close()


def test_an_owner_is_not_ready_while_its_disk_is_full(monkeypatch, tmp_path, books):
    assert room_problems(tmp_path / "a.ledger", "ledger") == []
    monkeypatch.setattr(os, "posix_fallocate", lambda *arguments: (_ for _ in ()).throw(FULL))
    assert room_problems(tmp_path / "a.ledger", "ledger") == [
        "nothing can be written where the ledger lies (the disk is full)"
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("killed", [False, True])
def test_books_are_looked_at_and_copied_from_a_disk_that_is_read_only(books, small_disk, own_state, tmp_path, killed):
    """Nothing was shown; rows that a killed daemon left in the -wal file must be."""
    made = copied(books, tmp_path / "made")
    accept(made)
    if killed:
        code = f"import os, parley; ledger = parley.Ledger('a.ledger'); ledger.close_terms({terms_of(made)!r}, 'x'); "
        subprocess.run([sys.executable, "-c", code + "os._exit(9)"], cwd=made, check=False)
    for file in (*made.glob("a.*"), *made.glob("accepted-a*")):
        (shutil.copytree if file.is_dir() else shutil.copy)(file, small_disk / file.name)
    assert (small_disk / "a.ledger-wal").exists() is killed
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    settings = load_owner(made / "a.toml")
    expected = ledger_statement("a", settings.ledger, settings.accepted)
    assert expected["agreements"][0]["closed"] is killed
    assert ledger_statement("a", small_disk / "a.ledger", small_disk / settings.accepted.name) == expected
    ledger = parley.Ledger(small_disk / "a.ledger", writes=False)
    assert back_up(ledger, tmp_path / "rescued").hash == expected["head"]
    ledger.close()
    ledger = parley.Ledger(small_disk / "a.ledger")
    with pytest.raises(LedgerError, match="nothing was released"):
        ledger.accept(Reservation("t", "a", "learner", Fraction(1, 10), Fraction(0), 1))
    ledger.close()


def terms_of(folder):
    return parley.load_terms(folder / "own.toml").hash


def test_a_host_without_a_journal_hears_nothing_of_owners(books, tmp_path):
    from parley.network.hosting.daemon import serve

    folder = copied(books, tmp_path / "books")
    (folder / "h0.journal").unlink()
    with pytest.raises(
        LedgerError,
        match=r"no such journal; check the path\. If the journal is lost, put the latest copy back\. To create a first",
    ):
        serve(load_host(folder / "h0.toml"), threading.Event(), None)


def test_what_the_command_says_of_a_full_disk(monkeypatch, capsys):
    from parley.cli import app

    monkeypatch.setattr(app, "app", lambda: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(SystemExit):
        app.main()
    assert "the disk is full" in capsys.readouterr().err
    assert issubclass(LedgerError, ParleyError)
