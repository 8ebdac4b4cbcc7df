"""The worked examples of docs/architecture.md run, each in a process of its own: they add to the catalogue.

Each says which files of the package the same addition touches, and it is no more than `MOST_FILES`.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "docs" / "examples").glob("*.py"))
PACKAGE = Path(__file__).parents[1] / "src" / "parley"
MOST_FILES = {
    "add_a_kind_of_query": 6,
    "add_a_mechanism": 3,
    "add_a_table_source": 2,
    "add_a_task": 4,
    "add_an_algorithm": 4,
    "add_an_attack": 3,
    "add_an_objective": 3,
    "add_an_option": 2,
}


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
assert "A person changes an answer by at most 0.00025. The noise has scale" in said
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
    assert len(example.read_text().splitlines()) < 100


def test_the_files_that_the_table_names_are_there():
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    table = text.partition("## Where to change what")[2].partition("## Adding")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    named = [re.findall(r"`([\w/]+(?:\.py|/))`", row) for row in rows]
    assert len(rows) == 5
    assert all(named)
    places = {name for names in named for name in names if not name.startswith("docs/")}
    assert {name for name in places if (PACKAGE / name).exists()} == places


def test_there_is_one_for_each_thing_that_can_be_added():
    assert [path.stem for path in EXAMPLES] == list(MOST_FILES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_in_the_package_it_touches_few_files(example):
    text = example.read_text()
    said = str(ast.get_docstring(ast.parse(text))).partition("In the package:")[2]
    files = re.findall(r"([\w/]+\.py)( \(new\))?", said)
    assert 0 < len(files) <= MOST_FILES[example.stem]
    assert [file for file, new in files if (PACKAGE / file).exists() is bool(new)] == []
    known = "".join((PACKAGE / file).read_text() for file, new in files if not new)
    filled = {*re.findall(r"^(?:\w+\.)?([A-Z_]+)\[", text, re.MULTILINE)}  # registries, defined where it says
    assert {name for name in filled if re.search(rf"^{name}\b", known, re.MULTILINE)} == filled
