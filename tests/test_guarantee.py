"""The proofs and the architecture name where things live; the places exist. Every step of a proof says what it rests
on and which test watches it."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROOFS = sorted((ROOT / "docs" / "proofs").glob("*.md"))
spec = spec_from_file_location("make_premises", ROOT / "docs" / "make_premises.py")
assert spec is not None
assert spec.loader is not None
make_premises = module_from_spec(spec)
spec.loader.exec_module(make_premises)


@pytest.mark.parametrize("page", [*PROOFS, ROOT / "docs" / "architecture.md"], ids=lambda page: page.stem)
def test_every_file_that_a_document_names_exists(page):
    named = re.findall(r"`([a-z_]+/[a-z_/]*\.py|[a-z_]+/[a-z_/]*/|[a-z_]+/|[a-z_]+\.py)`", page.read_text())
    assert named
    rooms = ROOT / "src"
    assert [name for name in named if not (ROOT / name).exists() and not list(rooms.glob(f"**/{name}"))] == []


def test_every_step_names_what_it_rests_on_and_the_test_that_watches_it():
    steps = make_premises.steps()
    assert [heading for heading, found in steps.items() if found is None] == []
    assert len(steps) > 50
    used = {word for found in steps.values() for word in found["premises"].split()} - {"none"}
    assert used == {*make_premises.premises()}  # nothing is named that is not said, and nothing said in vain


def test_every_premise_is_stated_and_has_a_test():
    premises = make_premises.premises()
    assert [*premises] == [*(f"F{k}" for k in range(1, 10)), "T1", "T2"]
    assert all(tests for _, tests in premises.values())


def test_the_page_of_premises_is_what_docstrings_and_proofs_say():
    """Else run docs/make_premises.py."""
    assert make_premises.PAGE.read_text(encoding="utf-8") == make_premises.page()


def test_every_test_that_the_proofs_name_exists():
    named = {name for page in PROOFS for name in re.findall(r"`(tests/\S+?\.py)`", page.read_text())}
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).is_file()] == []
