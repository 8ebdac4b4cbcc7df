from dataclasses import replace

import numpy as np
import pytest
from samples import make_terms, regression_table

import parley
from parley.decisions.expectation.expectation import expect
from parley.decisions.expectation.pilot_runs import pilot_models
from parley.decisions.knowledge.baselines import fitted_excess
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.outlook.worth import require_worth, worth, worth_of
from parley.errors import BelowBaselineError

RUNS = 24  # of the pilot


@pytest.fixture
def public(tmp_path):
    regression_table(400, seed=9).to_csv(tmp_path / "public.csv", index=False)
    return str(tmp_path / "public.csv")


def terms_of(public, records, horizon=30, **more):
    return make_terms(
        records,
        records,
        model__public=public,
        learning__horizon=horizon,
        learning__step=0.4,
        privacy__clip=12.0,
        **more,
    )


def test_costs_stand_beside_those_of_nobody_in_the_targets_own_units(tmp_path):
    """A target in other units scales all three alike, with the square of the unit."""
    found = []
    for scale in (1.0, 10.0):
        table = regression_table(400, seed=9)
        table.assign(y=scale * table["y"]).to_csv(tmp_path / "public.csv", index=False)
        made = worth(terms_of(str(tmp_path / "public.csv"), 4000, model__intercept=True))
        found.append(np.array([made.together, made.baselines.zero, made.baselines.public_sample]))
    assert found[1] == pytest.approx(100 * found[0], rel=1e-6)
    zero = regression_table(400, seed=9)["y"].to_numpy()
    assert found[0][1] == pytest.approx(zero.var(), rel=1e-6)  # the model that always predicts the mean
    assert found[0][2] == pytest.approx(0.2**2 / 3, rel=0.2)  # the noise that is in the table


def test_terms_are_refused_below_either_baseline_and_only_then(public):
    good = worth(terms_of(public, 100_000, horizon=200, model__intercept=True))
    assert good.sentence() is None
    require_worth(good)
    poor = worth(terms_of(public, 2000, model__intercept=True))
    assert poor.baselines.public_sample < poor.together < poor.baselines.zero
    with pytest.raises(BelowBaselineError, match="from the public sample alone"):
        require_worth(poor)
    hopeless = worth(terms_of(public, 40, model__intercept=True))
    with pytest.raises(BelowBaselineError, match=r"the zero model.*Nothing was spent"):
        require_worth(hopeless)


def test_the_forecast_says_the_same(public):
    terms = terms_of(public, 2000, model__intercept=True)
    result = parley.forecast(terms, resamples=2)
    quick = worth(terms)
    assert result.to_json()["baselines"] == quick.to_json()
    assert result.worth.together == pytest.approx(quick.together, rel=3 / np.sqrt(RUNS))
    assert result.worth.together == pytest.approx(result.owners[0].together, rel=0.02)


def test_without_a_public_sample_nobody_can_tell():
    assert worth(make_terms(100)) is None
    require_worth(None)


def test_what_chance_explains_is_not_refused(public):
    """A joint model may seem worse by two standard errors of the comparison, and no more; the message says how large
    they are."""
    terms = terms_of(public, 20_000, model__intercept=True)
    found = worth(terms)
    assert 0 < found.error < found.baselines.public_sample / 10
    level = found.baselines.public_sample
    assert replace(found, together=level + 1.9 * found.error).sentence() is None
    assert "2 standard errors" in replace(found, together=level + 2.1 * found.error).sentence()
    assert f"{found.error:.2g}" in replace(found, together=level + 2.1 * found.error).sentence()
    assert "standard errors" not in replace(found, together=level, error=0.0).sentence()


def test_the_standard_error_is_that_of_the_runs_and_of_the_public_fits(public):
    """Across seeds the runs' part spreads as it says; without runs there is the fits' part alone."""
    terms = terms_of(public, 20_000, model__intercept=True, learning__algorithm="averaged-subgradient").changed(
        privacy={"clip": 1.0}
    )
    expected = expect(open_pilot(terms))
    assert expected.method == "pilot-run"
    unit = expected.pilot.setup.preparation.target_scale**2
    fits = fitted_excess(expected.pilot)[0]
    own = fits.std(ddof=1) / np.sqrt(len(fits)) * unit
    drawn = [pilot_models(expected.pilot, RUNS, seed) for seed in range(60)]
    many = [worth_of(expected, float(expected.excess_of(models).mean()) / expected.unit, models) for models in drawn]
    runs = np.sqrt(np.mean([each.error**2 - own**2 for each in many]))
    spread = np.std([each.together for each in many], ddof=1)
    assert spread == pytest.approx(runs, rel=0.45)  # of 60 draws: four standard errors
    assert worth_of(expected, 0.1).error == pytest.approx(own)


def test_what_is_refused_before_training_is_what_the_forecast_shows(public):
    """By a run on the pilot, too: one figure for one file, or a release would spend what the forecast advises
    against."""
    terms = terms_of(public, 2000, horizon=6, model__intercept=True).changed(privacy={"clip": 0.3})
    result = parley.forecast(terms, resamples=2)
    assert result.method == "pilot-run"
    before = worth(terms)
    assert (before.together, before.error) == (result.worth.together, result.worth.error)
