"""Owners learn one echo-state network from their recordings."""

import json

import numpy as np
import pytest
from series import narma, series_terms
from typer.testing import CliRunner

from parley import Owner, Terms, plan, train
from parley.cli.app import app
from parley.errors import DataError, ModelError, TermsError
from parley.learning.outcome import load_model
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.ledger import Ledger
from parley.tasks.dynamics.reservoir.model import best_read_out, compared, pooled_moments
from parley.terms import write_terms

RUNS = 150
CLIP = {"privacy": {"clip": 1.8}}
HELD = CLIP | {"model": {"holdout": 0.2}}


@pytest.fixture(scope="module")
def tables():
    return [narma(RUNS, seed) for seed in range(4)]


@pytest.fixture(scope="module")
def fresh():
    return narma(40, 99)


def parties(tables, **ledgers):
    return [Owner(f"site-{k}", table, **ledgers) for k, table in enumerate(tables)]


def test_without_noise_it_is_least_squares_of_the_features(tables, fresh):
    terms = series_terms(1, RUNS, 1e6)
    model = train(terms, parties(tables[:1]), seed=1).model
    late = tables[0].groupby("run").cumcount() >= 30
    rows = model._rows(tables[0])[late]
    y = model.preparation_.target(tables[0], "table")[late]
    theta = np.linalg.lstsq(rows, y, rcond=None)[0]
    records = model.preparation_.records(tables[0], "table")
    np.testing.assert_allclose(best_read_out(pooled_moments([records]), terms.model), theta, atol=1e-8)
    np.testing.assert_allclose(rows @ model.theta_, rows @ theta, atol=0.03)
    behind = fresh.groupby("run").cumcount() >= 30
    error = (model.predict(fresh) - fresh.y)[behind]
    assert np.sqrt(np.mean(error**2)) / fresh.y[behind].std() < 0.55  # the reservoir remembers; guessing has 1


def test_errors_fall_with_the_budget_and_with_one_noise(tables):
    """40 replicates a study: standard errors of about a twentieth of what they differ by."""
    found = {}
    for epsilon, noise in ((1.0, "each-owner"), (8.0, "each-owner"), (8.0, "shared")):
        terms = series_terms(4, RUNS, epsilon, noise, **HELD)
        found[epsilon, noise] = train(terms, parties(tables), replicates=40, seed=2).metrics["nrmse"]
    assert found[1.0, "each-owner"] > found[8.0, "each-owner"] + 0.05
    assert found[8.0, "each-owner"] > found[8.0, "shared"] + 0.05


def test_a_study_says_how_far_it_is_from_no_noise_and_how_many_are_clipped(tables):
    terms = series_terms(2, RUNS, 3.0, **HELD)
    result = train(terms, parties(tables[:2]), replicates=3, seed=1)
    assert result.optimal_metrics["nrmse"] < result.metrics["nrmse"] < 1.5
    assert result.relative_fitness["mean"] > 0
    assert result.metrics["r2"] == pytest.approx(1 - result.metrics["nrmse"] ** 2, abs=0.05)
    assert [each.clipped_share for each in result.owners] == [0.0, 0.0]
    tight = series_terms(2, RUNS, 3.0, privacy={"clip": 0.5})
    assert train(tight, parties(tables[:2]), seed=1).owners[0].clipped_share == 1.0


def test_a_release_debits_once_and_repeats_itself(tables, tmp_path):
    terms = series_terms(2, RUNS, 2.0, **CLIP)

    def owners():
        made = [Owner(f"site-{k}", tables[k], ledger=Ledger(tmp_path / f"{k}.ledger", 2.0, 1e-6)) for k in range(2)]
        for each in made:
            each.accept(terms)
        return made

    first = owners()
    before = train(terms, first)
    assert before.released
    assert [each.epsilon_spent for each in before.owners] == [2.0, 2.0]
    for each in first:
        each.ledger.close()
    again = owners()
    after = train(terms, again)
    assert np.array_equal(after.theta, before.theta)
    assert [each.epsilon_spent for each in after.owners] == [2.0, 2.0]
    for each in again:
        each.ledger.close()


def test_a_release_with_one_noise_is_drawn_by_hosts(tables, tmp_path):
    terms = series_terms(3, RUNS, 8.0, "shared", **CLIP)
    owners = [Owner(f"site-{k}", tables[k], ledger=Ledger(tmp_path / f"{k}.ledger", 8.0, 1e-5)) for k in range(3)]
    for owner in owners:
        owner.accept(terms)
    result = train(terms, owners)
    assert result.released
    assert [each.epsilon_spent for each in result.owners] == [8.0] * 3
    for owner in owners:
        owner.ledger.close()


def test_models_say_the_same_once_saved_and_of_arrays(tables, fresh, tmp_path):
    model = train(series_terms(2, RUNS, 5.0, **CLIP), parties(tables[:2]), seed=1).model
    model.save(tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(fresh), model.predict(fresh))
    one = fresh[fresh.run == "run 3"]
    np.testing.assert_allclose(model.predict(one[["u"]].to_numpy()), model.predict(fresh)[fresh.run == "run 3"])
    mixed = fresh.sample(frac=1.0, random_state=0).sort_values("run", kind="stable")
    assert not np.allclose(model.predict(mixed), model.predict(fresh)[mixed.index])  # order is time
    with pytest.raises(DataError, match="run"):
        model.predict(fresh[["u"]])


