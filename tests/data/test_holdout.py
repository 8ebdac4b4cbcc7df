import hashlib

import numpy as np
import pytest
from samples import make_terms, regression_table

import parley
from parley.data.holdout import STRATUM_ROWS, ByPlace, Marked, split_places, trained_places
from parley.errors import TermsError
from parley.terms import held_out_records

SIZES = [1, 2, 5, STRATUM_ROWS - 1, STRATUM_ROWS, STRATUM_ROWS + 1, 3 * STRATUM_ROWS + 777]
SHARES = [0.0, 0.001, 0.2, 0.5, 0.999]


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("share", SHARES)
def test_exactly_as_many_rows_are_held_out_as_the_terms_say(rows, share):
    held = held_out_records(rows, share)
    chosen, others = ByPlace(rows, held, 3), ByPlace(rows, held, 3, others=True)
    marks = chosen.marks(0, rows)
    assert np.count_nonzero(marks) == len(chosen) == held
    np.testing.assert_array_equal(others.marks(0, rows), ~marks)
    assert len(others) == rows - held


def test_a_piece_of_a_table_is_divided_without_the_rest():
    rows = 5 * STRATUM_ROWS + 123
    by_place = ByPlace(rows, 4000, 1)
    marks = by_place.marks(0, rows)
    marked = Marked.from_marks(marks)
    assert len(marked) == 4000
    ends = [
        0,
        1,
        7,
        8,
        9,
        STRATUM_ROWS - 1,
        STRATUM_ROWS,
        STRATUM_ROWS + 1,
        2 * STRATUM_ROWS,
        2 * STRATUM_ROWS + 3,
        rows - 1,
        rows,
    ]
    for start in ends:
        for stop in (end for end in ends if end >= start):
            for choice in (by_place, by_place.within(start, stop), marked, marked.within(start, stop)):
                np.testing.assert_array_equal(choice.marks(start, stop), marks[start:stop])
                assert choice.count(start, stop) == np.count_nonzero(marks[start:stop])


def test_places_are_chosen_alike_everywhere_and_anew_by_another_seed():
    """Places of one seed say nothing of another's, nor of a neighbour's: within 4 standard errors of chance."""
    rows, share = 100 * STRATUM_ROWS, 0.2
    one, two = (ByPlace(rows, int(rows * share), seed).marks(0, rows) for seed in (0, 1))
    both, next_to = one & two, one[1:] & one[:-1]
    for found in (both, next_to):
        error = np.sqrt(share**2 * (1 - share**2) / rows)
        assert abs(found.mean() - share**2) < 4 * error
    for part in (one[::2], one[: rows // 3]):
        assert abs(part.mean() - share) < 4 * np.sqrt(share * (1 - share) / len(part))


def test_the_rule_stays_as_it_is():
    """Parties of several versions must hold out the same rows."""
    words = hashlib.shake_256(b"parley holdout" + bytes([7, *[0] * 15])).digest(80)
    order = sorted(range(20), key=lambda place: int.from_bytes(words[4 * place : 4 * place + 4], "little"))
    assert np.flatnonzero(ByPlace(20, 5, 7).marks(0, 20)).tolist() == sorted(order[:5]) == [7, 9, 15, 16, 19]
    train = np.ones(20, dtype=bool)
    train[np.random.default_rng(0).permutation(20)[15:]] = False
    np.testing.assert_array_equal(trained_places(make_terms(20, model__holdout=0.25).model, 20), train)


@pytest.mark.parametrize("seed", [None, 0, 7])
def test_streamed_and_held_tables_are_divided_alike(seed):
    model = make_terms(9000, model__holdout=0.3, model__holdout_seed=seed).model
    train, held = split_places(model, 9000)
    marks = trained_places(model, 9000)
    np.testing.assert_array_equal(train.marks(0, 9000), marks)
    np.testing.assert_array_equal(held.marks(0, 9000), ~marks)


def test_terms_name_the_rule():
    terms = make_terms(1000, model__holdout=0.2)
    seeded = make_terms(1000, model__holdout=0.2, model__holdout_seed=0)
    assert "holdout_seed" not in terms.canonical
    assert seeded.hash != terms.hash
    tables = [parley.Owner("a", regression_table(1000)).prepare(each).tables for each in (terms, seeded)]
    assert [len(table.train) for table in tables] == [800, 800]
    assert not np.array_equal(tables[0].train.X, tables[1].train.X)
    with pytest.raises(TermsError, match=r"holdout_seed.*allowed only with holdout"):
        make_terms(1000, model__holdout_seed=1)
