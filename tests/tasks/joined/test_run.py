"""Simulated joins, beside the pooled table."""

import json

import numpy as np
import pandas as pd
import pytest
from bank_and_shop import content, joined_terms, people, tables

import parley
from parley.errors import DataError, SettingError
from parley.learning.outcome.model import load_model
from parley.owner.owner import Owner
from parley.protocol.task import RunSettings
from parley.tasks.joined.commands import guarantee_sentences
from parley.tasks.joined.plan import join_plan


def simulated(bank, shop, replicates=1, seed=0, **changes):
    terms = joined_terms(len(bank), len(shop), **changes)
    return parley.train(terms, [Owner("shop", shop), Owner("bank", bank)], replicates=replicates, seed=seed)


def test_a_join_learns_from_matched_people_and_scores_on_others():
    frame = people(6000)
    bank, shop = tables(frame, 500, 900)
    held = {"model__holdout": 0.25, "model__holdout_by": "person", "model__holdout_seed": 3}
    result = simulated(bank, shop, replicates=4, **held)
    assert result.matched + result.held_out == 6000 - 1400
    assert 0.2 < result.held_out / 4600 < 0.3
    auc = {each.name: each.values("auc").mean() for each in (result.joined, result.without_noise, *result.alone)}
    assert auc["joined, without noise"] > auc["bank alone"] + 0.05
    assert auc["joined, without noise"] > auc["columns of shop, matched"] + 0.05
    assert auc["joined"] > auc["bank alone"] + 0.03
    assert len(result.fits) == 4
    assert len({fit.theta.tobytes() for fit in result.fits}) == 4


