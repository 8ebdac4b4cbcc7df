"""Counts and lifetimes from terms to predictions: releases, one noise for all, forecasts, files, commands."""

import json

import numpy as np
import pandas as pd
import pytest
from samples import make_terms
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.terms_from_files import draft
from parley.errors import DataError, SettingError, TermsError
from parley.learning.estimators import PrivatePoissonRegressor
from parley.learning.outcome.predicted_table import predictions
from parley.learning.outcome.verdict import score
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.ledger import Ledger
from parley.protocol.setup import resolve
from parley.report.words.verdict import verdict_rows
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement

FEATURES = {f"x{j}": [-1.0, 1.0] for j in range(3)}
COUNTS = {
    "model__kind": "poisson-regression",
    "model__exposure": "years",
    "model__bounds": FEATURES | {"y": [0, 20], "years": [0.1, 1.0]},
    "model__holdout": 0.2,
    "learning__algorithm": "gradient-descent",
    "learning__decay": 0.0,
    "learning__step": 0.4,
    "learning__horizon": 15,
}
LIVES = {
    **COUNTS,
    "model__kind": "survival",
    "model__exposure": None,
    "model__event": "event",
    "model__periods": [1.0, 2.0, 4.0],
    "model__bounds": FEATURES,
    "learning__step": 1.0,
}
SHARED = {"privacy__noise": "shared", "privacy__mechanism": "gaussian", "privacy__delta": 1e-5}


def table(n, seed=0):
    """Counts with their exposures, and times with what happened."""
    rng = np.random.default_rng(seed)
    X, years = rng.uniform(-1, 1, (n, 3)), rng.uniform(0.1, 1, n)
    rate = np.exp(0.5 + X @ [0.9, -0.6, 0.1])
    waited, watched = rng.exponential(3 / rate), rng.uniform(0, 8, n)
    frame = pd.DataFrame(X, columns=[*FEATURES]).assign(y=rng.poisson(years * rate), years=years)
    return frame.assign(days=np.minimum(waited, watched), event=(waited <= watched).astype(int))


def terms_of(kind, *sizes, **overrides):
    base = COUNTS if kind == "counts" else {**LIVES, "model__target": "days"}
    made = {**base, "privacy__clip": 2.0, **overrides}
    if "privacy__noise" in overrides:
        content = make_terms(*sizes, **{k: v for k, v in made.items() if k != "privacy__noise"}, epsilon=20.0)
        return content.changed(privacy={"noise": "shared"}, hosts=["h1", "h2", "h3"])
    return make_terms(*sizes, **made, epsilon=20.0)


