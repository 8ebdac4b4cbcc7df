"""How tests are collected."""

import gc
from importlib.util import find_spec

import pytest
from hypothesis import settings

# Modules whose extra is not installed are left out; any other import that fails is an error, never a test file skipped
# in silence.
collect_ignore = (
    [] if find_spec("flwr") else ["src/parley/network/exchange/flower.py", "src/parley/learning/over_flower.py"]
) + ([] if find_spec("torch") else ["src/parley/tasks/networks", "src/parley/papers/chase2017/tables.py"])

gc.disable()  # what is loaded now stays: looking through it would take longer than many a test

settings.register_profile("parley", deadline=None)  # no test depends on how busy a machine is
settings.load_profile("parley")

LONG = (
    "tests/test_wheel.py",
    "tests/test_other_kernels.py",
    "tests/papers/wu2019",
    "tests/network/exchange/test_other",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no worker is left with one of them at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
