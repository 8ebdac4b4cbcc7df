"""What tests of decisions share."""

import pytest

# What trees, folds and replicates say is asked by these; to the others they only stand beside.
WHOLE = ("planner", "trees", "baselines", "grown_sample", "public_margin", "sources", "refits")


@pytest.fixture(autouse=True, scope="module")
def smaller_studies(request):
    """Boosted trees of one size, fewer folds of the public sample, and fewer runs that check a plan."""
    with pytest.MonkeyPatch.context() as patched:
        if not request.module.__name__.endswith(WHOLE):
            patched.setattr("parley.learning.outcome.boosting.LEAF_COUNTS", (4,))
            patched.setattr("parley.learning.start.FOLDS", 4)
            patched.setattr("parley.decisions.planning.search.CHECK_REPLICATES", 24)
        yield
