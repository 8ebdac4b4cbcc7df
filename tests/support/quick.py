"""Forecasts of fewer runs, folds and resamples, and fewer and smaller trees: for tests of what is made of them, which
hangs on no digit of theirs."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SETTINGS = {
    "decisions.expectation.expectation.MAX_OPERATIONS": 2e8,
    "decisions.expectation.expectation.RESAMPLES": 10,
    "decisions.planning.search.SEARCH_REPLICATES": 4,
    "decisions.planning.search.CHECK_REPLICATES": 12,
    "learning.start.FOLDS": 3,
    "learning.outcome.tree_study.ITERATIONS": (10, 30),
    "learning.outcome.boosting.LEAF_COUNTS": (4,),
}


@contextmanager
def quick_studies() -> Iterator[None]:
    """While it lasts, in this process."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in SETTINGS.items():
            patched.setattr(f"parley.{name}", value)
        yield
