"""Terms of joined tables, resolved: every owner's columns are those of the whole row."""

from fractions import Fraction

import numpy as np
import pytest
from bank_and_shop import BANK, SHOP, joined_terms, people, tables

from parley.errors import DataError, TermsError
from parley.owner.owner import Owner
from parley.protocol.setup import resolve
from parley.tasks.joined.plan import join_plan
from parley.tasks.joined.question import plan_of
from parley.tasks.joined.tables import people_table

NAMES = {"grade": ["low", "mid", "high"]}


def plan_and_rows(tmp_path, columns=None, public=False, missing=None, **changes):
    frame = people(60)
    bank, shop = tables(frame, 0, 0)
    shop = shop.merge(frame[["customer_id", "grade"]])
    if missing is not None:
        shop.loc[:4, missing] = np.nan
        changes["model__missing"] = "fill"
    if columns is not None:
        changes |= {"model__columns": columns, "model__bins": 5}
    if public:
        people(300, seed=9).to_csv(tmp_path / "public.csv", index=False)
        changes |= {"model__public": str(tmp_path / "public.csv"), "model__bounds": {}}
    changes.setdefault("shop__columns", [*SHOP, "grade"])
    terms = joined_terms(60, 60, model__categories=NAMES, **changes)
    return join_plan(terms), bank, shop


CHANGES = [
    {},
    {"model__coding": "one-hot"},
    {"columns": "bins"},
    {"columns": "hinges"},
    {"public": True},
    {"public": True, "columns": "hinges"},
    {"public": True, "model__coding": "one-hot"},
    {"missing": "returns"},
    {"missing": "returns", "columns": "bins", "public": True},
    {"model__transforms": {"spending": "log1p"}},
]


@pytest.mark.parametrize("changes", CHANGES)
def test_owners_prepare_apart_what_one_table_would_give(tmp_path, changes):
    plan, bank, shop = plan_and_rows(tmp_path, **changes)
    rows = bank.merge(shop, on="customer_id")
    apart = [part.preparation.columns(rows, part.name)[: len(part.sizes)].T for part in plan.owners if part.preparation]
    whole = plan.whole.matrix(rows, "all")[:, :-1]  # without the constant
    assert np.array_equal(np.column_stack(apart), whole)
    assert np.abs(whole / plan.sizes[:-1]).max() <= 1 + 1e-9


@pytest.mark.parametrize("changes", CHANGES)
def test_no_row_reaches_beyond_the_clip_that_bounds_imply(tmp_path, changes):
    plan, bank, shop = plan_and_rows(tmp_path, **changes)
    for name, rows, clip in zip(("bank", "shop"), (bank, shop), plan.law.clips, strict=True):
        table = people_table(plan, name, rows)
        keyed = table.keyed(plan.law, clip, "x")
        assert int((keyed.values**2).sum(axis=1).max()) <= clip**2
        plain = np.rint(np.column_stack([table.features, table.targets]) * plan.law.unit)
        # nothing is shortened but what rounding to the grid made too long
        assert np.abs(keyed.values - plain).max() <= 1


def test_a_group_of_names_counts_once(tmp_path):
    plan, *_ = plan_and_rows(tmp_path, model__coding="one-hot")
    bank, shop = plan.owners
    assert (bank.clip_squared, shop.clip_squared) == (3, 3)  # income, balance, default; spending, returns, grade
    assert (bank.width, shop.width, plan.constant) == (3, 5, 8)
    assert plan.features.tolist() == [0, 1, 3, 4, 5, 6, 7]
    assert plan.targets.tolist() == [2]


