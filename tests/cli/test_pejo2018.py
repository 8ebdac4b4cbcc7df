"""`parley reproduce pejo2018` without its extra, and with options that do not go together."""

import json
import sys

import pytest
from typer.testing import CliRunner

from parley.cli.app import app


@pytest.fixture
def without_numba(monkeypatch):
    """As on a machine where the extra is not installed."""
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in [name for name in sys.modules if name.startswith("parley.") and name.split(".")[-1] in NEEDING]:
        monkeypatch.delitem(sys.modules, name)


NEEDING = {"factorization", "user_terms", "joint_factorization", "rating_noise", "noisy_ratings"}


def test_without_the_extra_the_command_says_which_one_to_install(without_numba, tmp_path):
    run = CliRunner().invoke(app, ["reproduce", "pejo2018", "--figure", "3", "--data", str(tmp_path)])
    assert run.exit_code != 0
    assert "parley[ratings]" in str(run.exception)


def test_the_published_games_need_no_extra(without_numba):
    run = CliRunner().invoke(app, ["reproduce", "pejo2018", "--json"])
    assert run.exit_code == 0
    assert json.loads(run.stdout)["rows"]


@pytest.mark.parametrize("words", [["--figure", "6"], ["--table", "2"], ["--figure", "3", "--game"], ["--figure", "3"]])
def test_what_does_not_go_together_is_refused(words, monkeypatch):
    monkeypatch.delenv("PARLEY_DATA", raising=False)
    run = CliRunner().invoke(app, ["reproduce", "pejo2018", *words])
    assert run.exit_code != 0
    assert "expected" in str(run.exception)
