"""How tests are collected, and which of them may run side by side."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# Modules whose extra is not installed are left out; any other import that fails is an error, never a test file skipped in silence.
collect_ignore = [] if find_spec("flwr") else ["src/parley/network/exchange/flower.py", "src/parley/learning/over_flower.py"]

settings.register_profile("parley", deadline=None)  # no test depends on how busy a machine is
settings.load_profile("parley")

DAEMONS = ("network/", "deploy/", "owner/ledger/", "test_written_before.py", "test_elsewhere.py")  # have processes, ports or clocks


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (`-n 2 --dist loadgroup`) a file is run by one of them, and all that has processes, ports and clocks by the
    same one: such tests share a machine with calculations, but not with each other."""
    root = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(root)
        daemon = place.parts[0] == "tests" and any(part in f"{place.relative_to('tests')}" for part in DAEMONS)
        group = "daemons" if daemon else str(place)
        item.add_marker(pytest.mark.xdist_group(group))
