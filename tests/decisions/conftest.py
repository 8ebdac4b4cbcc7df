"""What tests of decisions share."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def smaller_trees(request):
    """Boosted trees of one size, beside forecasts and plans: only tests about trees hang on which size they have."""
    with pytest.MonkeyPatch.context() as patched:
        if "tree" not in request.module.__name__:
            patched.setattr("parley.learning.outcome.boosting.LEAVES", (4,))
        yield
