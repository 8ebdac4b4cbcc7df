"""Owners that drive copies of one plant identify it together."""

import numpy as np
import pytest
from plants import ROTOR, plant_terms, trajectories

from parley import Owner, Terms, plan, train
from parley.errors import DataError, TermsError
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.ledger import Ledger
from parley.tasks.dynamics.report import forecast_plant
from parley.tasks.dynamics.run import PlantRelease, identify_together

RUNS = 300
CLIP = {"clip": 4.0}  # what these trajectories measure; the bounds alone would allow 16


@pytest.fixture(scope="module")
def tables():
    return [trajectories(RUNS, seed) for seed in range(8)]


def study(tables, owners, epsilon, noise="each-owner", replicates=24):
    terms = plant_terms(owners, RUNS, epsilon, noise, **CLIP)
    parties = [Owner(f"plant-{k}", tables[k]) for k in range(owners)]
    return identify_together(terms, parties, replicates=replicates, seed=3)


def rms(errors):
    return float(np.sqrt(np.mean(errors**2)))


@pytest.fixture(scope="module")
def sixty(tables):
    """(a study of eight owners, what is identified from each of its releases): run once, looked at by two."""
    result = study(tables, 8, 6.0, replicates=60)
    return result, [release.identify() for release in result.releases]


def test_with_a_budget_that_hides_nothing_the_plant_comes_back(tables):
    result = study(tables, 2, 1e6, replicates=1)
    found = result.identified()
    assert found.plant.delays[0] == pytest.approx(2.5, abs=4 * found.delay_std[0])
    assert pytest.approx(ROTOR.A, abs=0.01) == found.plant.A
    assert pytest.approx(ROTOR.B, abs=0.03) == found.plant.B


def test_errors_fall_with_owners_and_faster_with_one_noise(tables):
    error = {
        (k, noise): rms(study(tables, k, 6.0, noise).errors(2.5)) for k in (2, 8) for noise in ("each-owner", "shared")
    }
    own, shared = error[2, "each-owner"] / error[8, "each-owner"], error[2, "shared"] / error[8, "shared"]
    assert own > 1.3  # sqrt 4 but for chance
    assert shared > 1.6 * own  # 4 but for chance
    assert error[8, "shared"] < error[8, "each-owner"] / 1.8


def test_standard_errors_count_the_noise(sixty):
    result, found = sixty
    errors = np.array([f.plant.delays[0] for f in found]) - 2.5
    inside = np.mean([abs(e) < 1.645 * f.delay_std[0] for e, f in zip(errors, found, strict=True)])
    assert abs(inside - 0.9) < 3 * np.sqrt(0.09 / len(errors))
    silent = [
        PlantRelease(r.model, r.moments, r.trajectories, 1e-9, r.norm, r.scale).identify() for r in result.releases[:20]
    ]
    assert np.median([s.delay_std[0] for s in silent]) < rms(errors) / 2  # forgetting the noise would be caught


def test_the_forecast_says_beforehand_how_well(sixty):
    terms = plant_terms(8, RUNS, 6.0, **CLIP)
    expected = forecast_plant(terms, trajectories(60, 99))
    measured = rms(np.array([f.plant.delays[0] for f in sixty[1]]) - 2.5)
    assert expected.together == pytest.approx(measured, rel=0.35)
    assert expected.without_noise < min(expected.alone.values())
    assert expected.gainers == []  # 300 trajectories with little noise say more than eight owners under this one
    assert "alone" in expected.sentence()
    wide = forecast_plant(plant_terms(8, RUNS, 6.0), trajectories(60, 99))
    assert wide.together > 2 * expected.together
    assert wide.clip == pytest.approx(4.0, rel=0.2)  # proposed from the pilot alone
    assert "privacy.clip" in wide.sentence()


def test_noise_that_drowns_the_plant_is_said(tables):
    result = study(tables, 2, 0.05, replicates=8)
    assert np.isnan(result.errors(2.5)).any() or rms(result.errors(2.5)) > 0.5
    assert all(release.repaired for release in result.releases)
    assert not any(release.repaired for release in study(tables, 2, 1e6, replicates=2).releases)
    assert forecast_plant(plant_terms(2, RUNS, 0.001), trajectories(60, 99)).to_json()["owners"]


def test_a_release_debits_once_and_repeats_itself(tables, tmp_path):
    terms = plant_terms(2, RUNS, 2.0)

    def owners():
        return [Owner(f"plant-{k}", tables[k], ledger=Ledger(tmp_path / f"{k}.ledger", 2.0, 1e-6)) for k in range(2)]

    parties = owners()
    for party in parties:
        party.accept(terms)
    first = identify_together(terms, parties)
    assert first.spent == {"plant-0": 2.0, "plant-1": 2.0}
    for party in parties:
        party.ledger.close()
    again = owners()
    for party in again:
        party.accept(terms)
    second = identify_together(terms, again)
    assert np.array_equal(first.releases[0].moments, second.releases[0].moments)
    assert second.spent == first.spent


