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


# What all of them load, once; then every example in a folder and a process of its own.
EACH = """
import os, sys
import parley.learning.train, scipy.stats, sklearn.base
for folder in sys.argv[1:]:
    if not os.fork():
        os.chdir(folder)
        os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT), 2)
        exec(compile(open("example.py").read(), "example.py", "exec"), {"__name__": "__main__"})
        open("done", "w").close()
        break
    os.wait()
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Where each example ran; the task that only counts was accepted as well."""
    made = {example: tmp_path_factory.mktemp(example.stem) for example in EXAMPLES}
    for example, folder in made.items():
        more = ACCEPTED if example.stem == "add_a_task" else ""
        (folder / "example.py").write_text(example.read_text() + more)
    subprocess.run([sys.executable, "-W", "error", "-c", EACH, *made.values()], stdout=subprocess.DEVNULL, check=True)
    return made


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_worked_example_runs_and_is_short(example, folders):
    assert (folders[example] / "done").exists(), (folders[example] / "said").read_text()
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
