"""The tutorials run as they are written: every block, in its order, in a folder of its own."""

from pathlib import Path

import pytest
from blocks import blocks, in_python, in_shell
from quick import quick_studies

TUTORIALS = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.md"))


@pytest.fixture(scope="module", autouse=True)
def quick():
    with quick_studies():
        yield


def test_there_are_three():
    assert [page.stem for page in TUTORIALS] == ["bank", "hospital", "recommender"]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.stem == "recommender":
        pytest.importorskip("numba", reason="ratings need the extra parley-dp[ratings]")
    names: dict[str, object] = {}
    for block in blocks(page):
        assert block.language in ("python", "sh", "toml")
        assert block.reason is None
        if block.language == "python":
            in_python(block.text, names)
        elif block.language == "sh":
            in_shell(block.text)
        else:
            to_file(block.text)


def to_file(text):
    """The first line says which file it is."""
    first, _ = text.split("\n", 1)
    Path(first.removeprefix("# ")).write_text(text, encoding="utf-8")
