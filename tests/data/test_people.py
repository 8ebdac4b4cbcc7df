"""`records`, the public number of rows that count, where a person may have several: what replacing one person can and
cannot do to it."""

import numpy as np
import pandas as pd
import pytest
from samples import make_terms

import parley
from parley.data.headers import read_header
from parley.data.table import first_rows
from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.terms_from_files import draft
from parley.errors import DataError
from parley.owner.acceptance_summary import acceptance_summary


def crowd(rng, rows, each=3):
    """Who each row belongs to: people with about so many rows, so that some have more than count."""
    return np.array([f"p{place}" for place in rng.integers(0, max(2, rows // each), rows)], dtype=object)


def kept(people, limit):
    return first_rows(pd.DataFrame({"who": people}), "who", limit, "t")


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_replacing_a_person_by_somebody_new_leaves_the_rows_that_count_where_they_were(limit):
    """The adjacency of docs/guarantee.md, over random tables: the same places count, so `records` is the same
    number."""
    rng = np.random.default_rng(limit)
    for _ in range(25):
        people = crowd(rng, int(rng.integers(2, 25)))
        gone = rng.choice(people)
        for name in ("somebody new", 17, 0.5, True):
            other = people.copy()
            other[people == gone] = name
            np.testing.assert_array_equal(kept(other, limit), kept(people, limit))


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_a_person_who_becomes_one_that_is_there_changes_records_or_no_place(limit):
    """No neighbours, unless all rows of both count: then the places are the same, and at most k rows differ as for any
    neighbour."""
    rng, merged = np.random.default_rng(10 + limit), {True: 0, False: 0}
    for _ in range(150):
        people = crowd(rng, int(rng.integers(4, 16)), each=(limit + 1) // 2)
        gone, found = rng.choice(np.unique(people), 2) if np.unique(people).size > 1 else (people[0], people[0])
        if gone == found:
            continue
        other = people.copy()
        other[people == gone] = found
        before, after = kept(people, limit), kept(other, limit)
        both = int(np.isin(people, [gone, found]).sum())
        merged[both <= limit] += 1
        if both <= limit:
            np.testing.assert_array_equal(after, before)
            assert before[people == gone].sum() <= limit
        else:
            assert after.sum() < before.sum()  # another `records`: the table no longer fits its terms
    assert merged[False] > 5
    assert limit == 1 or merged[True] > 5


def test_a_table_whose_people_merged_is_refused_and_nothing_is_answered(tmp_path):
    table = pd.DataFrame({"who": ["a", "a", "b", "b", "c"], "x0": 1.0, "x1": 0.0, "x2": 0.0, "y": 1.0})
    terms = make_terms(5, privacy__person="who", privacy__records_per_person=2)
    parley.Owner("a", table).prepare(terms)
    with pytest.raises(DataError, match=r"the terms state 5 records, but the table has 3 \(5 before keeping"):
        parley.Owner("a", table.assign(who=["a", "a", "a", "a", "c"])).prepare(terms)
    for name, frame in (("t.csv", table), ("t.parquet", table)):
        (frame.to_csv if name == "t.csv" else frame.to_parquet)(tmp_path / name, index=False)
        assert read_header(tmp_path / name, "who", 1).rows == 3


def test_the_mutant_that_orders_people_by_name_is_found():
    """Counted in the order of names, a new name moves other people's rows: the test above would see it."""

    def by_name(people, limit):
        order = np.argsort(people.astype(str), kind="stable")
        return kept(people[order], limit)

    rng, differs = np.random.default_rng(0), 0
    for _ in range(50):
        people = crowd(rng, 12)
        other = people.copy()
        other[people == people[0]] = "zz"
        differs += not np.array_equal(by_name(people, 1), by_name(other, 1))
    assert differs


def test_init_and_acceptance_say_what_records_is_read_off(tmp_path):
    """It said that names and the number of rows were read, and nothing else."""
    table = pd.DataFrame({"who": ["a", "a", "b", "b", "c"], "x0": 1.0, "y": [0.0, 1.0, 2.0, 1.0, 0.0]})
    table.to_csv(tmp_path / "a.csv", index=False)
    wishes = {"target": "y", "features": ("x0",), "bounds": {"x0": (0.0, 2.0), "y": (0.0, 2.0)}, "delta": 0.0}
    plain, counted = (draft([tmp_path / "a.csv"], Wishes(**wishes, **more)) for more in ({}, {"person": "who"}))
    assert plain.said[0] == "Parley read only the column names and the number of rows of 1 private file."
    assert "the number of counted rows (the first row of each person, by the column 'who') of" in counted.said[0]
    assert "`records` becomes public with the terms." in counted.said[1]
    assert any(
        "without a target (y) counts in `records` but contributes nothing to the model" in said for said in plain.said
    )
    assert counted.terms.owners[0].records == 3
    terms = make_terms(3, model__features=["x0"], privacy__person="who")
    owner = parley.Owner("a", tmp_path / "a.csv", ledger=parley.Ledger(tmp_path / "a.ledger", 3.0))
    said = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    assert (
        "Only the first row of each person counts. Column 'who' tells people apart. The number of counted rows is"
        in said
    )
    assert "The promise does not protect the number of rows that each person has." in said
    assert "no target" not in said
    owner.ledger.close()
