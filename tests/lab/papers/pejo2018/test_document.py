"""`parley reproduce pejo2018` without its extra, and with options that do not go together."""

import json
import re
import sys

import pytest
from measured import measured_gains
from typer.testing import CliRunner

from parley.cli.app import app


@pytest.fixture
def without_numba(monkeypatch):
    """As on a machine where the extra is not installed."""
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in [name for name in sys.modules if name.startswith("parley.") and name.split(".")[-1] in NEEDING]:
        monkeypatch.delitem(sys.modules, name)


NEEDING = {
    "factorization",
    "user_terms",
    "rating_noise",
    "noisy_ratings",
    "measurements",
    "open_ends",
}


def test_without_the_extra_the_command_says_which_one_to_install(without_numba, tmp_path):
    run = CliRunner().invoke(app, ["reproduce", "pejo2018", "--figure", "3", "--data", str(tmp_path)])
    assert run.exit_code != 0
    assert "parley-dp[ratings]" in str(run.exception)


def test_the_published_games_need_no_extra_and_say_what_disagrees(without_numba):
    run = CliRunner().invoke(app, ["reproduce", "pejo2018", "--json"])
    assert run.exit_code == 0
    assert sum(not row["agrees"] for row in json.loads(run.stdout)["rows"]) == 6
    assert "recomputed" in CliRunner().invoke(app, ["reproduce", "pejo2018"]).output


@pytest.mark.parametrize("words", [["--figure", "6"], ["--table", "2"], ["--figure", "3", "--game"], ["--figure", "3"]])
def test_what_does_not_go_together_is_refused(words, monkeypatch):
    monkeypatch.delenv("PARLEY_DATA", raising=False)
    run = CliRunner().invoke(app, ["reproduce", "pejo2018", *words])
    assert run.exit_code != 0
    assert re.search("expected|not allowed", str(run.exception))


@pytest.fixture
def measured(tmp_path):
    (tmp_path / "five.json").write_text(json.dumps(measured_gains()))
    return str(tmp_path / "five.json")


def said(*words):
    run = CliRunner().invoke(app, ["reproduce", "pejo2018", *words, "--json"])
    assert run.exit_code == 0, run.output
    return json.loads(run.stdout)


def test_points_measured_before_are_played_on_without_the_data(measured, without_numba):
    """2 - p - p' - C/B (1 - p): at C/B = 1 open is as good as anything, at 3 everybody keeps the most that pays; by
    hand."""
    found = said("--points", measured, "--game", "--prior", "0.2,5", "--discount", "0.5")
    even = next(one for one in found["games"] if one["concern"] == [1.0, 1.0])
    assert even["on_points"]["payoff"] == pytest.approx([1.01, 1.01])
    again = next(one for one in found["repeated"] if one["concern"] == [1.0, 1.0])
    assert again["privacy"] == [0.0, 0.0]
    assert again["discount"] == pytest.approx(0, abs=1e-9)
    assert again["at_discount"]["given"] == 0.5
    private = next(one for one in found["private_concerns"] if one["on"] == "points")
    assert private["players"][0]["concerns"] == [0.2, 5.0]
    assert private["players"][0]["privacy"] == [0.0, 1.0]  # 2.01 - 0.2 is best; 1.41 - 5 * 0.4 is less than staying out
    assert private["together"] == pytest.approx(0.25)
    assert private["price"] == pytest.approx(0.75)


def test_the_published_game_with_private_concerns_needs_no_data(without_numba):
    found = said("--prior", "5", "--prior", "0.2")["private_concerns"]
    bounded = next(one for one in found if one["mechanism"] == "bDP")
    assert [player["privacy"][0] for player in bounded["players"]] == pytest.approx([0.31501, 0.10741], abs=1e-5)


def test_tables_of_every_game_are_shown(measured):
    run = CliRunner().invoke(
        app, ["reproduce", "pejo2018", "--points", measured, "--game", "--prior", "0.2:3,5:1", "--discount", "0.9"]
    )
    assert run.exit_code == 0
    for words in ("Again and again", "Concerns that are private", "price", "Figure 5"):
        assert words in run.stdout


def test_figures_are_drawn(measured, tmp_path):
    found = said("--points", measured, "--out", str(tmp_path / "pictures"))
    picture = (tmp_path / "pictures" / "ratings-figure-5.png").read_bytes()
    assert found["picture"].endswith("ratings-figure-5.png")
    assert picture.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words",
    [
        ["--prior", "a"],
        ["--prior", "1", "--prior", "1", "--prior", "1"],
        ["--prior", "1", "--figure", "3"],
        ["--discount", "0.5"],
        ["--out", "pictures"],
        ["--points", "points.json"],
        ["--points", "points.json", "--figure", "5"],
    ],
)
def test_options_of_games_that_mean_nothing_are_refused(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.json").touch()
    run = CliRunner().invoke(app, ["reproduce", "pejo2018", *words])
    assert run.exit_code != 0
    assert re.search("expected|not allowed", str(run.exception))


@pytest.mark.parametrize(
    "wrong", ["", "[]", "{}", '{"figure": 5, "splits": 1, "counts": {}, "points": [{"improvements": [1]}]}']
)
def test_a_file_that_holds_no_figure_is_refused(wrong, tmp_path):
    (tmp_path / "wrong.json").write_text(wrong)
    run = CliRunner().invoke(app, ["reproduce", "pejo2018", "--points", str(tmp_path / "wrong.json"), "--game"])
    assert run.exit_code != 0
    assert "--figure N --json" in str(run.exception)
