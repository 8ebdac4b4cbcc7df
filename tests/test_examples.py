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


def test_the_task_that_only_counts_can_be_accepted(tmp_path):
    """It has no bound on a record and no figures of its own: acceptance says what moves an answer."""
    accepting = f"""
import json
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.warnings import figures, find_warnings

ledger = parley.Ledger({str(tmp_path / "bank.ledger")!r}, lifetime=3.0)
owner = parley.Owner("bank", book.drop(columns=[c for c in book if "id" in c]), ledger=ledger)
agreement = owner.prepare(terms)
found = figures(agreement)
json.dumps(found, allow_nan=False)
assert (found["record_bound"], found["clips"], found["norm"]) == (None, False, "l1")
assert found["sensitivity"] > 0
said = " ".join(acceptance_summary(owner, agreement))
assert "A person moves an answer by at most 0.00025; the noise has scale" in said
assert "counts at most" not in said
assert find_warnings(owner, agreement) == []
"""
    [example] = [path for path in EXAMPLES if path.stem == "add_a_task"]
    run = subprocess.run(
        [sys.executable, "-c", example.read_text() + accepting], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_there_is_one_for_each_thing_that_can_be_added():
    assert [path.stem for path in EXAMPLES] == [
        "add_a_kind_of_query",
        "add_a_mechanism",
        "add_a_table_source",
        "add_a_task",
        "add_an_algorithm",
        "add_an_objective",
    ]
