"""`parley reproduce chase2017`, at a size that measures nothing."""

import json

import pytest
from typer.testing import CliRunner

from parley.cli.app import app


def test_a_table_has_published_and_recomputed_figures_beside_each_other(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")
    monkeypatch.delenv("PARLEY_DATA", raising=False)
    words = ["--table", "1", "--images", "120", "--epochs", "2", "--batch", "30", "--runs", "1", "--device", "cpu"]
    done = CliRunner().invoke(app, ["reproduce", "chase2017", *words, "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    told = json.loads(done.stdout)
    assert told["adjacency"] == "replace-one"
    rows = told["tables"]["1"]
    assert [row["epsilon"] for row in rows] == [0.5, 2.0, 8.0, None]
    assert [row["l2"] for row in rows] == [82.3, 87.8, 92.1, 98.5]
    assert all(row["stricter"] > row["epsilon"] for row in rows[:3])
    assert all(0 <= row["ours"] <= 100 for row in rows)
    assert (tmp_path / "table-1.csv").is_file()


def test_what_there_is_can_be_listed_without_anything_installed():
    done = CliRunner().invoke(app, ["reproduce", "chase2017", "--list"])
    assert done.exit_code == 0
    assert "--table 2" in done.stdout
