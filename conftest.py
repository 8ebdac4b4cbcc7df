"""How tests are collected."""

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

# Modules whose extra is not installed are left out; any other import that fails is an error, never a test file skipped
# in silence.
collect_ignore = (
    [] if find_spec("flwr") else ["src/parley/network/exchange/flower.py", "src/parley/learning/over_flower.py"]
) + (
    []
    if find_spec("torch")
    else [
        "src/parley_lab/attacks/generated_images.py",
        "src/parley_lab/attacks/network_gradients.py",
        "src/parley_lab/papers/chase2017/tables.py",
        "src/parley_lab/papers/hitaj2017",
        "src/parley/tasks/networks",
    ]
)

# Ledgers wait for the disk after every answer: tests write to memory where it has room and programs may start from it.
MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder there that is its user's alone
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2**31 and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# What parties remember stays out of the developer's state folder, in subprocesses too.
os.environ["PARLEY_STATE"] = tempfile.mkdtemp(prefix="parley-state-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
atexit.register(shutil.rmtree, os.environ["PARLEY_STATE"], ignore_errors=True)

# what `make test` leaves to `make test-all` (tests/list_slow.py)
SLOW = frozenset((Path(__file__).parent / "tests" / "slow.txt").read_text(encoding="utf-8").split())

gc.disable()  # what is loaded now stays: looking through it would take longer than many a test

settings.register_profile("parley", deadline=None)  # no test depends on how busy a machine is
settings.load_profile("parley")

# The longest first, so that no worker is left with one of them at the end: `--no-loadscope-reorder` keeps the order.
LONG = (
    "tests/test_wheel.py",
    "tests/test_other_kernels.py",
    "tests/network/exchange/test_other_machines.py",
    "tests/test_benchmarks.py",
    "tests/test_examples.py",
    "tests/test_tutorials.py",
    "tests/test_documents.py",
    "tests/test_notebooks.py",
    "tests/test_manual.py",
    "tests/lab/papers/wu2019",
    "tests/decisions",
    "tests/cli",
    "tests/network",
    "tests/learning",
)


@pytest.fixture(autouse=True)
def _nothing_noted_of_tables() -> None:
    """Tests use the same small tables over and over, each with books of its own."""
    for note in Path(os.environ["PARLEY_STATE"], "tables").glob("*.npz"):
        note.unlink(missing_ok=True)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Examples are looked for where somebody wrote one: to look through every module took each worker seconds."""
    found = yield
    if file_path.suffix == ".py" and ">>>" not in file_path.read_text(encoding="utf-8"):
        return [each for each in found if not isinstance(each, DoctestModule)]
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.partition("[")[0] in SLOW:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: next((k for k, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG)))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