def test_owners_judge_it_on_held_out_and_on_new_recordings(tables, fresh):
    terms = series_terms(2, RUNS, 3.0, **HELD)
    owners = parties(tables[:2])
    model = train(terms, owners, seed=1).model
    many, metrics = compared(terms, owners[0], model, None)
    assert many == 30
    assert 0 < metrics["alone"]["nrmse"] < metrics["together"]["nrmse"]
    many, metrics = compared(terms, owners[0], model, fresh)
    behind = fresh.groupby("run").cumcount() >= 30
    error = (model.predict(fresh) - fresh.y)[behind]
    assert many == 40
    assert metrics["together"]["nrmse"] == pytest.approx(np.sqrt(np.mean(error**2)) / fresh.y[behind].std(ddof=0))
    with pytest.raises(ModelError, match="other terms"):
        compared(series_terms(2, RUNS, 4.0, **HELD), owners[0], model, None)
    plain = series_terms(1, RUNS, 3.0)
    with pytest.raises(ModelError, match="--data"):
        compared(plain, owners[0], train(plain, owners[:1], seed=1).model, None)


@pytest.mark.parametrize(
    ("section", "change", "words"),
    [
        ("model", {"reservoir": None}, "reservoir"),
        ("model", {"features": None}, "inputs"),
        ("model", {"bounds": {"u": [0, 1]}}, "bounds.y"),
        ("model", {"bounds": {"u": [0, 1], "y": [0, 1], "v": [0, 1]}}, "bounds.v"),
        ("model", {"radius": 3.0}, "radius"),
        ("model", {"missing": "fill"}, "missing"),
        ("reservoir", {"washout": 100}, "washout"),
        ("reservoir", {"spectral_radius": 1.0}, "spectral_radius"),
        ("reservoir", {"nodes": 0}, "nodes"),
        ("reservoir", {"recording": "u"}, "a column other"),
        ("model", {"kind": "linear-regression"}, "only with kind"),
        ("learning", {"algorithm": "gradient-descent"}, "read-out"),
        ("learning", {"horizon": 2}, "horizon"),
        ("privacy", {"person": "run", "records_per_person": 3}, "whole recording"),
        ("privacy", {"score_epsilon": 0.1}, "score_epsilon"),
        ("privacy", {"unit": "owner", "clip": 1.0}, "unit"),
    ],
)
def test_terms_that_do_not_fit_a_reservoir(section, change, words):
    content = series_terms(2, RUNS, 1.0).model_dump(mode="json", exclude_none=True)
    place = content["model"]["reservoir"] if section == "reservoir" else content[section]
    place.update(change)
    for key in [key for key, value in place.items() if value is None]:
        del place[key]
    with pytest.raises(TermsError, match=words):
        Terms.from_dict(content)


def test_the_promise_is_about_recordings(tables, tmp_path):
    owner = Owner("site-0", tables[0], ledger=Ledger(tmp_path / "a.ledger", 2.0, 1e-6))
    said = " ".join(acceptance_summary(owner, owner.prepare(series_terms(1, RUNS, 1.0))))
    assert ") for every recording" in said
    assert "20 nodes" in said
    assert "m recordings, ε is m times as large, and δ grows" in said
    assert "every person" not in said
    owner.ledger.close()


def test_tables_that_do_not_fit(tables):
    terms = series_terms(1, RUNS, 1.0)
    with pytest.raises(DataError, match="state 150 records, but the table has 149"):
        train(terms, [Owner("site-0", tables[0][tables[0]["run"] != "run 7"])])
    with pytest.raises(TermsError, match="parley train"):
        plan(terms)


def test_the_commands_run_these_terms(tables, fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = series_terms(2, 40, 3.0, **HELD).model_dump(mode="json", exclude_none=True)
    for owner, table in zip(content["owners"], tables, strict=False):
        owner["data"] = f"{owner['name']}.csv"
        table[: 40 * 100].to_csv(owner["data"], index=False)
    fresh.to_csv("new.csv", index=False)
    write_terms(Terms.from_dict(content), tmp_path / "terms.toml")

    def said(*words):
        ran = CliRunner().invoke(app, words)
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    assert "one recording" in said("train", "terms.toml", "--seed", "1", "--save", "model.json")
    assert json.loads((tmp_path / "model.json").read_text())["kind"] == "echo-state"
    assert "4,000 rows" in said("predict", "model.json", "new.csv", "--out", "out.csv")
    found = json.loads(said("score", "model.json", "terms.toml", "--owner", "site-0", "--data", "new.csv", "--json"))
    assert found["owners"][0]["recordings"] == 40
    assert "held-out recordings" in said("score", "model.json", "terms.toml", "--all")
    refused = CliRunner().invoke(app, ["forecast", "terms.toml"])
    assert refused.exit_code != 0
