"""What tests of commands share."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_studies():
    """Forecasts of fewer runs and resamples, and fewer and smaller trees: what a command makes of them hangs on no
    digit of theirs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("parley.decisions.forecasting.expectation.WORK", 2e8)
        patched.setattr("parley.decisions.forecasting.expectation.RESAMPLES", 10)
        patched.setattr("parley.decisions.forecasting.search.CHECK_REPLICATES", 12)
        patched.setattr("parley.learning.start.FOLDS", 3)
        patched.setattr("parley.learning.outcome.correction.ITERATIONS", (15, 45))
        patched.setattr("parley.learning.outcome.boosting.LEAVES", (4,))
        yield
