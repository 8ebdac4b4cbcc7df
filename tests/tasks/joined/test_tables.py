"""An owner's table as it enters the match."""

import numpy as np
import pytest
from bank_and_shop import joined_terms, people, tables
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from parley.data.holdout import is_held_out
from parley.errors import DataError
from parley.privacy.sharing.matching.keyed_rows import hash_keys, matching_rows
from parley.tasks.joined.plan import join_plan
from parley.tasks.joined.tables import people_table, shortened


@given(arrays(np.int64, (3, 4), elements=st.integers(-(2**20), 2**20)), st.integers(0, 2**22))
def test_a_shortened_row_fits_exactly_and_one_that_fits_stays(values, clip):
    limit = np.full(3, clip * clip)
    made = shortened(values, limit)
    assert ((made * made).sum(axis=1) <= limit).all()
    fits = (values * values).sum(axis=1) <= limit
    assert np.array_equal(made[fits], values[fits])
    assert (np.abs(made) <= np.abs(values)).all()
    long = ~fits & (clip > 100)
    if long.any():  # hardly shorter than allowed
        norms = np.sqrt((made[long] * made[long]).sum(axis=1).astype(float))
        assert (norms >= clip * (1 - 1e-5) - 4).all()


def prepared(count=200, gaps=(), **changes):
    bank, shop = tables(people(count), 0, 0)
    bank["default"] = bank["default"].astype(float)
    bank.loc[list(gaps), "default"] = np.nan
    plan = join_plan(joined_terms(count, count, **changes))
    return plan, people_table(plan, "bank", bank), people_table(plan, "shop", shop), bank


def test_all_owners_hold_out_the_same_people_and_no_size_shows_it():
    plan, bank, shop, _ = prepared(model__holdout=0.3, model__holdout_by="person", model__holdout_seed=5)
    held = {person for person in bank.people if is_held_out(plan.terms.model, person)}
    assert 0 < len(held) < len(bank.people)
    for table in (bank, shop):
        assert {person for person, out in zip(table.people, table.held_out, strict=True) if out} == held
    keyed = [table.keyed(plan.law, clip, "x") for table, clip in zip((bank, shop), plan.law.clips, strict=True)]
    assert [len(each.values) for each in keyed] == [200, 200]
    rows = matching_rows([each.keys for each in keyed])
    assert {bank.people[at] for at in rows[0]} == {*bank.people} - held
    assert not keyed[0].values[bank.held_out].any()


def test_people_without_a_target_match_nobody():
    plan, bank, shop, _ = prepared(gaps=(0, 7))
    keyed = [table.keyed(plan.law, clip, "x") for table, clip in zip((bank, shop), plan.law.clips, strict=True)]
    rows = matching_rows([each.keys for each in keyed])
    assert len(rows[0]) == 198
    assert not {0, 7} & {*rows[0].tolist()}
    assert not keyed[0].values[[0, 7]].any()


def test_rows_that_take_no_part_have_fresh_keys():
    plan, bank, _, _ = prepared(gaps=(3,))
    first, second = (bank.keyed(plan.law, plan.law.clips[0], "x").keys for _ in range(2))
    same = (first == second).all(axis=1)
    assert same.sum() == 199
    assert not same[3]
    assert np.array_equal(first[same], hash_keys(bank.people, "x")[same])
    assert not (bank.keyed(plan.law, plan.law.clips[0], "y").keys == first).all(axis=1).any()


def test_values_are_whole_steps_of_their_bounds():
    plan, bank, _, frame = prepared()
    keyed = bank.keyed(plan.law, plan.law.clips[0], "x")
    unit = plan.law.unit
    assert np.array_equal(keyed.values[:, 0], np.rint(frame["income"] / 10 * unit))
    assert np.array_equal(keyed.values[:, 1], np.rint(frame["balance"] / 5 * unit))
    assert np.array_equal(keyed.values[:, 2], np.where(frame["default"] == 1, unit, -unit))


def test_another_number_of_rows_than_agreed_is_refused():
    bank, _ = tables(people(50), 0, 0)
    with pytest.raises(DataError, match="the terms state 60 records, but the table has 50"):
        people_table(join_plan(joined_terms(60, 50)), "bank", bank)


def test_a_missing_column_is_named():
    bank, _ = tables(people(50), 0, 0)
    with pytest.raises(DataError, match="'balance' is missing"):
        people_table(join_plan(joined_terms(50, 50)), "bank", bank.drop(columns="balance"))
