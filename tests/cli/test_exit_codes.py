"""Exit codes: the guide's list, the manual pages and the code say the same."""

import ast
import re
from pathlib import Path
from unittest import mock

import pytest
import typer
from newcomer import typed

import parley
from parley.cli.acceptance import accept_or_exit
from parley.cli.app import Part
from parley.cli.man import EXIT_CODES

ROOT = Path(__file__).parents[2]


def test_the_guide_has_the_same_list():
    rows = re.findall(r"^- (\d+): (.*)$", (ROOT / "docs" / "installing.md").read_text(), re.M)
    assert {int(code): text for code, text in rows} == EXIT_CODES


def test_no_command_leaves_with_another_code():
    left = []
    for file in Path(parley.__file__).parents[1].rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"(Exit|exit)\(", text) else ():
            if isinstance(node, ast.Call) and re.search(r"\b(Exit|exit|SystemExit)$", ast.unparse(node.func)):
                left += [word.value for word in node.args if isinstance(word, ast.Constant)]
    assert set(left) == {1, 2}
    assert len(left) >= 6


def test_what_is_done_is_0_and_a_mistake_is_2(tmp_path):
    assert typed("--version").code == 0
    for words in (("train", tmp_path / "nowhere.toml"), ("train", "--no-such-option"), ("tran",)):
        told = typed(*words)
        assert (told.code, told.out) == (2, "")
        assert "Traceback" not in told.err
    assert "RestartPreventExitStatus=2" in (ROOT / "deploy" / "parley-owner@.service").read_text()


def test_a_person_that_says_no_leaves_1(capsys):
    with pytest.raises(typer.Exit) as end:
        accept_or_exit(mock.Mock(), "0" * 64, agreed=False, as_json=False, inside=True)
    assert end.value.exit_code == 1
    assert "Nothing was accepted" in capsys.readouterr().err


def test_an_interruption_leaves_130_and_no_traceback():
    with mock.patch.object(Part, "load", side_effect=KeyboardInterrupt):
        told = typed("demo")
    assert (told.code, told.said.strip()) == (130, "")
