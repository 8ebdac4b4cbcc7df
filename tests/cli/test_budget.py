import json
import re
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley.cli.budget import parse_release
from parley.errors import SettingError
from parley.privacy.accounting import compose


def budget(*arguments):
    run = CliRunner().invoke(app, ["budget", *map(str, arguments)])
    if run.exception is not None and not isinstance(run.exception, SystemExit):
        raise run.exception
    assert run.exit_code == 0, run.output
    return run.output


def test_explain_speaks_and_counts(tmp_path):
    text = budget("explain", "--epsilon", 1, "--plot", tmp_path / "e.png").replace("\n", " ")
    assert "73.2%" in text
    assert "26.8%" in text
    assert "replace-one" in text
    assert (tmp_path / "e.png").stat().st_size > 10_000
    content = json.loads(budget("explain", "--epsilon", 1, "--delta", 1e-5, "--json"))
    assert content["posterior"]["failure"] == pytest.approx(3.16e-5, rel=0.01)
    assert content["belief_bound"] is None  # proved for pure epsilon only


def test_explain_says_why_delta_widens_the_range():
    why = "with δ single releases may tell more than ε allows, so this is the range of 2ε"
    assert why in " ".join(budget("explain", "--epsilon", 1, "--delta", 1e-5).split())
    assert why not in " ".join(budget("explain", "--epsilon", 1).split())


def test_compose_shows_every_rule_and_the_best():
    text = budget("compose", "gaussian:multiplier=2,count=100", "laplace:epsilon=0.1,count=5", "--delta", 1e-5)
    for rule in ("simple", "advanced", "zcdp", "rdp", "pld"):
        assert rule in text
    content = json.loads(budget("compose", "gaussian:multiplier=0.5,sampling=0.01,count=1000", "-d", 1e-5, "--json"))
    assert content["epsilon"] == pytest.approx(2.84, rel=0.01)
    assert content["low"] <= content["high"]
    assert content["adjacency"] == "replace-one"


@pytest.mark.parametrize("multiplier", [0.7, 1.3, 2, 7, 11, 13])
def test_a_printed_epsilon_is_never_below_the_bound_and_a_printed_scale_never_below_the_noise(multiplier):
    """Of six bounds, rounding to the nearest would have put some below."""
    release = [f"laplace:multiplier={multiplier},count=7"]
    bound, text = json.loads(budget("compose", *release, "--json"))["epsilon"], budget("compose", *release)
    assert bound <= float(re.search(r"ε ≤ ([0-9.]+)", text)[1]) <= bound * 1.00001
    assert bound <= float(re.search(r"simple +([0-9.]+)", text)[1])
    asked = ["calibrate", "gaussian", "-e", 1 / multiplier, "-d", 1e-6]
    scale, text = json.loads(budget(*asked, "--json"))["scale"], budget(*asked)
    assert scale <= float(re.search(r"σ = ([0-9.]+)", text)[1]) <= scale * 1.00001


def test_large_compositions_do_not_exhaust_the_machine():
    content = json.loads(budget("compose", "laplace:epsilon=0.1,count=1000000", "-d", 1e-5, "--json"))
    assert content["epsilon"] > 1000
    assert json.loads(budget("compose", "laplace:epsilon=1000,sampling=0.5", "-d", 1e-5, "--json"))["epsilon"] > 400
    assert (
        json.loads(budget("compose", "laplace:epsilon=1e-8,count=1000000000000", "-d", 1e-5, "--json"))["epsilon"]
        > 0.02
    )
    assert "half the sensitivity" in budget("compose", "gaussian:multiplier=1,sampling=0.1", "-d", 1e-5)


def test_calibrate_goes_both_ways():
    noise = json.loads(
        budget("calibrate", "gaussian", "-e", 1, "-d", 1e-5, "--rounds", 100, "--sensitivity", 2, "--json")
    )
    assert noise["scale"] == pytest.approx(2 * 37.3063, rel=1e-4)
    rounds = json.loads(budget("calibrate", "laplace", "-e", 1, "--multiplier", 20, "--json"))
    assert rounds["rounds"] == 20
    assert "σ = " in budget("calibrate", "gaussian", "-e", 1, "-d", 1e-5)


def test_calibrate_searches_past_noise_that_hides_nothing():
    """On its way the search asks for multipliers whose losses no grid holds: other rules answer there."""
    noise = json.loads(
        budget("calibrate", "gaussian", "-e", 1, "-d", 1e-6, "--rounds", 50, "--sampling", 0.02, "--json")
    )
    release = f"gaussian:multiplier={noise['multiplier']},count=50,sampling=0.02"
    assert 0.99 < json.loads(budget("compose", release, "-d", 1e-6, "--json"))["epsilon"] <= 1