def test_a_survival_model_is_scored_beside_the_hazards_of_all():
    """Whose cost is that of the discrete Kaplan-Meier curve of the owner's training rows."""
    terms = terms_of("lives", 1500)
    owner = parley.Owner("a", table(1500))
    verdict = score(terms, owner, parley.train(terms, [owner], seed=0).model)
    tables = owner.prepare(terms).tables
    train, held = tables.train.y.astype(int), tables.held_out.y.astype(int)
    cost = np.zeros(len(held))
    for period in range(3):
        there, befell = train // 2 >= period, train == 2 * period + 1
        there &= train != 2 * period  # censored before the period ended
        hazard = befell.sum() / there.sum()
        cost -= np.where(held == 2 * period + 1, np.log(hazard), 0) + np.where(held // 2 > period, np.log1p(-hazard), 0)
    assert verdict.same_for_all.mean == pytest.approx(cost.mean(), rel=1e-9)
    assert verdict.cost_together < verdict.same_for_all.mean
    assert "always the average hazards" in [row[0] for row in verdict_rows(verdict)]


@pytest.mark.parametrize("noise", [{}, SHARED], ids=["own noise", "one noise"])
@pytest.mark.parametrize("kind", ["counts", "lives"])
def test_a_study_comes_near_the_best_model(kind, noise):
    terms = terms_of(kind, 1500, 1000, **noise)
    owners = [parley.Owner("a", table(1500)), parley.Owner("b", table(1000, 1))]
    result = parley.train(terms, owners, replicates=3, seed=0)
    assert result.relative_fitness["mean"] < 0.1
    main = "d2" if kind == "counts" else "concordance"
    assert result.metrics[main] > result.optimal_metrics[main] - 0.08
    assert result.model.terms_hash_ == terms.hash


@pytest.mark.parametrize("kind", ["counts", "lives"])
def test_a_release_is_debited_and_its_model_is_written_read_and_scored(kind, tmp_path):
    terms, rows = terms_of(kind, 600), table(600)
    owner = parley.Owner("a", rows, ledger=Ledger(tmp_path / "a.ledger", 20.0))
    said = acceptance_summary(owner, owner.prepare(terms))
    words = "a count, cut to 0 to 20; per unit of 'years'" if kind == "counts" else "time until 'event'"
    assert words in str(said)
    owner.accept(terms)
    result = parley.train(terms, [owner])
    assert result.released
    assert result.owners[0].epsilon_spent == 20.0
    result.model.save(tmp_path / "model.json")
    model = parley.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(model.predict(rows), result.model.predict(rows))
    verdict = score(terms, parley.Owner("a", rows), model)
    assert set(verdict.together) == ({"d2", "mean_deviance"} if kind == "counts" else {"concordance", "log_loss"})
    assert verdict.target_words is not None


@pytest.mark.parametrize("kind", ["counts", "lives"])
@pytest.mark.parametrize("sampling", ["partition", "poisson"])
def test_batches_learn_them_too(kind, sampling):
    batches = {"learning__algorithm": "private-sgd", "learning__batches": 4, "learning__sampling": sampling}
    terms = terms_of(kind, 800, **batches, learning__decay=None, learning__horizon=16)
    result = parley.train(terms, [parley.Owner("a", table(800))], replicates=2, seed=0)
    assert np.isfinite(result.cost)
    assert result.relative_fitness["mean"] < 1


@pytest.mark.parametrize("kind", ["counts", "lives"])
def test_forecasts_run_on_a_pilot_and_on_rows_drawn_from_scales(kind):
    terms = terms_of(kind, 2000)
    forecast = parley.forecast(terms, table(400, 3), resamples=1)
    assert 0 < forecast.relative_fitness.mean < 1
    invented = terms.changed(model={"scales": dict.fromkeys(FEATURES, 0.5)})
    assert parley.forecast(invented, resamples=1).relative_fitness.mean > 0


def test_predicted_counts_are_rates_times_exposures():
    terms, rows = terms_of("counts", 400), table(400)
    model = parley.train(terms, [parley.Owner("a", rows)], replicates=1, seed=0).model
    np.testing.assert_allclose(model.predict(rows), model.predict_rate(rows) * rows["years"].clip(0.1, 1.0))
    np.testing.assert_allclose(model.predict(rows[[*FEATURES]].to_numpy()), model.predict_rate(rows))
    assert model.predict(rows.assign(x0=1e300, x1=-1e300)).max() <= 20 / 0.1
    with pytest.raises(DataError, match="'years' is missing"):
        model.predict(rows.drop(columns="years"))
    assert "predicted_y" in predictions(model, rows)


def test_an_estimator_takes_exposures():
    rng = np.random.default_rng(0)
    X, years = rng.normal(size=(6000, 2)), rng.uniform(0.2, 1.0, 6000)
    y = rng.poisson(0.1 * years * np.exp(X @ [0.7, -0.4]))
    model = PrivatePoissonRegressor(epsilon=200.0, usual_rate=0.1, clip=4.0, horizon=400, random_state=0)
    model.fit(X, y, exposure=years)
    np.testing.assert_allclose(model.coef_, [0.7, -0.4], atol=0.15)
    assert model.predict(X).mean() == pytest.approx(0.1 * np.exp(0.325), rel=0.15)
    with pytest.raises(ValueError, match="inconsistent"):
        PrivatePoissonRegressor().fit(X, y, exposure=years[:5])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model__bounds": {"years": [0.1, 1]}}, r"model.bounds.y: expected \[low, high\] with low >= 0"),
        ({"model__bounds": {"y": [-1, 5], "years": [0.1, 1]}}, r"model.bounds.y: expected \[low, high\] with low >= 0"),
        ({"model__bounds": {"y": [0, 5]}}, r"model.bounds.years: expected \[low, high\] above 0"),
        ({"model__bounds": {"y": [0, 5], "years": [0, 1]}}, r"model.bounds.years: expected \[low, high\] above 0"),
        ({"model__scales": {"y": 2.0}}, r"model.scales.y: not allowed for a count; set the usual rate in centres.y"),
        ({"model__centres": {"y": -2.0}}, r"model.centres.y: expected a rate above 0"),
        ({"model__categories": {"y": ["0", "1"]}}, r"model.categories.y: not allowed for a count"),
        ({"model__features": ["x0", "years"]}, r"model.features.years: expected a feature"),
        ({"model__kind": "linear-regression"}, r"model.exposure: allowed only with kind = 'poisson-regression'"),
        ({"model__event": "x2"}, r"model.event: allowed only with kind = 'survival'"),
        (
            {"learning__algorithm": "objective-perturbation", "learning__decay": None, "learning__step": None}
            | {"learning__horizon": 1},
            "objective-perturbation is not available for poisson-regression",
        ),
    ],
)
def test_what_does_not_fit_counts_is_refused_in_one_sentence(changes, said):
    with pytest.raises(TermsError, match=said):
        terms_of("counts", 100, **changes)


