import json

import numpy as np
import pandas as pd
import pytest
from samples import BOUNDS, make_terms, regression_table

import parley
from parley.decisions.knowledge.sources import ReleasedMoments, Stated, bootstrap_interval
from parley.decisions.outlook.forecast import forecast
from parley.errors import DataError, SettingError

PLAIN = {"model__bounds": BOUNDS, "model__radius": 30.0, "privacy__clip": 60.0}


def released(tmp_path, epsilon, rows=20_000):
    """Owners release their second moments once; the file that `parley train --json` would give."""
    terms = make_terms(
        rows, epsilon=epsilon, model__bounds=BOUNDS, privacy__clip=None, learning__algorithm="sufficient-statistics",
        learning__horizon=None, learning__step=None,
    )  # fmt: skip
    result = parley.train(terms, [parley.Owner("a", regression_table(rows, seed=4))], seed=0)
    (tmp_path / "moments.json").write_text(json.dumps(result.to_json()))
    return ReleasedMoments.load(tmp_path / "moments.json")


def test_released_moments_forecast_like_the_table_itself(tmp_path):
    terms = make_terms(5000, epsilon=0.5, **PLAIN)
    from_table = forecast(terms, pilot=regression_table(20_000, seed=4), resamples=5)
    from_release = forecast(terms, pilot=released(tmp_path, epsilon=50.0), resamples=40)
    assert from_table.method == from_release.method == "exact-moments"
    assert from_release.relative_fitness.mean == pytest.approx(from_table.relative_fitness.mean, rel=0.05)
    assert from_release.relative_fitness.low <= from_table.relative_fitness.mean <= from_release.relative_fitness.high


def test_a_noisier_release_gives_a_wider_interval(tmp_path):
    terms = make_terms(5000, epsilon=0.5, **PLAIN)
    width = {}
    for epsilon in (0.05, 2.0):
        interval = forecast(terms, pilot=released(tmp_path, epsilon)).relative_fitness
        width[epsilon] = (interval.high - interval.low) / interval.mean
    assert width[0.05] > 3 * width[2.0]


def test_a_stated_spectrum_gives_the_same_as_the_table_it_describes(tmp_path):
    terms = make_terms(5000, epsilon=0.5, **PLAIN)
    table = regression_table(20_000, seed=4)
    from_table = forecast(terms, pilot=table, resamples=2)
    pilot = parley.decisions.knowledge.pilot.open_pilot(terms, table)
    here = pilot.landscape()
    stated = Stated(here.curvature, here.least_at(5000), start=here.start)
    assert forecast(terms, pilot=stated).relative_fitness.mean == pytest.approx(
        from_table.relative_fitness.mean, rel=1e-9
    )
    # A bare distance leaves the direction open: the interval holds the truth, whatever it is.
    bare = forecast(
        terms, pilot=Stated(here.curvature, here.least_at(5000), distance=float(np.linalg.norm(here.start)))
    ).relative_fitness
    assert bare.low <= from_table.relative_fitness.mean <= bare.high


def test_stated_assumptions_come_from_a_file(tmp_path):
    file = tmp_path / "assumed.toml"
    file.write_text("curvature = [2.0, 1.0, 0.5]\nleast_cost = 0.4\ndistance = 1.5\n")
    assert Stated.load(file).distance == 1.5
    for text, match in [
        ("curvature = [2.0]\n", "keys"),
        ("curvature = [2.0]\nleast_cost = 1\n", "distance"),
        ("curvature = [-2.0]\nleast_cost = 1\ndistance = 1\n", "eigenvalues"),
        ("curvature = [2.0\n", "TOML"),
        ("curvature = [2.0]\nleast_cost = 1\ndistance = 1\nspeed = 1\n", "keys"),
    ]:
        file.write_text(text)
        with pytest.raises(DataError, match=match):
            Stated.load(file)


def test_a_source_of_another_width_or_for_a_classifier_is_refused(tmp_path):
    with pytest.raises(DataError, match="3"):
        forecast(make_terms(500), pilot=Stated(np.ones(2), 1.0, distance=1.0))
    with pytest.raises(SettingError, match="only for linear-regression"):
        forecast(make_terms(500, model__kind="linear-svm", model__intercept=False), pilot=released(tmp_path, 1.0))
    (tmp_path / "wrong.json").write_text("{}")
    with pytest.raises(DataError, match="sufficient-statistics"):
        ReleasedMoments.load(tmp_path / "wrong.json")


def test_without_a_sample_a_clip_within_reach_is_not_called_exact_and_not_planned_around():
    """A plan that steps into the clip looks good by the moments and is ruinous in truth: it must not be proposed."""
    terms = make_terms(
        3000, epsilon=1.0, learning__horizon=30, learning__step=0.3, model__radius=None, privacy__clip=1.0
    )
    stated = Stated(np.array([0.7, 0.7, 0.6]), 0.02, distance=1.0)
    assert forecast(terms, pilot=stated).method == "curvature-moments"
    proposal = parley.plan(terms, pilot=stated)
    assert proposal.best.label == "as written"
    free = make_terms(
        3000, epsilon=1.0, learning__horizon=30, learning__step=0.3, model__radius=None, privacy__clip=30.0
    )
    planned = parley.plan(free, pilot=stated)
    owners = [parley.Owner("a", regression_table(3000, seed=4))]
    before, after = (
        parley.train(t, owners, replicates=100, seed=1).relative_fitness["mean"] for t in (free, planned.terms)
    )
    assert after < before  # measured by training, not by its own forecast


def test_a_release_that_drowns_says_so(tmp_path):
    warnings = forecast(make_terms(5000, epsilon=0.5, **PLAIN), pilot=released(tmp_path, 0.02)).warnings
    assert any("noise hides" in warning for warning in warnings)
    assert not forecast(make_terms(5000, epsilon=0.5, **PLAIN), pilot=released(tmp_path, 50.0)).warnings


def test_the_interval_of_a_small_sample_covers_and_the_reader_is_warned():
    """300 rows for ten parameters: raw percentiles held the truth in about half of the cases; 20 pilots, at least 15
    inside."""
    rng = np.random.default_rng(0)

    def table(n):
        X = rng.normal(size=(n, 10))
        return pd.DataFrame(X, columns=[f"x{j}" for j in range(10)]).assign(y=X @ np.full(10, 0.5) + rng.normal(size=n))

    columns = [f"x{j}" for j in range(10)]
    content = make_terms(5000, 5000, epsilon=2.0, model__radius=None, privacy__clip=200.0).model_dump()
    content["model"]["features"], content["learning"] = columns, {"horizon": 20, "step": 0.3}
    terms = parley.Terms.from_dict(content)
    owners = [parley.Owner(name, table(5000)) for name in "ab"]
    truth = parley.train(terms, owners, replicates=2000, seed=0, whole_path=False).relative_fitness["mean"]
    forecasts = [forecast(terms, pilot=table(300)) for _ in range(20)]
    inside = sum(f.relative_fitness.low <= truth <= f.relative_fitness.high for f in forecasts)
    assert inside >= 15
    assert all(any("300 rows for 10 parameters" in warning for warning in f.warnings) for f in forecasts)


def test_an_interval_of_versions_that_are_not_all_positive_is_as_wide_as_they_scatter():
    """A negative ratio has no power: the interval must neither vanish nor be no number."""
    low, high = bootstrap_interval(2.0, 1.0, np.linspace(-3.0, 4.0, 101), wider=1.2)
    assert low < 2.0 - 3
    assert high > 2.0 + 3
