"""Noise without a variance: nothing is forecast, planned or negotiated by it, and a sentence says why."""

import pytest
from samples import make_terms, regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.decisions.outlook.worth import worth
from parley.errors import SettingError
from parley.terms import write_terms

SENTENCE = "stable noise has no variance, so its average effect cannot be forecast"


@pytest.fixture
def terms(tmp_path):
    regression_table(80, seed=9).to_csv(tmp_path / "public.csv", index=False)
    stable = {"privacy__mechanism": "stable", "privacy__alpha": 1.9, "privacy__delta": 1e-6}
    price = {"value": 1.0, "privacy_cost": {"kind": "linear", "weight": 0.1}}
    found = make_terms(60, 40, model__public=str(tmp_path / "public.csv"), **stable)
    return found.changed(everyone=price)


@pytest.mark.parametrize("ask", [parley.forecast, parley.plan, parley.negotiate, worth])
def test_what_rests_on_a_variance_is_refused_in_one_sentence(terms, ask):
    with pytest.raises(SettingError) as refusal:
        ask(terms)
    assert SENTENCE in str(refusal.value)
    assert str(refusal.value).count(". ") == 0


@pytest.mark.parametrize("command", ["forecast", "plan", "negotiate"])
def test_commands_say_the_same(terms, tmp_path, command):
    write_terms(terms, tmp_path / "terms.toml")
    result = CliRunner().invoke(app, [command, str(tmp_path / "terms.toml")])
    assert isinstance(result.exception, SettingError)
    assert SENTENCE in str(result.exception)
