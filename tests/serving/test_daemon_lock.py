import errno
import fcntl

import pytest

from parley.errors import ExchangeError, LedgerError
from parley.serving.daemon_lock import daemon_lock


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
    with pytest.raises(LedgerError, match="no such ledger; is the path right"), daemon_lock(tmp_path / "b.ledger"):
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
