"""The forecast from a public sample, beside what a simulation of the join comes to."""

import json

import numpy as np
import pytest
from bank_and_shop import joined_terms, people, tables
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import DataError
from parley.owner.owner import Owner
from parley.tasks.joined import forecast as module
from parley.tasks.joined.forecast import forecast_join
from parley.terms.file import write_terms


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(module, "DRAWS", 3)


def public(tmp_path, rows=3000, seed=9):
    path = tmp_path / "public.csv"
    people(rows, seed).drop(columns=["customer_id", "grade"]).to_csv(path, index=False)
    return {"model__public": str(path)}


def test_the_forecast_is_what_a_simulation_comes_to(tmp_path):
    held = {"model__holdout": 0.25, "model__holdout_by": "person", "model__holdout_seed": 3}
    terms = joined_terms(4000, 4000, epsilon=1.0, **public(tmp_path), **held)
    found = forecast_join(terms)
    assert found.people == [80, 200, 400, 800, 2000, 4000]
    bank, shop = tables(people(5000, seed=1), 1000, 1000)
    run = parley.train(terms, [Owner("bank", bank), Owner("shop", shop)], replicates=20, seed=0)
    expected = np.interp(np.log(run.matched), np.log(found.people), found.joined)
    simulated = run.joined.values("auc")
    assert abs(simulated.mean() - expected) < 0.03
    assert found.metric == "auc"
    assert found.without_noise == pytest.approx(run.without_noise.values("auc").mean(), abs=0.03)
    alone = {each.name: each.values("auc").mean() for each in run.alone}["bank alone"]
    assert found.alone == pytest.approx(alone, abs=0.04)


def test_few_people_do_not_pay_and_many_do(tmp_path):
    found = forecast_join(joined_terms(20_000, 20_000, epsilon=0.5, **public(tmp_path)))
    assert np.all(np.diff(found.joined) > -0.02)
    assert found.alone < found.joined[-1]
    assert 100 < found.pays_from < 20_000
    assert "about" in found.verdict
    small = forecast_join(joined_terms(40, 40, epsilon=0.5, **public(tmp_path)))
    assert small.pays_from is None
    assert "not expected to be better" in small.verdict


def test_noise_that_is_left_out_is_told(tmp_path, monkeypatch):
    """A forecast without noise promises far more from few people."""
    terms = joined_terms(1000, 1000, epsilon=0.5, **public(tmp_path))
    honest = forecast_join(terms)
    monkeypatch.setattr(type(honest.plan.law), "deviation", property(lambda law: 1e-9))
    assert forecast_join(terms).joined[2] > honest.joined[2] + 0.1


def test_the_fold_left_out_does_not_decide_where_a_public_start_is(tmp_path):
    """Of a target that no column tells, no forecast promises anything."""
    sample = people(300).drop(columns="customer_id").assign(default=np.random.default_rng(5).integers(0, 2, 300))
    sample.to_csv(tmp_path / "coins.csv", index=False)
    coins = {"model__public": str(tmp_path / "coins.csv"), "model__bounds": {}, "model__columns": "bins"}
    found = forecast_join(joined_terms(1000, 1000, epsilon=0.2, learning__start="public", **coins))
    assert found.joined.max() < 0.55


@pytest.mark.parametrize(("kind", "target", "metric"), [("linear-regression", "rate", "r2")])
def test_other_kinds(tmp_path, kind, target, metric):
    terms = joined_terms(20_000, 20_000, kind=kind, target=target, model__intercept=True, **public(tmp_path))
    found = forecast_join(terms)
    assert found.metric == metric
    assert found.without_noise > found.alone


def test_a_public_sample_is_needed_and_must_not_be_tiny(tmp_path):
    with pytest.raises(DataError, match="needs a public sample with the columns of all owners"):
        forecast_join(joined_terms(1000, 1000))
    with pytest.raises(DataError, match="expected at least 100"):
        forecast_join(joined_terms(1000, 1000, **public(tmp_path, rows=60)))


def test_the_command_prints_a_verdict_and_json(tmp_path):
    terms = joined_terms(20_000, 20_000, **public(tmp_path))
    write_terms(terms, tmp_path / "terms.toml")
    shown = CliRunner().invoke(app, ["forecast", str(tmp_path / "terms.toml")])
    assert shown.exit_code == 0, shown.output
    assert "people in all tables" in shown.output
    assert "bank alone" in shown.output
    told = CliRunner().invoke(app, ["forecast", str(tmp_path / "terms.toml"), "--json"])
    content = json.loads(told.output)
    assert [row["people"] for row in content["joined"]] == [400, 1000, 2000, 4000, 10_000, 20_000]
    assert content["terms_hash"] == terms.hash
