import multiprocessing
import os
import shutil
import signal
import sqlite3
import threading
import time
from fractions import Fraction

import numpy as np
from bookkeeping import COST, each, filled, query, reserve, value

from parley.owner.ledger import Ledger

FORK = multiprocessing.get_context("fork")


def test_a_long_draw_keeps_nobody_from_reading_and_accepting(tmp_path):
    """Noise for many numbers takes long; meanwhile others stand, accept and get stored answers, from this and other
    processes."""
    path = filled(tmp_path)
    ledger, other = Ledger(path), Ledger(path)
    began, go, told = threading.Event(), threading.Event(), []

    def draw():
        began.set()
        assert go.wait(30)
        return np.ones(3)

    thread = threading.Thread(target=lambda: told.append(ledger.answer(query(5), each, {}, lambda: draw)))
    thread.start()
    assert began.wait(30)
    for each_ledger, terms in ((ledger, "u"), (other, "v")):
        assert each_ledger.account("t").answered == 4
        each_ledger.accept(reserve(terms, Fraction(1, 2), 1))
        np.testing.assert_array_equal(each_ledger.answer(query(4), each, {}, value(9.0))[0], 4.0)
        each_ledger.verify()
    assert not told
    go.set()
    thread.join(30)
    assert told[0][1].head == ledger.head
    assert ledger.verify() == 9


def _draw_slowly(path, log):
    ledger = Ledger(path)

    def draw():
        with log.open("ab", buffering=0) as file:
            file.write(b".")
        time.sleep(0.01)
        return np.full(3, float(os.getpid()))

    for k in range(1, 6):
        ledger.answer(query(k), each, {}, lambda: draw)
    ledger.close()


def test_processes_that_ask_the_same_question_draw_once_for_each_answer(tmp_path):
    path, log = filled(tmp_path, answers=0), tmp_path / "draws"
    crowd = [FORK.Process(target=_draw_slowly, args=(path, log)) for _ in range(4)]
    [process.start() for process in crowd]
    [process.join() for process in crowd]
    assert [process.exitcode for process in crowd] == [0] * 4
    assert len(log.read_bytes()) == 5
    assert Ledger(path).account("t").spent == 5 * COST


def _draw_for_ever(path, began):
    def draw():
        began.set()
        time.sleep(60)

    Ledger(path).answer(query(5), each, {}, lambda: draw)


def test_who_dies_with_a_draw_in_hand_released_nothing_and_blocks_nobody(tmp_path):
    path, began = filled(tmp_path), FORK.Event()
    child = FORK.Process(target=_draw_for_ever, args=(path, began))
    child.start()
    assert began.wait(30)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    ledger = Ledger(path)
    assert ledger.account("t").spent == 4 * COST
    np.testing.assert_array_equal(ledger.answer(query(5), each, {}, value(5.0))[0], 5.0)


def test_a_plain_copy_of_the_file_lacks_little(tmp_path):
    """What waits in the -wal file is brought into the file often: a copy of the file alone once had 1 of 163 rows."""
    path = filled(tmp_path, answers=0, rounds=161)
    ledger = Ledger(path)
    lacking = []
    for k in range(1, 162):
        ledger.answer(query(k), each, {}, value())
        shutil.copy(path, tmp_path / "copy")
        with sqlite3.connect(tmp_path / "copy") as db:
            lacking.append(ledger.head.entries - db.execute("SELECT COUNT(*) FROM entries").fetchone()[0])
    assert max(lacking) < 80
    ledger.remember()
    shutil.copy(path, tmp_path / "copy")
    with sqlite3.connect(tmp_path / "copy") as db:
        assert db.execute("SELECT COUNT(*) FROM entries").fetchone()[0] == ledger.head.entries
    ledger.close()
