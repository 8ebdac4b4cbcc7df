"""`parley identify`."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley_lab.papers.zawacki2024.delayed_control import ROTOR

COLUMNS = ["--inputs", "u1,u2", "--states", "x1,x2", "--period", "2", "--max-delay", "3"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(1)
    rows = []
    for run in ("a", "b"):
        u = rng.normal(size=(60, 2))
        x = ROTOR.delayed(2.5).simulate([0, 0], u)[:-1]
        rows.append(pd.DataFrame(np.hstack([x, u]), columns=["x1", "x2", "u1", "u2"]).assign(run=run))
    path = tmp_path_factory.mktemp("plant") / "drive.csv"
    pd.concat(rows).to_csv(path, index=False)
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["identify", *map(str, arguments)])


def test_json_and_figure(table, tmp_path):
    result = run(table, *COLUMNS, "--trajectory", "run", "--json", "--plot", tmp_path / "plant.png")
    found = json.loads(result.stdout)
    assert found["delay"] == pytest.approx(2.5, rel=1e-9)
    assert np.array(found["A"]) == pytest.approx(ROTOR.A, abs=1e-8)
    assert np.array(found["B"]) == pytest.approx(ROTOR.B, abs=1e-8)
    assert np.array(found["input_blocks"]).shape == (4, 2, 2)
    assert found["delay_interval"]["low"] <= 2.5 + 1e-9
    assert (tmp_path / "plant.png").stat().st_size > 10_000


def test_words(table):
    result = run(table, *COLUMNS, "--trajectory", "run", "--each")
    assert "delay of u1 2.5 = 1.25 periods" in result.stdout
    assert "delay of u2 2.5 = 1.25 periods" in result.stdout


def test_a_wrong_column_is_one_sentence(table):
    result = run(table, "--inputs", "u1,u9", *COLUMNS[2:])
    assert result.exit_code != 0
    assert "u9" in str(result.exception)


def test_recordings_taken_for_one_are_remarked_on(table):
    result = run(table, *COLUMNS, "--json")
    assert "--trajectory run" in result.stderr
    assert "--trajectory run" not in run(table, *COLUMNS, "--trajectory", "run", "--json").stderr
