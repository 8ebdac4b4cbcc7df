"""`parley reproduce chase2017`, at a size that measures nothing."""

import json
import math

import pytest
from typer.testing import CliRunner

from parley.cli.app import app


def test_a_table_has_published_and_recomputed_figures_beside_each_other(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")
    from parley_lab.papers.chase2017 import tables

    monkeypatch.delenv("PARLEY_DATA", raising=False)
    monkeypatch.setitem(tables.PUBLISHED, "1", {0.5: tables.PUBLISHED["1"][0.5]})
    words = ["--table", "1", "--images", "120", "--epochs", "1", "--batch", "60", "--runs", "1", "--device", "cpu"]
    done = CliRunner().invoke(app, ["reproduce", "chase2017", *words, "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    told = json.loads(done.stdout)
    assert told["adjacency"] == "replace-one"
    rows = told["tables"]["1"]
    assert [row["epsilon"] for row in rows] == [0.5, None]
    assert [row["l2"] for row in rows] == [82.3, 98.5]
    assert all(row["stricter"] > row["epsilon"] for row in rows[:1])
    assert [row["l1"] for row in rows] == [89.1, None]
    assert all(0 <= row[f"our_{norm}"] <= 100 for row in rows[:1] for norm in ("linf", "l1", "l2"))
    by_step = told["by_step"]["1"]
    assert all(row["total_l1"] > row["epsilon"] for row in by_step)
    assert all(0 <= row[f"step_{norm}"] <= 100 for row in by_step for norm in ("l1", "l2"))
    assert {file.name for file in tmp_path.glob("*.csv")} == {"table-1.csv", "table-1-by-step.csv"}


def test_what_there_is_can_be_listed_without_anything_installed():
    done = CliRunner().invoke(app, ["reproduce", "chase2017", "--list"])
    assert done.exit_code == 0
    assert "--table 2" in done.stdout


def test_all_norms_have_the_same_noise_and_the_letters_totals_are_those_of_its_noise():
    pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")
    from parley.tasks.networks.architectures import Architecture, cross_entropy
    from parley.tasks.networks.clipping import RecordGradients
    from parley.tasks.networks.question import NetworkGradientQuestion
    from parley_lab.papers.chase2017.tables import NORMS, Settings, total_of_steps

    network, settings = Architecture.from_name("chase-small", 784, 10), Settings(1, 2, 100, 0.1, 8.0)

    def noise(plan):
        made = RecordGradients(network.module(), cross_entropy, (784,), plan.clip, plan.clip_norm, 100)
        question = NetworkGradientQuestion.from_gradients(made, 1000, plan.batches, norm=plan.norm)
        return plan.series(question).mechanism

    plans = {norm: settings.plan(2.0, 1000, network.parameters, norm) for norm in NORMS}
    sigmas = [noise(plan).sigma for plan in plans.values()]
    assert sigmas == pytest.approx([sigmas[0]] * 3, rel=1e-9)
    in_sum = 1000 / 10 / 0.1  # of means to sums, in clips
    l1 = settings.plan(total_of_steps("l1", 0.5, 10, 20), 1000, network.parameters, "l1", pure=True)
    assert noise(l1).noise_scale * in_sum == pytest.approx(1 / 0.5, rel=1e-3)
    l2 = settings.plan(total_of_steps("l2", 0.5, 10, 20), 1000, network.parameters, "l2")
    assert noise(l2).sigma * in_sum == pytest.approx((2 * math.log(1.25 / 1e-3)) ** 0.5 / 0.5, rel=1e-2)
