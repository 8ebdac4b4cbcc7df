"""Panels (a) of figures 4.2 and 4.3, and the thesis's bound 2.3 beside the best mechanism."""

import json
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley.decisions.games import solve
from parley_lab.papers.wu2019_thesis.compensation import compensation_game
from parley_lab.papers.wu2019_thesis.convergence import EQUAL
from parley_lab.papers.wu2019_thesis.payoffs import payoff_curves


def run(*words):
    return CliRunner().invoke(app, ["reproduce", "wu2019-thesis", *map(str, words)])


def test_the_top_of_an_owners_payoff_is_its_equilibrium_budget():
    leakage, inside, lowest = payoff_curves()
    for curve in (leakage, inside):
        equilibrium = solve(compensation_game(EQUAL, curve.game)).epsilon
        assert curve.top == pytest.approx(equilibrium[0], abs=1e-9)
        assert curve.others == pytest.approx(equilibrium[1:])
        assert curve.peaks == 1
    assert lowest.top == lowest.others[0] == 0.01  # a second equilibrium, where the thesis says there is one


def test_payoffs_are_drawn_and_told(tmp_path):
    found = run("--figure", "payoffs", "--json", "--plot", tmp_path / "p.png")
    curves = json.loads(found.stdout)["curves"]
    assert [curve["figure"] for curve in curves] == ["4.2 (a)", "4.3 (a)", "4.3 (a)"]
    assert np.isclose(curves[0]["top"], 1.799, atol=1e-3)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_the_bound_is_reached_where_it_is_and_nowhere_else(tmp_path):
    found = json.loads(run("--figure", "bound", "--json", "--plot", tmp_path / "b.png").stdout)["optima"]
    assert all(each["proved"] for each in found)
    for each in found:
        kind, size = each["graph"].split(" of ")
        assert each["reached"] is (kind != "count" or size == "1")
        assert each["reached"] or Fraction(each["optimum"]) < Fraction(each["bound"])
    assert "needs one --figure" in str(run("--figure", "bound", "--figure", "payoffs", "--plot", "b.png").exception)
