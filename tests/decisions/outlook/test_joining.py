"""Whom joining is worth it for, by the forecast: against simulated consortia, and what is said of it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from samples import class_table, make_terms, regression_table

import parley
from parley.decisions.knowledge.baselines import Baselines
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.outlook.consortium_verdict import consortium_verdict
from parley.decisions.outlook.forecast import forecast
from parley.decisions.outlook.joining import LEAST_GAIN, OwnerDraws
from parley.decisions.outlook.noise_kinds import compare_noise
from parley.decisions.outlook.worth import Worth
from parley.errors import SettingError
from parley.report.words import forecast as said
from parley.report.words import noise

SPREAD = np.array([1.5, 1.0, 0.6, 0.4])
NAMES = [f"x{j}" for j in range(4)]
SIZES = {"a": 60, "b": 120, "c": 300, "d": 120, "e": 4000}
NOISE = 1.0
WITHOUT = Worth(1.0, Baselines(9.0, None))  # nobody has a public sample


def table(rng, rows, theta):
    X = rng.normal(size=(rows, 4)) * SPREAD
    return pd.DataFrame(X, columns=NAMES).assign(y=X @ theta + NOISE * rng.normal(size=rows))


def consortium(epsilon=20.0, **sizes):
    content = {
        "model": {"kind": "linear-regression", "target": "y", "features": NAMES},
        "learning": {"algorithm": "gradient-descent", "horizon": 12, "step": 0.4, "decay": 0},
        "privacy": {"clip": 60.0, "mechanism": "gaussian", "delta": 1e-6},
        "owners": [{"name": name, "records": n, "epsilon": epsilon} for name, n in (sizes or SIZES).items()],
    }
    return parley.Terms.from_dict(content)


PUBLIC = table(np.random.default_rng(1), 20_000, np.full(4, 0.7))


@pytest.fixture(scope="module")
def expected():
    return {
        ratio: forecast(consortium(), PUBLIC, resamples=2, differences=Heterogeneity.stated(ratio))
        for ratio in (0.0, 0.5, 2.0)
    }


def test_what_gains_follow_from_is_what_the_law_has(expected):
    """Curvature, the chance of own estimates, the joint model's error by the moments: `test_personal_gain` has what
    follows."""
    result = expected[0.5]
    assert result.method == "exact-moments"
    law, hessian = result.joining.owners, np.sort(2 * SPREAD**2)
    np.testing.assert_allclose(law.curvature, hessian, rtol=0.05)
    np.testing.assert_allclose(law.scatter, 2 * NOISE**2 / hessian, rtol=0.05)
    assert 0.5 * law.curvature @ (law.bias + law.noise) == pytest.approx(result.excess_cost.mean, rel=1e-6)
    gains = np.array([[owner.gain.mean for owner in expected[ratio].owners] for ratio in (0.0, 0.5, 2.0)])
    assert (np.diff(gains, axis=0)[:, :2] < 0).all()


def test_what_is_not_known_is_drawn_between_what_may_be(expected):
    guessed = forecast(consortium(), PUBLIC, resamples=2)
    alike, far = expected[0.0].owners, expected[2.0].owners
    for owner, least, most in zip(guessed.owners, alike, far, strict=True):
        assert owner.gain.low < owner.gain.mean < owner.gain.high
        assert least.together - 1e-9 <= owner.together <= most.together + 1e-9
        assert owner.alone - owner.personal == pytest.approx(owner.gain.mean, rel=1e-6, abs=1e-12)
    assert alike[0].verdict == "join"
    verdicts = [owner.verdict for owner in guessed.owners]
    assert (verdicts[0], verdicts[-1]) == ("unknown", "stay")  # owners that differ most would hardly gain


def test_the_sentence_says_for_whom(expected):
    guessed = forecast(consortium(), PUBLIC, resamples=2)
    assert guessed.verdict.below is not None  # so many public rows would do without anybody
    assert said.for_whom(guessed) == f"No at these terms: {guessed.verdict.below}."
    alike = replace(guessed)
    vars(alike)["owners"] = guessed.owners
    vars(alike)["verdict"] = consortium_verdict(guessed.owners, guessed.draws.expected, WITHOUT)
    sentence = said.for_whom(alike)
    hoped = len(alike.verdict.expected)
    assert sentence.startswith(f"Cannot say: {hoped} of 5 owners are expected to gain")
    kinds = compare_noise(guessed, PUBLIC).to_json()
    (row,) = [row for row in noise.kind_rows(kinds) if row[0] == noise.KINDS["each_owner"]]
    assert noise.kind_rows(kinds)[0][-1] == "expected to gain"
    assert row[-1] == f"{hoped} of 5"
    stays = [replace(owner, verdict="stay") for owner in guessed.owners]
    vars(alike)["verdict"] = consortium_verdict(stays, np.zeros(5, bool), WITHOUT)
    assert said.for_whom(alike).startswith("No at these terms: none of 5 owners is expected to gain by joining")
    assert "0 to 2 times" in said.assumption(guessed)
    assert "120 rows" in said.assumption(guessed)
    assert said.assumption(expected[0.0]).startswith("Owners are taken to follow one law. Personal models: exact")


def test_costs_together_have_an_interval_too(expected):
    guessed = forecast(consortium(), PUBLIC, resamples=2)
    for owner, one_law, far in zip(guessed.owners, expected[0.0].owners, expected[2.0].owners, strict=True):
        assert owner.together_interval.low <= one_law.together * (1 + 1e-9)
        assert owner.together_interval.high >= far.together * (1 - 1e-9)
        assert owner.together_interval.mean == owner.together
    shown = said.owner_rows(guessed)
    assert shown[0].count("from … to") == 2
    ends = guessed.expected_cost
    assert ends.low <= ends.mean == guessed.worth.together <= ends.high


def test_a_verdict_needs_a_gain_that_counts_in_nine_draws_of_ten():
    alone, least = np.ones((1, 100)), np.full((1, 100), LEAST_GAIN)
    for gaining, verdict in ((90, "join"), (89, "unknown"), (11, "unknown"), (10, "stay")):
        gain = np.where(np.arange(100) < gaining, 2 * LEAST_GAIN, 0.9 * LEAST_GAIN)[None]
        draws = OwnerDraws(alone, alone, alone - gain, least)
        assert draws.verdicts == [verdict]
        assert draws.expected.tolist() == [gaining >= 50]


def test_an_owner_by_itself_gains_nothing_and_loud_noise_helps_nobody():
    single = forecast(consortium(a=400), PUBLIC, resamples=2).owners[0]
    assert (single.verdict, single.gain.mean) == ("stay", 0.0)
    assert single.break_even_epsilon is None
    loud = forecast(consortium(0.01), PUBLIC, resamples=2)
    assert {owner.verdict for owner in loud.owners} == {"stay"}


def test_joining_is_worth_it_from_where_the_gain_begins_to_count(expected):
    terms, even = consortium(), expected[0.5].owners[0].break_even_epsilon
    for side, counts in ((0.99, False), (1.01, True)):
        there = terms.changed(owners={"a": {"epsilon": even * side}})
        result = forecast(there, PUBLIC, resamples=2, differences=Heterogeneity.stated(0.5))
        assert bool(result.draws.expected[0]) == counts
        assert result.joining.least[0] == pytest.approx(LEAST_GAIN * result.owners[0].alone)


def test_a_classifier_is_taken_as_quadratic_and_scaled_to_its_own_forecast(tmp_path):
    class_table(1500, seed=9).to_csv(tmp_path / "public.csv", index=False)
    content = {
        "model": {"kind": "logistic-regression", "target": "y", "public": str(tmp_path / "public.csv")},
        "learning": {"horizon": 8},
        "privacy": {"clip": 3.0, "mechanism": "gaussian", "delta": 1e-6},
        "owners": [{"name": name, "records": 100, "epsilon": 8.0} for name in "abc"],
    }
    result = forecast(parley.Terms.from_dict(content), resamples=2, differences=Heterogeneity.stated(0.0))
    assert result.method == "pilot-run"
    law = result.joining.owners
    excess = 0.5 * law.curvature @ (law.bias + law.noise)
    assert excess == pytest.approx(result.excess_cost.mean, rel=1e-6)
    assert "by the cost's curvature" in said.assumption(result)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_impossible_differences_are_refused(wrong):
    with pytest.raises(SettingError, match="multiples of the within-owner variance"):
        Heterogeneity.stated(wrong)


def test_columns_that_say_nothing_change_nobodys_gain(tmp_path):
    """Flags of cells that are never missing: nothing is estimated along them, so they are no part of what owners
    differ by."""
    regression_table(600, seed=9).to_csv(tmp_path / "public.csv", index=False)
    settings = {"learning__horizon": 30, "learning__step": 0.7, "privacy__clip": 8.0}
    plain = make_terms(4000, 4000, 40, epsilon=20.0, model__public=str(tmp_path / "public.csv"), **settings)
    told = [forecast(terms, resamples=2).owners for terms in (plain, plain.changed(model={"missing": "fill"}))]
    for one, other in zip(*told, strict=True):
        assert other.alone == pytest.approx(one.alone, rel=1e-4)
        assert other.gain.mean == pytest.approx(one.gain.mean, rel=0.02)
        assert other.verdict == one.verdict
