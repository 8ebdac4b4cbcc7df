"""What is found once for all who ask in a process."""

import threading

import numpy as np
import pytest

from parley.data.blocks import Remembered


def test_who_waits_for_work_gets_it_whatever_others_ask_for_meanwhile():
    """Another thread evicts a result right after it was put in."""
    remembered = Remembered[int](max_entries=1)

    class Evicting(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            if key == b"mine":
                self.pop(key)

    remembered._known = Evicting()
    assert remembered.get(b"mine", lambda: 3) == 3


def test_threads_that_ask_at_once_get_what_they_asked_for():
    remembered, wrong = Remembered[int](max_entries=2), []

    def ask(first):
        for number in range(first, first + 2000):
            if remembered.get(bytes([number % 5]), lambda number=number: number % 5) != number % 5:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(remembered._known) <= 2


def test_nobody_writes_to_an_array_that_others_are_given():
    remembered = Remembered[np.ndarray](max_entries=2)
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            remembered.get(b"key", lambda: np.zeros(3))[0] = 1.0
