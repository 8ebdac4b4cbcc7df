"""What tests of commands share."""

import pytest
from quick import quick_studies


@pytest.fixture(autouse=True, scope="module")
def quick():
    with quick_studies():
        yield
