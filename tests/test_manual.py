"""The manual is whole: every page has its place, every link leads somewhere, docstrings read, commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from parley.papers.reproduce import COMMANDS

DOCS = Path(__file__).parents[1] / "docs"


def test_it_builds_without_a_warning(tmp_path):
    """All of it is read and every reference looked up; nothing is drawn, which would take as long again."""
    for library in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(library, reason="the manual needs the extra parley[docs]")
    words = ["-q", "-W", "--keep-going", "-b", "dummy", "-d", tmp_path / "read", DOCS, tmp_path / "built"]
    built = subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr


def test_what_shows_an_erratum_exists():
    named = re.findall(r"`parley reproduce ([\w-]+) --(figure|table) (\S+?)[ `]", (DOCS / "errata.md").read_text())
    assert len(named) > 15
    there = {(paper.name, exhibit.option, exhibit.word) for paper in COMMANDS for exhibit in paper.exhibits}
    assert set(named) - there == set()


def test_every_word_of_the_glossary_stands_once_and_in_order():
    rows = [line for line in (DOCS / "glossary.md").read_text().splitlines() if line.startswith("| ")][1:]
    words = [row.split("|")[1].strip().lower() for row in rows]
    assert words == sorted(set(words))
    assert all(row.count("|") == 3 for row in rows)
