"""The guarantee and the architecture name where things live; the places exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["guarantee.md", "architecture.md"])
def test_every_file_that_a_document_names_exists(page):
    named = re.findall(r"`([a-z_]+/[a-z_/]*\.py|[a-z_]+/|[a-z_]+\.py)`", (ROOT / "docs" / page).read_text())
    assert named
    rooms = ROOT / "src"
    assert [name for name in named if not (ROOT / name).exists() and not list(rooms.glob(f"**/{name}"))] == []


def steps_and_premises():
    """(the cells of every step, {premise: its cells}) of guarantee.md."""
    lines = (ROOT / "docs" / "guarantee.md").read_text().splitlines()
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("| ")]
    stripped = [[cell.strip() for cell in row] for row in cells]
    premises = {row[0]: row for row in stripped if re.fullmatch(r"[FT]\d", row[0])}
    return [row for row in stripped if row[0] not in {*premises, "step", ""}], premises


def test_every_step_names_what_it_rests_on_and_the_test_that_watches_it():
    steps, premises = steps_and_premises()
    used = set()
    for row in steps:
        assert len(row) == 4, row[0]
        said = re.fullmatch(r"(none|[FT]\d(?: [FT]\d)*); (`tests/\S+\.py`(?:, `tests/\S+\.py`)*)", row[3])
        assert said, (row[0], row[3])
        used |= {*said[1].split()} - {"none"}
    assert len(steps) > 50
    assert used == {*premises}  # nothing is named that is not said, and nothing said in vain


def test_every_premise_has_a_test():
    _, premises = steps_and_premises()
    assert all(re.search(r"`tests/\S+\.py`", row[2]) for row in premises.values())
    assert [*premises] == [*(f"F{k}" for k in range(1, 10)), "T1", "T2"]


def test_every_test_that_the_guarantee_names_exists():
    named = {*re.findall(r"`(tests/\S+?\.py)`", (ROOT / "docs" / "guarantee.md").read_text())}
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).is_file()] == []