def test_a_declared_clip_leaves_the_target_whole(tmp_path):
    plan, bank, shop = plan_and_rows(tmp_path, bank__clip=1.2, shop__clip=0.5)
    assert plan.owners[0].clip_squared == Fraction("1.2") ** 2
    assert plan.owners[1].clip_squared == Fraction(1, 4)
    wide, *_ = plan_and_rows(tmp_path)
    assert plan.law.deviation < wide.law.deviation / 2
    for name, rows, clip in zip(("bank", "shop"), (bank, shop), plan.law.clips, strict=True):
        keyed = people_table(plan, name, rows).keyed(plan.law, clip, "x")
        squares = (keyed.values**2).sum(axis=1)
        assert int(squares.max()) <= clip**2
        assert int(squares.max()) >= 0.98 * clip**2
        if name == "bank":
            assert set(np.abs(keyed.values[:, -1])) == {plan.law.unit}
    with pytest.raises(TermsError, match=r"owners.bank.clip: expected more than 1"):
        plan_and_rows(tmp_path, bank__clip=1.0)
    larger, *_ = plan_and_rows(tmp_path, shop__clip=40.0)
    assert larger.law == wide.law  # no more than what bounds imply


def test_columns_need_bounds():
    with pytest.raises(DataError, match=r"model.bounds.balance: declare"):
        join_plan(joined_terms(model__bounds={"income": [0, 1], "spending": [0, 1], "returns": [0, 1]}))
    bounds = {column: [0, 1] for column in (*BANK, *SHOP)}
    with pytest.raises(DataError, match=r"model.bounds.rate: declare"):
        join_plan(joined_terms(kind="linear-regression", target="rate", model__bounds=bounds))


def test_keys_about_other_columns_are_refused():
    with pytest.raises(DataError, match=r"model.bounds.wealth"):
        join_plan(joined_terms(model__bounds={"wealth": [0, 1]}))


def test_the_matches_are_paid_from_every_budget():
    plan = join_plan(joined_terms(join__epsilon=0.25))
    assert plan.law.epsilon == Fraction(3, 4)
    assert plan.law.delta == Fraction(9, 10**7)


def test_every_key_about_columns_reaches_its_owner(tmp_path):
    frame = people(40)
    bank, shop = tables(frame, 0, 0)
    shop = shop.merge(frame[["customer_id", "grade"]])
    shop["grade"] = shop["grade"].str.upper()
    shop.loc[:3, "returns"] = np.nan
    plan = join_plan(
        joined_terms(
            40,
            40,
            shop__columns=[*SHOP, "grade"],
            model__categories=NAMES,
            model__merged=["grade"],
            model__missing={"returns": "fill"},
            model__transforms={"spending": "log1p"},
            model__centres={"income": 5.0},
            model__scales={"income": 2.0},
        )
    )
    rows = bank.merge(shop, on="customer_id")
    apart = [part.preparation.columns(rows, part.name)[: len(part.sizes)].T for part in plan.owners]
    assert np.array_equal(np.column_stack(apart), plan.whole.matrix(rows, "all")[:, :-1])


def test_an_owner_that_prepared_other_terms_before_takes_the_plan_of_these():
    """The same model under a smaller epsilon has more noise; under another key other people."""
    frame = people(60)
    frame["account"] = [f"x{k}" for k in range(60)]
    bank, _ = tables(frame, 0, 0)
    owner = Owner("bank", bank.merge(frame[["customer_id", "account"]]))
    first = owner.prepare(joined_terms(60, 60))
    changes = [
        {"bank__epsilon": 0.5, "shop__epsilon": 0.5},
        {"join__epsilon": 0.01},
        {"join__digits": 9},
        {"join__key": "account"},
        {"bank__clip": 1.2},
    ]
    for change in changes:
        terms = joined_terms(60, 60, **change)
        found, due = owner.prepare(terms), resolve(terms)
        assert plan_of(found.setup).law == plan_of(due).law
        assert plan_of(found.setup).terms.hash == terms.hash
        assert found.part.stage(1).series == due.part("bank").stage(1).series
    other = owner.prepare(joined_terms(60, 60, join__key="account"))
    assert other.tables.train.people.people[0].startswith("x")
    assert first.tables.train.people.people[0].startswith("c")