def test_runs_are_repeatable_by_their_seed():
    bank, shop = tables(people(300), 20, 30)
    one, same, other = (simulated(bank, shop, seed=seed).fits[0].theta for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(("bank_only", "shop_only"), [(0, 0), (50, 0), (0, 50), (30, 30)])
def test_moments_without_noise_are_those_of_the_pooled_table(bank_only, shop_only):
    """On 200 people in all; `joined_moments` has its own oracle (tests of `keyed_rows`)."""
    bank, shop = tables(people(200), bank_only, shop_only, "rate")
    result = simulated(bank, shop, kind="linear-regression", target="rate", join__digits=18)
    rows = bank.merge(shop, on="customer_id")
    assert result.matched == len(rows)
    plan = result.plan
    X, y = plan.whole.matrix(rows, "all"), plan.whole.target(rows, "all")
    pooled = np.linalg.lstsq(X, y, rcond=None)[0]
    from parley.tasks.joined.fitting import fit_moments, mean_moments
    from parley.tasks.joined.run import joined_moments
    from parley.tasks.joined.tables import people_table

    keyed = [
        people_table(plan, name, each).keyed(plan.law, clip, "x")
        for name, each, clip in zip(("bank", "shop"), (bank, shop), plan.law.clips, strict=True)
    ]
    exact = fit_moments(plan, mean_moments(joined_moments(keyed, plan.law.unit), plan.law.unit, 0.0)).theta
    assert exact == pytest.approx(pooled, abs=2e-3)


def test_nobody_in_common_is_said_and_not_an_error():
    frame = people(100)
    bank, shop = tables(frame, 50, 50)
    result = simulated(bank, shop)
    assert (result.matched, result.held_out) == (0, 0)
    assert np.isfinite(result.fits[0].theta).all()
    json.dumps(result.to_json(), allow_nan=False)


def test_keys_match_however_each_owner_writes_them():
    bank, shop = tables(people(120), 10, 10)
    bank["customer_id"] = bank["customer_id"].str[1:].astype(int)
    shop["customer_id"] = " " + shop["customer_id"].str[1:] + ".0"
    assert simulated(bank, shop).matched == 100


def test_three_owners_join():
    frame = people(3000)
    bank, shop = tables(frame, 100, 100)
    third = frame[["customer_id", "grade"]].iloc[500:]
    listed = content(len(bank), len(shop), model__categories={"grade": ["low", "mid", "high"]}, model__coding="one-hot")
    listed["owners"].append({"name": "school", "records": len(third), "epsilon": 1.0, "columns": ["grade"]})
    terms = parley.Terms.from_dict(listed)
    owners = [Owner("bank", bank), Owner("shop", shop), Owner("school", third)]
    result = parley.train(terms, owners)
    assert result.matched == len(bank.merge(shop, on="customer_id").merge(third, on="customer_id"))
    assert [each.name for each in result.alone] == [
        "bank alone",
        "columns of shop, matched",
        "columns of school, matched",
    ]


def test_an_owner_with_the_target_alone_joins():
    frame = people(400)
    bank = frame[["customer_id", "default"]]
    _, shop = tables(frame, 0, 0)
    terms = joined_terms(400, 400, bank__columns=["default"], model__bounds={"spending": [0, 4], "returns": [0, 2]})
    result = parley.train(terms, [Owner("bank", bank), Owner("shop", shop)])
    assert [each.name for each in result.alone] == ["bank alone", "columns of shop, matched"]
    without = joined_terms(
        400,
        400,
        kind="linear-regression",
        target="rate",
        bank__columns=["rate"],
        model__bounds={"spending": [0, 4], "returns": [0, 2], "rate": [0, 20]},
    )
    result = parley.train(without, [Owner("bank", frame[["customer_id", "rate"]]), Owner("shop", shop)])
    assert [each.name for each in result.alone] == ["columns of shop, matched"]  # nothing to learn from alone


def test_the_model_of_a_file_predicts_from_a_table_with_all_columns(tmp_path):
    frame = people(3000)
    for kind, target in (("linear-regression", "rate"), ("logistic-regression", "default")):
        bank, shop = tables(frame, 200, 100, target)
        model = simulated(bank, shop, kind=kind, target=target, model__intercept=True).model
        model.save(tmp_path / "model.json")
        loaded = load_model(tmp_path / "model.json")
        assert np.array_equal(loaded.predict(frame), model.predict(frame))
        assert not loaded.released_
        if target == "rate":
            assert np.corrcoef(loaded.predict(frame), frame.rate)[0, 1] > 0.8
            assert len(loaded.intervals()) == 5
        else:
            assert loaded.predict_proba(frame)[:, 1][frame.default == 1].mean() > 0.5


def test_repeated_keys_and_ledgers_are_refused(tmp_path):
    bank, shop = tables(people(100), 0, 0)
    twice = pd.concat([bank.iloc[:99], bank.iloc[:1]])
    with pytest.raises(DataError, match="bank: column 'customer_id': 1 row has the key of an earlier row"):
        simulated(twice, shop)
    with pytest.raises(SettingError, match="expected one owner called 'shop', found 0"):
        parley.train(joined_terms(100, 100), [Owner("bank", bank)])
    with pytest.raises(SettingError, match="replicates = 0"):
        simulated(bank, shop, replicates=0)


def test_a_release_is_the_simulation_with_the_hosts_own_noise(tmp_path):
    """Ledgers are debited once, and the opened moments equal the exact ones up to the noise."""
    from parley.owner.ledger import Ledger
    from parley.tasks.joined.release import JoinedRelease

    terms = joined_terms(3000, 3000, epsilon=5.0)
    bank, shop = tables(people(3000), 0, 0)
    owners = [
        Owner(name, rows, ledger=Ledger(tmp_path / f"{name}.ledger", 60.0, 1e-3))
        for name, rows in (("bank", bank), ("shop", shop))
    ]
    for owner in owners:
        owner.accept(terms)
    released = parley.train(terms, owners)
    again = parley.train(terms, owners)
    assert isinstance(released, JoinedRelease)
    np.testing.assert_array_equal(again.moments.matrix, released.moments.matrix)
    plan, clear = join_plan(terms), simulated(bank, shop, epsilon=5.0).clear
    spread = plan.law.deviation / clear.people
    assert np.abs(released.moments.matrix - clear.matrix).max() < 8 * spread
    assert abs(released.moments.people - clear.people) < 8 * plan.law.deviation
    assert released.spent == {"bank": 5.0, "shop": 5.0}
    for owner in owners:
        owner.ledger.close()


def test_owners_with_and_without_ledgers_are_not_mixed(tmp_path):
    from parley.owner.ledger import Ledger

    bank, shop = tables(people(100), 0, 0)
    owner = Owner("bank", bank, ledger=Ledger(tmp_path / "bank.ledger", 10.0, 1e-3))
    with pytest.raises(SettingError, match="either all owners have ledgers"):
        parley.train(joined_terms(100, 100), [owner, Owner("shop", shop)])
    owner.ledger.close()


def test_the_guarantee_names_both_parts_of_epsilon():
    said = " ".join(guarantee_sentences(join_plan(joined_terms(epsilon=2.0, join__epsilon=0.5))))
    assert "ε = 2 and δ = 1e-06: 0.5 for the number of matches that hosts see, 1.5 for the moments" in said
    assert "hosts bank, shop, auditor" in said


def test_settings_reach_the_run():
    bank, shop = tables(people(100), 0, 0)
    seen = []
    terms = joined_terms(100, 100)
    from parley.tasks.joined.run import simulate_join

    settings = RunSettings(replicates=3, seed=1, progress=lambda done, total: seen.append((done, total)))
    simulate_join(terms, [Owner("bank", bank), Owner("shop", shop)], settings)
    assert seen == [(1, 3), (2, 3), (3, 3)]
