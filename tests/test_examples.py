"""The worked examples of docs/architecture.md run, each in a process of its own: they add to the catalogue."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "docs" / "examples").glob("*.py"))


# It has no bound on a record and no figures of its own: acceptance says what moves an answer.
ACCEPTED = """
import json
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.warnings import figures, find_warnings

ledger = parley.Ledger("bank.ledger", lifetime=3.0)
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


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_worked_example_runs_and_is_short(example, tmp_path):
    """And the task that only counts can be accepted."""
    code = example.read_text() + (ACCEPTED if example.stem == "add_a_task" else "")
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
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