def test_a_release_with_one_noise_is_drawn_by_hosts(tables, tmp_path):
    terms = plant_terms(3, RUNS, 12.0, "shared", **CLIP)
    owners = [Owner(f"plant-{k}", tables[k], ledger=Ledger(tmp_path / f"{k}.ledger", 12.0, 1e-5)) for k in range(3)]
    for owner in owners:
        owner.accept(terms)
    result = identify_together(terms, owners)
    assert result.to_json()["adjacency"] == "replace-one"
    assert result.released
    assert result.spent == dict.fromkeys(("plant-0", "plant-1", "plant-2"), 12.0)
    found = result.identified()
    assert found.plant.delays[0] == pytest.approx(2.5, abs=5 * found.delay_std[0])
    assert found.delay_std[0] < 0.15
    for owner in owners:
        owner.ledger.close()


def test_saved_releases_say_the_same(tables, tmp_path):
    import json

    release = study(tables, 2, 1e6, replicates=1).releases[0]
    path = tmp_path / "plant.json"
    path.write_text(json.dumps(release.to_json()))
    assert PlantRelease.load(path).identify().plant.delays[0] == release.identify().plant.delays[0]


@pytest.mark.parametrize(
    ("section", "change", "words"),
    [
        ("model", {"samples": 5}, "max_delay"),
        ("model", {"states": None}, "states"),
        ("model", {"inputs": ["x1"]}, "different columns"),
        ("model", {"holdout": 0.2}, "holdout"),
        ("model", {"kind": "linear-regression", "target": "x1"}, "only with kind"),
        ("learning", {"algorithm": "gradient-descent"}, "identification"),
        ("privacy", {"person": "run", "records_per_person": 3}, "whole trajectory"),
        ("privacy", {"score_epsilon": 0.1}, "score_epsilon"),
    ],
)
def test_terms_that_do_not_fit_a_plant(section, change, words):
    content = plant_terms(2, RUNS, 1.0).model_dump(mode="json", exclude_none=True)
    content["model"].pop("target")
    content[section] = {k: v for k, v in (content[section] | change).items() if v is not None}
    with pytest.raises(TermsError, match=words):
        Terms.from_dict(content)


def test_train_runs_these_terms_too_and_a_forecast_of_a_model_says_which_command_does(tables):
    terms, owners = plant_terms(1, RUNS, 1.0), [Owner("plant-0", tables[0])]
    trained, identified = train(terms, owners, seed=1), identify_together(terms, owners, seed=1)
    assert np.array_equal(trained.releases[0].moments, identified.releases[0].moments)
    with pytest.raises(TermsError, match="parley identify"):
        plan(terms)


def test_tables_that_do_not_fit(tables):
    terms = plant_terms(1, RUNS, 1.0)
    with pytest.raises(DataError, match="state 300 records, but the table has 299"):
        identify_together(terms, [Owner("plant-0", tables[0][tables[0]["run"] != "run 7"])])
    with pytest.raises(DataError, match="state 1 records, but the table has 0 trajectories"):
        identify_together(plant_terms(1, 1, 1.0), [Owner("plant-0", tables[0][:0])])
    gap = tables[0].copy()
    gap.loc[3, "run"] = None
    with pytest.raises(DataError, match="row 4"):
        identify_together(terms, [Owner("plant-0", gap)])


def test_which_rows_are_one_recording_is_a_matter_of_their_own_cells(tables):
    terms = plant_terms(1, RUNS, 1.0)
    numbered = tables[0].assign(run=tables[0]["run"].str.slice(4).astype(float))
    assert identify_together(terms, [Owner("plant-0", numbered)], seed=1).spent == {"plant-0": 1.0}
    huge = numbered.assign(run=numbered["run"] + 2.0**53)
    with pytest.raises(DataError, match="expected a name"):
        identify_together(terms, [Owner("plant-0", huge)])


def test_the_promise_is_about_recordings(tables, tmp_path):
    owner = Owner("plant-0", tables[0], ledger=Ledger(tmp_path / "a.ledger", 2.0, 1e-6))
    said = " ".join(acceptance_summary(owner, owner.prepare(plant_terms(1, RUNS, 1.0))))
    assert ") for every recording" in said
    assert "m recordings, ε is m times as large, and δ grows" in said
    assert "every person" not in said
    owner.ledger.close()
