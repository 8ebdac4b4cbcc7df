"""The tutorials run as they are written: every block, in its order, in a folder of its own."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from newcomer import typed

TUTORIALS = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.md"))
GUIDE = TUTORIALS[0].parents[1] / "two_files.md"  # how to install is typed by nobody here: a block "console"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_there_are_four():
    assert [page.stem for page in TUTORIALS] == ["bank", "hospital", "plant", "recommender"]


@pytest.mark.parametrize("page", [*TUTORIALS, GUIDE], ids=lambda page: page.stem)
def test_every_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.stem == "recommender":
        pytest.importorskip("numba", reason="ratings need the extra parley-dp[ratings]")
    names: dict[str, object] = {}
    blocks = [each for each in BLOCK.findall(page.read_text(encoding="utf-8")) if page != GUIDE or each[0] != "console"]
    assert {language for language, _ in blocks} <= {"python", "sh", "toml"}
    for language, text in blocks:
        {"python": in_python, "sh": in_shell, "toml": to_file}[language](text, names)


def in_python(text, names):
    """What is printed is what stands there; names last from block to block."""
    example = doctest.DocTestParser().get_doctest(text, names, "block", None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example, clear_globs=False)
    names.update(example.globs)
    assert runner.summarize(verbose=False).failed == 0
    assert example.examples


def in_shell(text, names):
    for line in filter(None, text.splitlines()):
        program, *words = shlex.split(line, comments=True)
        assert program == "parley"
        done = typed(*words)
        assert done.code == 0, f"{line}\n{done.said}"


def to_file(text, names):
    """The first line says which file it is."""
    first, _ = text.split("\n", 1)
    Path(first.removeprefix("# ")).write_text(text, encoding="utf-8")
