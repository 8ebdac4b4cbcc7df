"""How tests are collected, and which of them may run side by side."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# Modules whose extra is not installed are left out; any other import that fails is an error, never a test file skipped in silence.
collect_ignore = [] if find_spec("flwr") else ["src/parley/network/exchange/flower.py", "src/parley/learning/over_flower.py"]

settings.register_profile("parley", deadline=None)  # no test depends on how busy a machine is
settings.load_profile("parley")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (`-n 2 --dist loadgroup`) a file is run by one of them, so that what a file shares is made once."""
    root = Path(__file__).parent
    for item in items:
        item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(root))))
