"""Z's chapters 3 and 4: losses, eps in one coordinate and in all, distortions, and the best alpha."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley.privacy.accounting.pairs import Pair, make_stable_law
from parley.privacy.mechanisms.stable import cauchy_epsilon
from parley.privacy.mechanisms.stable_law import distortion, pdf
from parley_lab.papers.zawacki2024 import noise, stable_noise
from parley_lab.papers.zawacki2024.document import DOCUMENT
from parley_lab.papers.zawacki2024.settings import Trials
from parley_lab.papers.zawacki2024.stable_noise import (
    TRIED_ALPHAS,
    all_epsilon,
    best_alpha,
    chart,
    distortions,
    loss,
    one_epsilon,
)


def test_every_figure_that_needs_accounting_only_is_there():
    wanted = {*(f"3.{k}" for k in range(4, 9)), "table-3.1", "best-alpha", "4.1", *(f"4.{k}" for k in range(5, 13))}
    assert wanted <= set(DOCUMENT.words("figure"))


@pytest.mark.parametrize("alpha", [1.0, 1.5, 1.9])
@pytest.mark.parametrize("scale", [0.05, 1.0, 20.0])
def test_one_coordinates_epsilon_is_the_top_of_the_loss(alpha, scale):
    """Against the accountant's own search, and never above what holds in all coordinates."""
    found = one_epsilon(alpha, scale)
    assert found == pytest.approx(Pair(make_stable_law(alpha), 0.5 / scale).curve()[1], rel=1e-6)
    assert found <= all_epsilon(alpha, scale) * (1 + 1e-9)


def test_in_all_coordinates_noise_of_a_small_scale_costs_more_than_any_logarithm():
    """A difference of 1 in L1 over m coordinates costs m times that of 1/m in one: more and more, up to kappa/scale."""
    spread = [m * one_epsilon(1.5, 0.1 * m) for m in (1, 4, 64, 1024)]
    assert (np.diff(spread) > 0).all()
    assert spread[0] < 0.7 * spread[-1]
    assert spread[-1] == pytest.approx(all_epsilon(1.5, 0.1), rel=1e-2)


def test_the_loss_is_that_of_the_densities():
    x = np.array([-3.0, 0.0, 0.7, 12.0])
    np.testing.assert_allclose(loss(x, 1.7, 2.0), np.log(pdf(x - 0.5, 1.7, 2.0) / pdf(x + 0.5, 1.7, 2.0)), atol=1e-12)
    np.testing.assert_allclose(loss(x, 2.0, 1.0), x / 2)


def test_table_3_1_comes_out():
    for row in distortions():
        assert row["computed"] == pytest.approx(row["published"], abs=5.1e-5)


def test_the_printed_approximation_for_small_scales_is_off_by_ln_2():
    lines = {each.label: each for each in chart("3.7").curves}
    exact = cauchy_epsilon(0.05, 1.0)
    assert lines["2 ln(1/scale), mended"].y[0] == pytest.approx(exact, rel=2e-3)
    assert lines["2 ln(√2/scale), as printed"].y[0] - exact == pytest.approx(math.log(2), abs=0.01)


def test_the_best_alpha_is_a_minimum_at_equal_epsilon():
    """Every choice keeps the eps exactly, none distorts less, and Laplace noise beats them all."""
    found = best_alpha("all", 5.0)
    for alpha, distorted in zip(TRIED_ALPHAS.tolist(), found.distortions.tolist(), strict=True):
        assert all_epsilon(alpha, distorted / distortion(alpha)) == pytest.approx(5.0)
        assert distorted >= found.least
    assert 1.65 < found.alpha < 1.75
    assert found.least > 1.5 * found.rival


def test_in_one_coordinate_the_scale_is_solved_for(monkeypatch):
    monkeypatch.setattr(stable_noise, "TRIED_ALPHAS", np.array([1.5]))
    found = best_alpha("one", 5.0)
    assert one_epsilon(1.5, found.least / distortion(1.5)) == pytest.approx(5.0, rel=1e-5)
    assert found.least > found.rival


def test_spread_over_many_coordinates_nothing_beats_the_gaussian():
    found = best_alpha("many", 1.0)
    assert (np.diff(found.distortions) < 0).all()
    assert found.least == pytest.approx(found.rival, rel=1e-4)


def test_the_command_prints_and_draws_them(tmp_path):
    names = ["3.5", "3.8", "table-3.1"]
    asked = [part for name in names for part in ("--figure", name)]
    run = CliRunner().invoke(app, ["reproduce", "zawacki2024", *asked, "--out", str(tmp_path), "--json"])
    assert run.exit_code == 0, run.output
    content = json.loads(run.stdout)
    assert content["adjacency"] == "replace-one"
    assert [each["figure"] for each in content["figures"]] == names
    assert {path.name for path in tmp_path.iterdir()} == {"figure-3.5.png", "figure-3.8.png"}
    shown = CliRunner().invoke(app, ["reproduce", "zawacki2024", "--figure", "table-3.1"])
    assert "1.1903" in shown.output


def test_trained_networks_are_charged_for_steps_and_every_epsilon_has_its_adjacency(monkeypatch):
    """The Gaussian point that is printed with eps = 3 has it at half its scale; the bound is called one."""
    few = replace(
        stable_noise.NETWORK_TABLE, rows=(stable_noise.NETWORK_TABLE.rows[1], stable_noise.NETWORK_TABLE.rows[3])
    )
    monkeypatch.setattr(stable_noise, "NETWORK_TABLE", few)
    run = CliRunner().invoke(app, ["reproduce", "zawacki2024", "--figure", "4.12", "--json"])
    (shown,) = json.loads(run.stdout)["figures"]
    gaussian, stable = shown["rows"]
    assert (shown["steps"], shown["adjacency"]["one"], shown["adjacency"]["sound"]) == (
        4883,
        "add-or-remove-one",
        "replace-one",
    )
    assert gaussian["charged"] == pytest.approx(3.05, abs=0.01)
    assert gaussian["one"] == pytest.approx(1.38, abs=0.01)
    assert gaussian["one"] < gaussian["sound"]
    assert stable["charged"] is None
    assert stable["one"] < gaussian["sound"] < stable["sound"]
    said = CliRunner().invoke(app, ["reproduce", "zawacki2024", "--figure", "4.5"]).output
    assert "bound" in said
    assert "4,883 steps" in said


def test_curves_say_their_adjacency_and_which_is_zs():
    shown = noise.curves(Trials(), "4.11", lambda done, total: None)
    remark = " ".join(str(part) for part in shown.parts)
    assert "replace-one" in remark
    assert "add-or-remove-one" in remark
    assert "1.29e-06" in remark
