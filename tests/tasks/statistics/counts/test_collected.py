"""Answers drawn on people's own devices: their law, what is made of them, and the commands."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import DataError, SettingError
from parley.privacy.mechanisms.exact_samplers import SeededWords
from parley.tasks.statistics.counts.collected import CollectedCounts, Survey

NAMES = ("never", "sometimes", "daily")


def test_estimates_are_unbiased_and_deviate_as_said():
    """400 surveys of 300 people: means within 4 standard errors, and the deviation is not more than said."""
    survey, truths = Survey(NAMES, 1.0), ["never"] * 180 + ["sometimes"] * 90 + ["daily"] * 30
    draw = SeededWords(b"a survey")
    found = np.array([survey.counted(survey.answered(truths, draw)).unbiased for _ in range(400)])
    said = CollectedCounts(survey, (300, 0, 0)).deviation
    assert np.all(np.abs(found.mean(0) - [180, 90, 30]) < 4 * said / 20)
    assert np.all(np.abs(found.sum(1) - 300) < 1e-6)
    assert found.std(0, ddof=1).max() < said * (1 + 3 / math.sqrt(800))
    mutant = found * survey.truthful  # an estimate that forgets to divide
    assert not np.all(np.abs(mutant.mean(0) - [180, 90, 30]) < 4 * said / 20)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_an_answer_is_at_most_as_much_likelier_as_epsilon_says(epsilon):
    w, m = Survey(NAMES, epsilon).truthful, len(NAMES)
    odds = (w + (1 - w) / m) / ((1 - w) / m)
    assert math.log(odds) <= epsilon * (1 + 1e-12)
    assert math.log(odds) >= epsilon * (1 - 1e-9)


@pytest.mark.parametrize("answers", [(40, 12, 8), (30, 20, 10), (60, 0, 0), (21, 20, 19), (35, 24, 1)])
def test_the_likeliest_counts_are_those_of_a_search(answers):
    found = CollectedCounts(Survey(NAMES, 0.7), answers)
    w, n = found.survey.truthful, found.people

    def unlikely(counts):
        return -float(np.array(answers) @ np.log(w * counts / n + (1 - w) / 3))

    best = minimize(
        unlikely,
        np.full(3, n / 3),
        bounds=[(0, n)] * 3,
        constraints={"type": "eq", "fun": lambda counts: counts.sum() - n},
        options={"ftol": 1e-12},
    )
    likeliest = np.array(found.likeliest)
    assert likeliest.min() >= 0
    assert likeliest.sum() == pytest.approx(n)
    assert unlikely(likeliest) <= best.fun + 1e-9


def test_the_commands_draw_and_count(tmp_path):
    words = [word for name in NAMES for word in ("--name", name)] + ["--epsilon", "3"]
    truths = "\n".join(["never"] * 500 + ["daily"] * 100) + "\n"
    drawn = CliRunner().invoke(app, ["answers", "draw", *words], input=truths)
    assert drawn.exit_code == 0, drawn.output
    told = drawn.stdout.split()
    assert len(told) == 600
    assert told != truths.split()
    table = tmp_path / "collected.csv"
    table.write_text("habit\n" + "\n".join(told) + "\n")
    shown = CliRunner().invoke(app, ["answers", "count", str(table), "--column", "habit", *words, "--json"])
    content = json.loads(shown.stdout)
    assert content["people"] == 600
    never = content["names"][0]
    assert abs(never["unbiased"] - 500) < 6 * content["deviation"]
    assert never["within"][0] <= never["likeliest"] <= 600
    plain = CliRunner().invoke(app, ["answers", "count", str(table), "--column", "habit", *words])
    assert "Answers of 600 people" in plain.stdout


def test_what_is_no_answer_is_refused_without_being_repeated():
    survey = Survey(NAMES, 1.0)
    with pytest.raises(DataError, match="row 2 is not one of the names") as error:
        survey.counted(["never", "Jane Doe"])
    assert "Jane" not in str(error.value)
    with pytest.raises(SettingError, match="expected one of never, sometimes, daily") as truth:
        survey.answered(["Jane Doe"])
    assert "Jane" not in str(truth.value)
    for names, epsilon in ((("one",), 1.0), (("a", "a"), 1.0), (NAMES, 0.0), (NAMES, math.inf), (NAMES, math.nan)):
        with pytest.raises(SettingError):
            Survey(names, epsilon)


def test_no_answers_are_no_wrong_row():
    with pytest.raises(DataError, match="answers: expected at least one answer"):
        Survey(NAMES, 1.0).counted([])


@pytest.mark.parametrize("epsilon", [1e-18, 1e-17, 1e-12])
def test_the_likeliest_counts_of_answers_that_hardly_tell_anything(epsilon):
    """All people have the commonest answer: shares cannot follow from what is next to chance."""
    assert CollectedCounts(Survey(NAMES, epsilon), (7, 5, 3)).likeliest == (15, 0, 0)
    assert CollectedCounts(Survey(NAMES, epsilon), (4, 4, 4)).likeliest == (4, 4, 4)


def count(table, *names):
    words = [word for name in names for word in ("--name", name)]
    return CliRunner().invoke(app, ["answers", "count", str(table), "--column", "a", *words, "-e", "3", "--json"])


def test_answers_are_read_by_their_values_and_words_for_a_gap_are_told(tmp_path):
    csv, parquet = tmp_path / "told.csv", tmp_path / "told.parquet"
    csv.write_text("a\n1.0\n1.0\n2\n")
    assert [name["answers"] for name in json.loads(count(csv, "1", "2").stdout)["names"]] == [2, 1]
    frame = pd.DataFrame({"a": ["None", "yes", "None"]})
    frame.to_csv(csv, index=False)
    refused = count(csv, "None", "yes")
    assert refused.exit_code != 0
    assert "also means a missing cell in a CSV file" in str(refused.exception)
    frame.to_parquet(parquet)
    assert [name["answers"] for name in json.loads(count(parquet, "None", "yes").stdout)["names"]] == [2, 1]
    pd.DataFrame({"a": ["yes", None]}).to_parquet(parquet)
    assert "row 2 is not one of the names" in str(count(parquet, "None", "yes").exception)


def test_truths_are_lines_whatever_else_is_in_a_name():
    odd = "yes\u2028or\x0bso\x85"
    drawn = CliRunner().invoke(
        app, ["answers", "draw", "--name", odd, "--name", "no", "-e", "900"], input=f"{odd}\r\nno\n"
    )
    assert drawn.exit_code == 0, drawn.output
    assert drawn.stdout == f"{odd}\nno\n"
    assert CliRunner().invoke(app, ["answers", "draw", "--name", "a", "--name", "no", "-e", "9"], input="").stdout == ""
