"""Printed equations that do not hold: the mended ones do, by numbers found otherwise."""

import json

import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley_lab.papers.equations import Equation, equations


@pytest.mark.parametrize("equation", equations(), ids=lambda each: f"{each.document} {each.where}")
def test_the_mended_equation_gives_the_truth_and_the_printed_one_does_not(equation):
    assert equation.holds


def test_an_equation_that_holds_as_printed_is_not_listed_as_wrong():
    assert not Equation("W", "", "", "", printed=1.0, mended=1.0, truth=1.0).holds
    assert not Equation("W", "", "", "", printed=2.0, mended=1.1, truth=1.0).holds


def test_the_command_shows_all_of_them():
    found = json.loads(CliRunner().invoke(app, ["reproduce", "equations", "--json"]).stdout)["equations"]
    assert len(found) == len(equations())
    assert all(each["holds"] for each in found)
    assert "Algorithm 3" in CliRunner().invoke(app, ["reproduce", "equations"]).output
