"""Figure 4: two laws that no answer tells apart by more than e^eps, and the game of two coins."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley_lab.papers.aarhus2020.output_laws import geometric_chance, laplace_density


def test_two_truths_are_within_a_factor_of_two_and_coins_cost_three(tmp_path):
    ran = CliRunner().invoke(
        app, ["reproduce", "aarhus2020", "--figure", "4", "--json", "--out", str(tmp_path / "made")]
    )
    found = json.loads(ran.stdout)["output_laws"]
    assert found["ratios"] == pytest.approx([2.0, 2.0], rel=1e-9)
    assert max(found["ratios"]) <= 2 * (1 + 1e-12)
    assert found["coins"] == "3"
    assert (tmp_path / "made" / "figure-4.png").stat().st_size > 5000


def test_pictures_are_of_the_kind_that_is_asked_for(tmp_path):
    typed = ["reproduce", "aarhus2020", "--figure", "4", "--json", "--out", str(tmp_path)]
    drawn = CliRunner().invoke(app, [*typed, "--format", "svg"])
    assert drawn.exit_code == 0, drawn.exception
    assert "</desc>" in (tmp_path / "figure-4.svg").read_text(encoding="utf-8")
    assert "--format doc: expected one of png, svg, pdf" in str(
        CliRunner().invoke(app, [*typed, "--format", "doc"]).exception
    )


def test_the_laws_are_laws():
    x = np.linspace(-60, 60, 240_001)
    assert np.trapezoid(laplace_density(x, 0.0, 1.4), x) == pytest.approx(1.0, abs=1e-6)
    assert geometric_chance(np.arange(-80.0, 81.0), 1.0, 1.4).sum() == pytest.approx(1.0)
