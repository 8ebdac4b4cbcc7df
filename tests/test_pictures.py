"""Every picture of README and documents is drawn by something that one can type."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from parley.cli.app import PART_BY_COMMAND
from parley.terms import load_terms

ROOT = Path(__file__).parents[1]
BY_SCRIPTS = ("house.png", "studio/")


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["pictures"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["pictures"]


def shown():
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        yield from re.findall(r"\]\((?:docs/)?images/([\w./-]+\.png)\)", page.read_text(encoding="utf-8"))


def test_every_picture_can_be_drawn_again(pictures):
    drawn = [drawing.picture for drawing in pictures.DRAWINGS]
    assert len(drawn) == len(set(drawn))
    assert {picture for picture in shown() if not picture.startswith(BY_SCRIPTS)} == set(drawn)
    assert ROOT / "docs" / "draw_house.py" in set(pictures.scripts())


def test_what_draws_them_exists(pictures):
    for words in (line.split() for drawing in pictures.DRAWINGS for line in drawing.typed):
        assert words[0] in ("parley", "python", "cp")
        if words[0] == "parley":
            assert words[1] in PART_BY_COMMAND
        if words[0] == "python":
            assert Path(words[1]).is_file()


def test_terms_come_from_documents_or_are_made_up(pictures, tmp_path):
    pictures.clinics(tmp_path)
    assert load_terms(tmp_path / "clinics.toml").owners[0].name == "clinic-a"
    assert len(load_terms(tmp_path / "alike.toml").owners) == 3
    for document in ("counts.md", "trees.md"):
        (tmp_path / "terms.toml").write_text(pictures.first_terms(document))
        assert load_terms(tmp_path / "terms.toml").owners


def test_a_picture_without_its_table_is_left_as_it_is(pictures, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(pictures, "DATA", tmp_path)
    monkeypatch.setattr(sys, "argv", ["pictures.py", "counts", "--to", str(tmp_path)])
    pictures.main()
    assert "left as it is, for want of adult.parquet" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