def test_compare_puts_the_honest_column_last():
    content = json.loads(budget("compare", "-e", 1, "--dimension", 4, "--json"))
    names = [entry["mechanism"] for entry in content["mechanisms"]]
    assert names[0] == "laplace"
    assert "geometric" in names
    by_alpha = {entry["alpha"]: entry for entry in content["epsilon_by_spread"]}
    assert by_alpha[1.9]["spread_1"] == pytest.approx(1.45, rel=0.01)
    assert by_alpha[1.9]["high"] > by_alpha[1.9]["spread_64"]
    assert "only the last column is a guarantee" in " ".join(budget("compare", "-e", 1).split())


def test_curves_are_drawn_and_told(tmp_path):
    budget("curve", "--figure", "4.9", "--plot", tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 10_000
    content = json.loads(budget("curve", "--alpha", 1.9, "--json"))
    assert {curve["spread"] for curve in content["panels"][0]["curves"]} == {"one", "many"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "-e", "0"], "epsilon = 0"),
        (["explain", "-e", "nan"], "epsilon = nan"),
        (["explain", "-e", "1", "--prior", "1"], "prior = 1"),
        (["compose", "gaussian:multiplier=1"], "no epsilon without a delta"),
        (["compose", "gauss:multiplier=1"], "expected one of laplace"),
        (["compose", "laplace:epsilon=0.1,cout=5"], "unknown key 'cout'"),
        (["compose", "laplace:epsilon=x"], "expected a number"),
        (["compose", "laplace:count=5"], "expected exactly one of the keys multiplier and epsilon, but found neither"),
        (["compose", "laplace:epsilon=0.1,count=2.5"], "whole number"),
        (["compose", "laplace:epsilon=0.1,sampling=0"], "sampling = 0"),
        (["compose", "stable:multiplier=1"], "alpha: missing"),
        (["compose", "laplace:epsilon=0.1", "--method", "magic"], "method = 'magic'"),
        (["calibrate", "gaussian", "-e", "1", "-d", "1"], "delta = 1"),
        (["calibrate", "gaussian", "-e", "-1", "-d", "1e-5"], "epsilon = -1"),
        (["calibrate", "stable", "-e", "1", "--alpha", "3"], "alpha = 3"),
        (["compose", "stable:multiplier=1,alpha=3", "-d", "1e-5"], "alpha = 3"),
        (["compose", "stable:multiplier=1,alpha=2", "-d", "1e-5"], "use the mechanism gaussian"),
        (["compose", "laplace:epsilon=1,epsilon=2"], "given twice"),
        (["compose", "laplace:epsilon=1,alpha=1.5"], "allowed only for the mechanism stable"),
        (["compose", "gaussian:multiplier=1e-200", "-d", "1e-5"], "multiplier"),
        (["explain", "-e", "1", "--people", "-4"], "people = -4"),
        (["curve"], "both are missing"),
        (["curve", "--figure", "9.9", "--json"], "figure = '9.9'"),
        (
            ["compose", "gaussian:multiplier=0.03,count=29,sampling=0.002", "-d", "5e-10", "--method", "pld", "--json"],
            "delta = 5e-10: too small for method pld",
        ),
        (["compose", "laplace:epsilon=1e9,count=1e302", "-d", "0.1", "--json"], "at most 1e18 releases"),
        (["calibrate", "laplace", "-e", "1", "--rounds", f"1{'0' * 400}"], "at most 1e18 releases"),
        (["calibrate", "laplace", "-e", "1e-9", "--sensitivity", "1e305", "--json"], "noise scale = inf"),
        (["curve", "--alpha", "1.9", "--scale", "1e-190", "--json"], "scale = 1e-190"),
        (["curve", "--alpha", "2", "--scale", "1e-9", "--json"], "too little noise to hide anything"),
        (["curve", "--alpha", "2", "--compositions", "100000000000", "--json"], "cannot handle the number"),
    ],
)
def test_mistakes_are_one_sentence(arguments, message):
    with pytest.raises(SettingError, match=message):
        budget(*arguments)


@pytest.mark.parametrize("count", [1, 3, 7, 1000])
def test_a_release_of_a_stated_epsilon_costs_no_less(count):
    """Though it is kept as a multiplier, 1/epsilon, which has other digits. And no more than the last digit of a float
    above."""
    rng = np.random.default_rng(0)
    for epsilon in map(float, [0.3, 0.7, 1.1, 49.0, *np.round(rng.uniform(0.001, 10, 300), 3)]):
        stated = count * Fraction(repr(epsilon))
        high = compose([parse_release(f"laplace:epsilon={epsilon},count={count}")]).high
        assert stated <= Fraction(repr(high)) <= stated * (1 + Fraction(1, 10**15))
