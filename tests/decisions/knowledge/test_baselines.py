import numpy as np
import pytest
from samples import class_table, make_terms, regression_table

from parley.data.split import folds
from parley.decisions.knowledge.baselines import baselines, fit_errors, public_sample_model
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.knowledge.sources import Stated


def public_pilot(tmp_path, rows, kind="linear-regression", seed=9, **overrides):
    table = regression_table(rows, seed) if kind == "linear-regression" else class_table(rows, seed)
    table.to_csv(tmp_path / "public.csv", index=False)
    return open_pilot(make_terms(3000, model__kind=kind, model__public=str(tmp_path / "public.csv"), **overrides))


@pytest.mark.parametrize("kind", ["linear-regression", "logistic-regression", "linear-svm"])
def test_the_cost_of_the_public_sample_alone_is_what_new_rows_show(tmp_path, kind):
    """Mean over public samples of 60 rows, against 20,000 rows that no fit has seen: within 3 standard errors, and
    above the fits' own."""
    settings = {
        "model__radius": None,
        "privacy__clip": 5.0,
        "model__regularisation": 0.05 if kind == "linear-svm" else None,
    }
    expected, truth, fitted = [], [], []
    for seed in range(12):
        pilot = public_pilot(tmp_path, 60, kind, seed, **settings)
        fresh = regression_table(20_000, 99) if kind == "linear-regression" else class_table(20_000, 99)
        model = public_sample_model(pilot)
        expected.append(model.cost)
        truth.append(float(pilot.objective.cost(pilot.setup.preparation.design(fresh, "fresh"), model.theta)))
        fitted.append(float(pilot.objective.cost(pilot.design, model.theta)))
    off = np.array(expected) - np.array(truth)
    error = off.std(ddof=1) / np.sqrt(len(off))
    assert abs(off.mean()) < 3 * error
    assert np.mean(fitted) < np.mean(truth)  # so the fit's own cost would not have told


def test_terms_without_a_clip_have_a_public_fit_too(tmp_path):
    """Released statistics of bounded columns need none; without the fit, joining would be credited with the sample."""
    once = {"learning__algorithm": "sufficient-statistics", "learning__horizon": 1, "learning__step": "auto"}
    errors = [
        fit_errors(public_pilot(tmp_path, 200, privacy__clip=clip, model__radius=None, **once)) for clip in (None, 8.0)
    ]
    np.testing.assert_allclose(*errors, rtol=1e-6, atol=1e-9)


def test_a_ridge_is_chosen_where_rows_are_few_and_features_say_nothing(tmp_path):
    pilot = public_pilot(tmp_path, 40, "logistic-regression", privacy__clip=5.0, model__radius=None)
    rng = np.random.default_rng(1)
    pilot.design.y[:] = rng.choice([-1.0, 1.0], len(pilot.design))
    assert public_sample_model(pilot).ridge > 0


def test_costs_are_in_the_targets_own_units(tmp_path):
    pilot = public_pilot(tmp_path, 400, privacy__clip=12.0, model__intercept=True)
    both = baselines(pilot)
    model = public_sample_model(pilot)
    assert pilot.setup.preparation.target_scale != 1
    assert both.public_sample == model.expected_cost == model.cost * pilot.setup.preparation.target_scale**2
    assert both.zero == pytest.approx(float(np.var(regression_table(400, 9).y)), rel=1e-6)
    assert both.to_json() == {"zero": both.zero, "public_sample": both.public_sample}


def test_without_a_sample_there_is_no_such_model():
    terms = make_terms(3000, learning__step=0.5, model__radius=None, privacy__clip=12.0)
    pilot = open_pilot(terms, Stated(np.array([0.7, 0.7, 0.6]), 0.02, distance=1.0))
    assert public_sample_model(pilot) is None
    assert baselines(pilot).public_sample is None
    assert baselines(pilot).zero > 0.02


def test_every_row_is_held_back_once():
    assert np.array_equal(np.sum(folds(23, 10), axis=0), np.ones(23))
    assert len(folds(1, 10)) == 0