def test_commands_write_terms_and_draw_curves(tmp_path):
    for name, seed in (("a", 0), ("b", 1), ("public", 2)):
        table(400, seed).to_csv(tmp_path / f"{name}.csv", index=False)
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    few = {"public": tmp_path / "public.csv", "features": ("x0", "x1", "x2")}
    counted = draft(files, Wishes("y", kind="poisson-regression", exposure="years", **few)).terms.model
    known = table(400, 2)
    assert counted.bounds["y"] == (0.0, float(known["y"].max()))
    assert counted.bounds["years"] == pytest.approx((known["years"].min(), known["years"].max()))
    with pytest.raises(SettingError, match="--bounds y=LOW,HIGH: required for poisson-regression"):
        draft(files, Wishes("y", kind="poisson-regression", features=("x0",)))
    lived = draft(files, Wishes("days", kind="survival", event="event", periods=(1.0, 2.0, 4.0), **few)).terms
    assert (lived.model.event, lived.model.periods) == ("event", (1.0, 2.0, 4.0))
    assert draft(files, Wishes("y", tmp_path / "public.csv")).terms.model.kind == "linear-regression"  # never guessed

    owners = [parley.Owner(name, table(400, seed)) for name, seed in (("a", 0), ("b", 1))]
    parley.train(lived, owners, replicates=1, seed=0).model.save(tmp_path / "model.json")
    asked = [tmp_path / "model.json", files[0], "--out", tmp_path / "out.csv", "--plot", tmp_path / "curves.png"]
    done = CliRunner().invoke(app, ["predict", *map(str, asked), "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout)["largest"] <= 4.0
    out = pd.read_csv(tmp_path / "out.csv")
    assert (out[["survival_1", "survival_2", "survival_4"]].diff(axis=1).iloc[:, 1:] <= 0).all(axis=None)
    np.testing.assert_allclose(out["survival_1"], 1 - out["hazard_1"])
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    parley.train(terms_of("counts", 400), owners[:1], replicates=1, seed=0).model.save(tmp_path / "model.json")
    refused = CliRunner().invoke(app, ["predict", *map(str, asked)])
    assert isinstance(refused.exception, SettingError)
    assert "use a model of kind survival" in str(refused.exception)


@pytest.mark.parametrize("kind", ["counts", "lives"])
def test_where_scales_are_asked_first_what_belongs_to_the_target_stays(kind):
    terms = terms_of(kind, 500, privacy__scale_epsilon=1.0)
    asked = column_statistics_agreement(terms)
    assert asked.model.outcome_columns == terms.model.outcome_columns
    assert {k: getattr(asked.model, k) for k in asked.model.own_keys()} == {
        k: getattr(terms.model, k) for k in terms.model.own_keys()
    }
    preparation = resolve(asked).preparation
    assert preparation.asked == ("x0", "x1", "x2")  # the target's bounds, or periods, are public
