import doctest
from pathlib import Path


def test_the_examples_in_the_documentation_run():
    page = Path(__file__).parents[2] / "docs" / "games.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 8
    assert result.failed == 0
