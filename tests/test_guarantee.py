"""The guarantee and the architecture name where things live; the places exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["guarantee.md", "architecture.md"])
def test_every_file_that_a_document_names_exists(page):
    named = re.findall(r"`([a-z_]+/[a-z_/]*\.py|[a-z_]+/|[a-z_]+\.py)`", (ROOT / "docs" / page).read_text())
    assert named
    rooms = ROOT / "src" / "parley"
    assert [name for name in named if not (ROOT / name).exists() and not list(rooms.glob(f"**/{name}"))] == []
