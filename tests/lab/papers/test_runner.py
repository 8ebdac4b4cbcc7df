"""What all documents share: what they register is there, what is asked for is found, nothing is loaded too early."""

import json
import subprocess
import sys

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import SettingError
from parley_lab.papers import runner
from parley_lab.papers.aarhus2020.document import DOCUMENT as AARHUS
from parley_lab.papers.chase2017.document import DOCUMENT as CHASE
from parley_lab.papers.document import Document, Exhibit, Shown, Titled
from parley_lab.papers.hitaj2017.document import DOCUMENT as HITAJ
from parley_lab.papers.pejo2018.document import DOCUMENT as PEJO
from parley_lab.papers.wu2019.document import DOCUMENT as WU
from parley_lab.papers.wu2019_thesis.document import DOCUMENT as THESIS
from parley_lab.papers.zawacki2024.document import DOCUMENT as ZAWACKI

ALL = {document.name: document for document in (AARHUS, CHASE, HITAJ, PEJO, WU, THESIS, ZAWACKI)}
NEEDS_TORCH = ("chase2017", "hitaj2017")
HEAVY = ("numpy", "pandas", "scipy", "matplotlib", "sklearn", "parley.terms")


@pytest.mark.parametrize("document", ALL.values(), ids=ALL)
def test_every_function_that_is_registered_is_there(document):
    if document.name in NEEDS_TORCH:
        pytest.importorskip("torch", reason="networks need PyTorch")
    assert len({(each.option, each.word) for each in document.exhibits}) == len(document.exhibits)
    for each in document.exhibits:
        assert callable(document.load(each.compute))
        assert each.draw is None or callable(document.load(each.draw))


def test_help_and_lists_load_no_library_of_statistics():
    """In one process: help of every document, and what it lists."""
    script = f"""
import sys
from typer.testing import CliRunner
from parley.cli.app import app
for words in (["--help"], *([name, option] for name in {list(ALL)} for option in ("--help", "--list"))):
    assert CliRunner().invoke(app, ["reproduce", *words]).exit_code == 0, words
print([name for name in {HEAVY} if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_what_there_is_can_be_listed():
    found = json.loads(CliRunner().invoke(app, ["reproduce", "pejo2018", "--list", "--json"]).stdout)["exhibits"]
    five = next(each for each in found if each["word"] == "5")
    assert five["options"] == ["game", "discount", "prior"]
    assert "ml1m.parquet" in five["data"]
    assert "--study forecast" in CliRunner().invoke(app, ["reproduce", "pejo2018", "--list"]).output


@pytest.mark.parametrize(
    ("document", "option", "word", "said"),
    [
        (WU, "figure", "12", r"--figure 12: expected one of 2, 3, .*, 11$"),
        (AARHUS, "figure", "3", r"did you mean --table 3\?"),
        (ZAWACKI, "figure", "best-alfa", r"did you mean best-alpha\?"),
        (PEJO, "study", "mechanism", r"did you mean mechanisms\?"),
    ],
)
def test_an_unknown_name_is_refused_with_a_suggestion(document, option, word, said):
    with pytest.raises(SettingError, match=said):
        runner.choose(document, {option: [word]})


def test_an_option_that_belongs_elsewhere_is_refused_even_if_it_is_nought():
    with pytest.raises(SettingError, match="--discount: expected figure-5"):
        PEJO.require_options([PEJO.find("figure", "3")], {"game": False, "discount": 0.0, "prior": None})
    PEJO.require_options([PEJO.find("figure", "3"), PEJO.find("figure", "5")], {"game": True, "discount": 0.0})


def first(bench, word, progress):
    parts = [Titled("Shared", [["a"], [bench]]), "own remark"]
    findings = [["own " + word, "1"], ["shared", word]]
    return Shown({"figures": [word], "tables": {"x": 1}}, parts, (2.0,), notes=["said once"], findings=findings)


def drawing(width):
    return Figure(figsize=(width, width))


@pytest.fixture
def made(monkeypatch):
    """A document of two figures that share a table, a note and a finding."""
    monkeypatch.setattr(Document, "load", lambda self, function: {"first": first, "drawing": drawing}[function])
    exhibits = tuple(Exhibit("figure", word, "", "first", "drawing") for word in ("1", "2"))
    return Document("made", exhibits, findings=("Found", ("ours",)))


def test_two_exhibits_say_once_what_they_share_and_are_drawn_each(made, tmp_path, capsys):
    runner.show(made, lambda asked: ",".join(asked.names), {"figure": ["2", "1", "2"]}, out=tmp_path / "new" / "v1.0")
    said = capsys.readouterr().out
    assert (said.count("said once"), said.count("Shared"), said.count("Found"), said.count("own remark")) == (
        1,
        1,
        1,
        2,
    )
    assert "figure-2,figure-1" in said
    assert {path.name for path in (tmp_path / "new" / "v1.0").iterdir()} == {"figure-1.png", "figure-2.png"}


def test_one_object_holds_what_all_exhibits_have(made, tmp_path, capsys):
    runner.show(made, lambda asked: "", {}, out=tmp_path, as_json=True)
    content = json.loads(capsys.readouterr().out)
    assert content["figures"] == ["1", "2"]
    assert content["tables"] == {"x": 1}
    assert [found["what"] for found in content["findings"]] == ["own 1", "own 2", "shared"]
    assert (content["notes"], content["folder"]) == (["said once"], str(tmp_path))


def test_what_cannot_be_drawn_or_written_is_refused_before_the_work(tmp_path):
    def bench(asked):
        raise AssertionError("nothing should be computed")

    with pytest.raises(SettingError, match="--out: expected something that can be drawn: figure-3"):
        runner.show(PEJO, bench, {"table": ["3"]}, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(SettingError, match="a file name that ends in"):
        runner.show(THESIS, bench, {}, plot=tmp_path / "c.gif")
