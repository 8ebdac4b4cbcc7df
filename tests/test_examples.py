"""The worked examples of docs/architecture.md run, each in a process of its own: they add to the catalogue."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "docs" / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_worked_example_runs_and_is_short(example):
    run = subprocess.run([sys.executable, "-W", "error", str(example)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert len(example.read_text().splitlines()) < 80


def test_there_is_one_for_each_thing_that_can_be_added():
    assert [path.stem for path in EXAMPLES] == [
        "add_a_kind_of_query",
        "add_a_mechanism",
        "add_a_table_source",
        "add_a_task",
        "add_an_algorithm",
        "add_an_objective",
    ]
