"""An owner's inside view."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f as f_law
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.data import Design
from parley.errors import DataError, SettingError, UnknownTerms
from parley.forecasting.inside import LEVEL, inside_view, law_test
from parley.objectives import LinearRegression
from samples import make_terms, regression_table

SETTINGS = {"learning__horizon": 30, "learning__step": 0.7, "privacy__clip": 8.0}


def terms_for(*sizes: int, tmp_path, epsilon: float = 20.0):
    regression_table(600, seed=9).to_csv(tmp_path / "public.csv", index=False)
    return make_terms(*sizes, epsilon=epsilon, model__public=str(tmp_path / "public.csv"), **SETTINGS)


def test_owners_of_the_same_law_are_said_to_differ_as_often_as_the_level_says():
    """In 1,500 pairs of samples; a mutant that takes the public optimum for the truth says so far more often."""
    rng, differs, naive = np.random.default_rng(0), [], []
    for _ in range(1500):
        X = rng.normal(size=(500, 3))
        y = X @ [1.0, -0.5, 0.2] + rng.normal(size=500)
        own, public = (Design(X[part], y[part], np.ones(len(y[part]))) for part in (slice(200), slice(200, None)))
        optimum = LinearRegression().optimum([public])
        test = law_test(LinearRegression(), public, optimum, own)
        differs.append(test.differs)
        naive.append(f_law.sf(test.statistic * (1 + 200 / 300), 3, 297) < LEVEL)
    error = 3.5 * np.sqrt(LEVEL * (1 - LEVEL) / 1500)
    assert abs(np.mean(differs) - LEVEL) < error
    assert np.mean(naive) - LEVEL > error


def test_a_small_owner_among_large_ones_is_told_to_join_and_nothing_is_spent(tmp_path):
    terms = terms_for(4000, 4000, 40, tmp_path=tmp_path)
    owner = parley.Owner("c", regression_table(40, seed=4))
    view = inside_view(terms, owner)
    assert view.verdict == "join"
    assert view.personal.mean < view.alone.mean
    assert not view.law.differs
    assert view.gain.low < view.gain.mean < view.gain.high
    with pytest.raises(UnknownTerms):
        owner.ledger.account(terms.hash)


def test_an_owner_whose_customers_run_the_other_way_is_seen_to_differ_and_is_not_promised_the_same(tmp_path):
    terms = terms_for(4000, 4000, 400, tmp_path=tmp_path)
    usual = inside_view(terms, parley.Owner("c", regression_table(400, seed=4)))
    contrary = inside_view(terms, parley.Owner("c", regression_table(400, seed=4).assign(y=lambda t: -t["y"])))
    assert contrary.law.differs
    assert contrary.law.p_value < 1e-6
    assert contrary.together.mean > 5 * contrary.alone.mean
    assert contrary.gain.mean < usual.gain.mean


def test_too_few_rows_and_no_public_sample_are_said(tmp_path):
    with pytest.raises(DataError, match="too few for a view"):
        inside_view(terms_for(4000, 5, tmp_path=tmp_path), parley.Owner("b", regression_table(5)))
    with pytest.raises((DataError, SettingError)):
        inside_view(make_terms(100, 100), parley.Owner("a", regression_table(100)))


def test_the_command_prints_the_verdict_and_says_that_nothing_leaves(tmp_path):
    terms = terms_for(4000, 4000, 40, tmp_path=tmp_path)
    parley.terms.write_terms(terms, tmp_path / "terms.toml")
    pd.DataFrame(regression_table(40, seed=4)).to_csv(tmp_path / "c.csv", index=False)
    arguments = ["forecast", str(tmp_path / "terms.toml"), "--inside", str(tmp_path / "c.csv"), "--owner", "c"]
    content = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert content["verdict"] == "join"
    assert content["gain"]["low"] <= content["gain"]["mean"] <= content["gain"]["high"]
    shown = " ".join(CliRunner().invoke(app, arguments).output.split())
    assert "Join: the personal model is expected to save" in shown
    assert "keep it inside" in shown
    assert "expected both or neither" in str(CliRunner().invoke(app, arguments[:-2]).exception)
