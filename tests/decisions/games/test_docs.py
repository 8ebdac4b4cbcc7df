import doctest
from pathlib import Path

import pytest


@pytest.mark.parametrize(("page", "least"), [("games.md", 9), ("together_or_alone.md", 6)])
def test_the_examples_in_the_documentation_run(page, least):
    result = doctest.testfile(str(Path(__file__).parents[3] / "docs" / page), module_relative=False)
    assert result.attempted >= least
    assert result.failed == 0
