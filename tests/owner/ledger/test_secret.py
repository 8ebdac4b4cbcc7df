"""The key beside a ledger: made once, whole, the same for all, and in no backup."""

import threading

import pytest

import parley
from parley.errors import LedgerError
from parley.owner.ledger.backup import back_up


def test_the_secret_is_one_for_all_who_race_for_it_and_not_in_backups(tmp_path):
    path = tmp_path / "a.ledger"
    parley.Ledger(path, 3).close()
    found = []
    barrier = threading.Barrier(8)

    def read():
        ledger = parley.Ledger(path)
        barrier.wait()
        found.append(ledger.secret)
        ledger.close()

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(found[0]) == 32
    secret = tmp_path / "a.ledger.secret"
    assert secret.stat().st_mode & 0o077 == 0
    back_up(parley.Ledger(path), tmp_path / "copy")
    assert found[0] not in (tmp_path / "copy").read_bytes()
    assert not (tmp_path / "copy.secret").exists()


def test_a_damaged_secret_is_no_key(tmp_path):
    ledger = parley.Ledger(tmp_path / "a.ledger", 3)
    (tmp_path / "a.ledger.secret").write_bytes(b"")
    with pytest.raises(LedgerError, match="damaged"):
        _ = ledger.secret
