import json

import numpy as np
import pytest

import parley
from parley.errors import DataError, SettingError
from parley.forecasting import forecast
from parley.forecasting.sources import ReleasedMoments, Stated
from samples import BOUNDS, make_terms, regression_table

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
    assert any("clip" in warning for warning in from_release.warnings)


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
    pilot = parley.forecasting.pilot.open_pilot(terms, table)
    here = pilot.landscape()
    stated = Stated(here.curvature, here.least_cost, start=here.start)
    assert forecast(terms, pilot=stated).relative_fitness.mean == pytest.approx(from_table.relative_fitness.mean, rel=1e-9)
    # A bare distance leaves the direction open: the interval holds the truth, whatever it is.
    bare = forecast(
        terms, pilot=Stated(here.curvature, here.least_cost, distance=float(np.linalg.norm(here.start)))
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
    with pytest.raises(SettingError, match="linear-regression only"):
        forecast(make_terms(500, model__kind="linear-svm", model__intercept=False), pilot=released(tmp_path, 1.0))
    (tmp_path / "wrong.json").write_text("{}")
    with pytest.raises(DataError, match="sufficient-statistics"):
        ReleasedMoments.load(tmp_path / "wrong.json")
