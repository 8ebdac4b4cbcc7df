"""Forecasts by one thread of linear algebra, also where several are made at once."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from parley.data.blocks import one_thread


def threads():
    """How many threads each library of linear algebra has that has one number for the process."""
    np.ones((2, 2)) @ np.ones((2, 2))  # loaded with numpy
    return [each["num_threads"] for each in threadpool_info() if each.get("threading_layer") == "pthreads"]


def elsewhere(work):
    """What work gives in a thread that has ended: only one that lives is in the way of others that set limits."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture
def two():
    limits = elsewhere(lambda: threadpool_limits(2))
    if set(threads()) != {2}:
        pytest.skip("linear algebra has one thread here")
    yield
    elsewhere(limits.restore_original_limits)


@pytest.mark.usefixtures("two")
def test_forecasts_that_overlap_leave_as_many_threads_as_there_were():
    seen = []
    first_in, first_out, second_in = threading.Event(), threading.Event(), threading.Event()

    @one_thread
    def first():
        seen.extend(threads())
        first_in.set()
        second_in.wait(5)

    @one_thread
    def second():
        second_in.set()
        first_out.wait(5)

    one, other = threading.Thread(target=first), threading.Thread(target=second)
    one.start()
    first_in.wait(5)
    other.start()
    one.join()
    first_out.set()
    other.join()
    assert set(seen) == {1}
    assert set(threads()) == {2}


@pytest.mark.usefixtures("two")
def test_work_that_fails_gives_the_threads_back():
    @one_thread
    def work():
        assert set(threads()) == {1}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert set(threads()) == {2}
