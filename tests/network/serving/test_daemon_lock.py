import errno
import fcntl

import pytest

import parley
from parley.errors import ExchangeError, LedgerError
from parley.network.exchange.remote import RemoteOwner
from parley.network.serving.opening import daemon_lock


def test_a_ledger_has_one_daemon_by_whatever_links_it_is_named(tmp_path):
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "a.ledger").touch()
    (tmp_path / "link").symlink_to(tmp_path / "books" / "a.ledger")
    (tmp_path / "folder").symlink_to(tmp_path / "books")
    with daemon_lock(tmp_path / "link"):
        for name in ("books/a.ledger", "folder/a.ledger", "link"):
            with pytest.raises(ExchangeError, match="another daemon serves"), daemon_lock(tmp_path / name):
                pass
    with daemon_lock(tmp_path / "books" / "a.ledger"):
        pass


def test_a_mistyped_path_leaves_nothing_behind(tmp_path):
    with pytest.raises(LedgerError, match="no such ledger; check the path"), daemon_lock(tmp_path / "b.ledger"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_disk_without_locks_is_named(tmp_path, monkeypatch):
    def no_locks(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    (tmp_path / "a.ledger").touch()
    with (
        pytest.raises(ExchangeError, match=r"No locks available\); put the ledger on a local disk"),
        daemon_lock(tmp_path / "a.ledger"),
    ):
        pass


def test_two_daemons_share_no_ledger_no_port_and_no_socket(bank):
    """The second is told so and ends; the first goes on, and terms are accepted while it serves."""
    bank.start()
    first, settings = bank.daemons["a"], bank.folder / "a.toml"
    with pytest.raises(AssertionError, match=r"a.ledger: another daemon serves from this ledger"):
        bank.start("a")
    bank.daemons["a"] = first
    parley.Ledger(bank.folder / "other.ledger", lifetime=1).close()
    other = settings.read_text().replace("a.ledger", "other.ledger")
    (bank.folder / "port.toml").write_text(other.replace("a.sock", "other.sock"))
    with pytest.raises(AssertionError, match="cannot listen at this address"):
        bank.start("port")
    (bank.folder / "sock.toml").write_text(other.replace(str(bank.ports["a"]), "0"))
    with pytest.raises(AssertionError, match=r"a.sock: another daemon already listens"):
        bank.start("sock")
    terms = bank.write_terms()
    bank.accept(terms, relay=True)
    peer = RemoteOwner("a", f"unix:{bank.folder / 'a.sock'}", None)
    assert peer.statement(terms.hash, "learner", 10).rounds == 8
    peer.close()
    bank.kill("a")
    bank.start()  # a daemon that was killed leaves neither its lock nor its socket in the way
