import pytest
from samples import GAUSSIAN, make_terms, regression_table

import parley
from parley.errors import BudgetExhausted, GuaranteeError, LedgerError, OtherBooksError
from parley.learning.owners import (
    accepting_owners,
    missing_ledgers,
    open_owners,
    other_books_here,
    require_ledgers,
    spent_so_far,
)


@pytest.fixture
def tables(tmp_path):
    files = {name: str(tmp_path / f"{name}.csv") for name in "ab"}
    for place, (name, size) in enumerate({"a": 60, "b": 40}.items()):
        regression_table(size, seed=place).to_csv(files[name], index=False)
    return files


def terms_of(tables, epsilon=(1.0, 1.0), **overrides):
    terms = make_terms(60, 40, **overrides)
    return terms.changed(
        owners={name: {"data": file, "epsilon": e} for (name, file), e in zip(tables.items(), epsilon, strict=True)}
    )


@pytest.mark.parametrize(
    ("epsilon", "lifetime", "delta", "said", "unsaid"),
    [
        ((1.0, 1.0), 3.0, None, "a.ledger: these terms need a lifetime δ of 1e-06 or more", "--lifetime 1"),
        ((0.2, 0.5), 0.3, 1e-5, "b.ledger: these terms need a lifetime ε of 0.5 or more", "--lifetime-delta"),
        ((0.2, 1.0), None, None, "--lifetime 1 --lifetime-delta 1e-06", "of 0"),
    ],
)
def test_no_ledger_is_made_that_could_not_hold_the_terms_and_the_cause_is_named(
    tmp_path, tables, epsilon, lifetime, delta, said, unsaid
):
    """All are looked at before the first one is made: its budget is for ever."""
    folder = tmp_path / "ledgers"
    with pytest.raises(LedgerError, match="ledger") as error:
        accepting_owners(terms_of(tables, epsilon, **GAUSSIAN), folder, lifetime, delta)
    assert said in str(error.value)
    assert unsaid not in str(error.value)
    assert not list(folder.glob("*"))
    owners = accepting_owners(terms_of(tables, epsilon, **GAUSSIAN), folder, 3.0, 1e-5)
    assert len(owners) == 2


def test_a_ledger_without_a_delta_says_that_this_is_the_cause(tmp_path, tables):
    accepting_owners(terms_of(tables), tmp_path / "ledgers", 3.0, None)
    with pytest.raises(BudgetExhausted, match=r"lifetime delta of 0, .* and these terms need a delta of 1e-06"):
        accepting_owners(terms_of(tables, **GAUSSIAN), tmp_path / "ledgers", None, None)


def test_one_table_for_two_owners_is_refused_unless_the_terms_say_that_records_are_shared(tmp_path, tables):
    """Under another name, or as a copy: the same people would pay twice."""
    regression_table(60).to_csv(tmp_path / "copy.csv", index=False)
    for other in (tables["a"], str(tmp_path / "copy.csv")):
        terms = make_terms(60, 60).changed(owners={"a": {"data": tables["a"]}, "b": {"data": other}})
        with pytest.raises(GuaranteeError, match="owners a and b have the same table"):
            parley.train(terms, open_owners(terms), seed=1)
        with pytest.raises(GuaranteeError, match="the same table"):
            accepting_owners(terms, tmp_path / "ledgers", 3.0, None)
        assert not (tmp_path / "ledgers").exists()
        shared = terms.changed(privacy={"shared_records": 2})
        assert parley.train(shared, open_owners(shared), seed=1).owners[0].epsilon_spent == 1.0


def test_looking_whether_there_is_room_fixes_no_lifetime(tmp_path, tables):
    """A file that a killed run left empty is a ledger to be made, by whoever releases."""
    terms, folder = terms_of(tables), tmp_path / "ledgers"
    folder.mkdir()
    (folder / "a.ledger").touch()
    assert missing_ledgers(terms, folder) == ["a", "b"]
    with pytest.raises(LedgerError, match="need a lifetime ε of 1"):
        require_ledgers(terms, folder, 0.25, None)
    require_ledgers(terms, folder, 2.0, None)
    assert spent_so_far(terms, folder) == {}
    assert (folder / "a.ledger").read_bytes() == b""
    owners = accepting_owners(terms, folder, 3.0, None)
    assert {owner.ledger.lifetime[0] for owner in owners} == {3}
    assert missing_ledgers(terms, folder) == []


def test_other_books_of_any_owner_are_found_before_a_ledger_is_made(tmp_path, tables):
    """In another folder, for a copy of the table, and in the same folder by another owner's name."""
    for owner in accepting_owners(terms_of(tables), tmp_path / "first", 3.0, None):
        owner.ledger.close()
    second = tmp_path / "deep" / "er" / "second"
    copy = tmp_path / "copy.csv"
    copy.write_bytes((tmp_path / "a.csv").read_bytes())
    again = terms_of({"a": str(copy), "b": tables["b"]}, learning__horizon=3)
    found = other_books_here(again, second)
    assert [(each.owner, each.ledger, each.same, each.reserved[0]) for each in found] == [
        (name, tmp_path / "first" / f"{name}.ledger", True, 1) for name in "ab"
    ]
    with pytest.raises(
        OtherBooksError, match=r"first/a\.ledger is another ledger for the table of.*--other-books REASON"
    ):
        accepting_owners(again, second, 3.0, None)
    assert not second.exists()
    assert other_books_here(again, tmp_path / "first") == []
    renamed = terms_of({"a": tables["b"], "b": tables["a"]})
    assert {each.owner for each in other_books_here(renamed, tmp_path / "second")} == {"a", "b"}
    regression_table(60, seed=7).to_csv(tables["a"], index=False)
    assert [each.owner for each in other_books_here(terms_of(tables), second)] == ["b"]
    owners = accepting_owners(terms_of(tables), second, 3.0, None, other_books="b moved; the first books are closed")
    assert [owner.ledger.other_books(terms_of(tables).hash) for owner in owners] == [
        None, "b moved; the first books are closed"
    ]  # fmt: skip


def test_two_owners_of_the_same_people_are_refused_unless_the_terms_say_that_records_are_shared(tmp_path, tables):
    """In another order they are not the same file."""
    regression_table(60).sample(frac=1, random_state=1).to_csv(tables["b"], index=False)
    terms = make_terms(60, 60).changed(owners={name: {"data": file} for name, file in tables.items()})
    with pytest.raises(OtherBooksError, match=r"a\.ledger is another ledger for the table of b"):
        accepting_owners(terms, tmp_path / "ledgers", 3.0, None)
    assert not (tmp_path / "ledgers").exists()
    for horizon in (2, 3):  # by later terms, too
        shared = terms.changed(privacy={"shared_records": 2}, learning={"horizon": horizon})
        for owner in accepting_owners(shared, tmp_path / "ledgers", 3.0, None):
            owner.ledger.close()
