"""Shares of rows on declared grids: what one person can do to them, whatever its cells hold and whatever grid is
asked."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import parley
from parley.errors import DataError, Malformed
from parley.tasks.statistics.column_statistics.question import (
    BINS,
    EQUAL,
    MAGNITUDE_EDGES,
    MAGNITUDES,
    NAMES,
    NUMBERS_PER_COLUMN,
    CellColumn,
    ColumnStatisticsQuery,
)

ROWS, PERSON = 60, 3
HOSTILE = [
    *(
        None,
        np.nan,
        pd.NA,
        pd.NaT,
        "",
        "NA",
        "nan",
        "x",
        "x" * 5000,
        "\0",
        "é" * 30,
        b"bytes",
        "1e400",
        "-1e400",
        " 7 ",
    ),
    *(
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        1e-300,
        1e308,
        -1e308,
        np.inf,
        -np.inf,
        2**53,
        10**400,
        -(10**400),
        True,
        False,
        "True",
        0.1,
    ),
    *(
        Decimal("sNaN"),
        Decimal("1e999"),
        Fraction(1, 3),
        complex(1, 2),
        pd.Timestamp("2020-01-01"),
        [1],
        {},
        object(),
        np.float32(2.5),
    ),
    *(float(edge) for edge in MAGNITUDE_EDGES[:: len(MAGNITUDE_EDGES) // 9]),
    *(float(np.nextafter(edge, 0)) for edge in MAGNITUDE_EDGES[:: len(MAGNITUDE_EDGES) // 9]),
]


def has_name(cell):
    """Whether a question that may ask for names takes this cell: a gap, or something that is called something."""
    column = CellColumn.from_rows(pd.DataFrame({"a": pd.Series([cell, None], dtype=object)}), "a", "t")
    return bool(column.missing[0] or column.place[0] >= 0)


NAMED = [cell for cell in HOSTILE if has_name(cell)]
GRIDS = [
    (MAGNITUDES, 0.0, 0.0),
    (EQUAL, -1e50, 1e50),
    (EQUAL, 1.0, np.nextafter(1.0, 2)),
    (EQUAL, 0.0, 5e-324),
    (NAMES, 0.0, 0.0),
]


def terms(mechanism="gaussian", delta=1e-6, records=ROWS, person=PERSON):
    return parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": ["a", "b"]},
            "learning": {"algorithm": "scales"},
            "privacy": {"mechanism": mechanism, "delta": delta, "person": "who", "records_per_person": person},
            "owners": [{"name": "o", "records": records, "epsilon": 1.0}],
        }
    )


def table(rng, rows=ROWS, among=NAMED):
    cells = np.array(among, dtype=object)
    drawn = {column: pd.Series(list(cells[rng.integers(len(cells), size=rows)]), dtype=object) for column in "aby"}
    return pd.DataFrame(drawn).assign(who=np.arange(rows) // PERSON)


def with_cells(column, places, cells):
    """The column with these cells at these places, each as it is."""
    found = column.to_numpy().copy()
    for place, cell in zip(places, cells, strict=True):
        found[place] = cell
    return pd.Series(list(found), dtype=object)


def vector(agreement, grid):
    """Everything that noise is added to: the shares on fixed places, and those of all names."""
    query = ColumnStatisticsQuery.ask(agreement.hash, "learner", 2, grid.ravel())
    agreement.part.training.question.check(query, ())
    bounded = agreement.part.training.question.bounded(query, agreement.tables)
    return bounded.value, bounded.named


def moved(first, second, norm):
    (values, named), (others, renamed) = first, second
    steps = list(np.abs(values - others))
    for counts, again in zip(named, renamed, strict=True):
        keys = (counts or {}).keys() | (again or {}).keys()
        steps += [abs((counts or {}).get(k, 0) / ROWS - (again or {}).get(k, 0) / ROWS) for k in keys]
    return float(np.linalg.norm(steps, 1 if norm == "l1" else 2))


@pytest.mark.parametrize(("mechanism", "delta"), [("laplace", 1e-6), ("laplace", 0.0), ("gaussian", 1e-6)])
def test_no_person_moves_the_shares_further_than_the_sensitivity(mechanism, delta):
    agreed, rng, largest = terms(mechanism, delta), np.random.default_rng(5), 0.0
    grids, among = (GRIDS, NAMED) if delta > 0 else (GRIDS[:-1], HOSTILE)
    for trial in range(60):
        before = table(rng, among=among)
        after = before.copy()
        person = before["who"] == rng.integers(ROWS // PERSON)
        places = np.flatnonzero(person)
        one = table(rng, PERSON, among)
        for column in "aby":
            if trial % 3 == 0:  # the worst kind: all rows of a person alike, and alike in the other table
                before[column] = with_cells(before[column], places, [among[rng.integers(len(among))]] * PERSON)
                after[column] = with_cells(after[column], places, [one[column].iloc[0]] * PERSON)
            else:
                after[column] = with_cells(after[column], places, one[column])
        grid = np.array([grids[k] for k in rng.integers(len(grids), size=3)])
        sides = [parley.Owner("o", rows).prepare(agreed) for rows in (before, after)]
        question = sides[0].part.training.question
        largest = max(largest, moved(*(vector(side, grid) for side in sides), question.norm) / question.sensitivity)
    assert 0.9 < largest <= 1  # and half of it would be too little


def test_every_row_counts_once_in_each_column():
    agreement = parley.Owner("o", table(np.random.default_rng(1))).prepare(terms())
    for grid in GRIDS[:-1]:
        values, _ = vector(agreement, np.array([grid] * 3))
        assert values.reshape(3, -1).sum(axis=1) == pytest.approx([1.0] * 3)


def test_gaps_and_text_have_places_of_their_own():
    rows = pd.DataFrame(
        {"a": ["1.5", "NA", "word", None], "b": ["u", "u", "v", ""], "y": [0.0, 1.0, -3.0, 2.0**52], "who": range(4)}
    )
    agreement = parley.Owner("o", rows).prepare(terms(records=4, person=1))
    values, named = vector(agreement, np.array([(EQUAL, 1.0, 2.0), (NAMES, 0, 0), (MAGNITUDES, 0, 0)]))
    a, b, y = 4 * values.reshape(3, -1)
    assert (a[0], a[1], a[2 + 1 + BINS // 2]) == (2, 1, 1)
    assert (b[0], dict(named[1])) == (1, {"u": 2, "v": 1})
    assert named[0] is None
    zero = len(MAGNITUDE_EDGES) // 2
    assert y[2 + zero] == 1  # 0 in the middle
    assert y[2 + np.searchsorted(MAGNITUDE_EDGES, 2.0**52, side="right")] == 1
    assert y[2 + np.searchsorted(MAGNITUDE_EDGES, 1.0, side="right")] == 1


@pytest.mark.parametrize("cell", [2.0**53, 1e300])
def test_a_cell_without_a_name_is_refused_where_names_may_be_asked_and_counts_where_not(cell):
    assert not has_name(cell)
    rows = table(np.random.default_rng(1))
    rows.loc[4, "a"] = cell
    with pytest.raises(DataError, match="row 5: expected a name"):
        parley.Owner("o", rows).prepare(terms())
    parley.Owner("o", rows).prepare(terms("laplace", 0.0))


@pytest.mark.parametrize(
    ("number", "grid"),
    [
        (1, [(NAMES, 0, 0)] * 3),  # names leave once, in the last round
        (2, [(3.0, 0, 0)] * 3),
        (2, [(EQUAL, 1.0, 1.0)] * 3),
        (2, [(EQUAL, np.nan, 1.0)] * 3),
        (2, [(EQUAL, 0.0, 1e60)] * 3),
        (2, [(MAGNITUDES, 0, 0)] * 2),
    ],
)
def test_a_grid_that_is_none_is_refused(number, grid):
    agreement = parley.Owner("o", table(np.random.default_rng(1))).prepare(terms())
    with pytest.raises(Malformed):
        agreement.part.check(
            ColumnStatisticsQuery.ask(agreement.hash, "learner", number, np.array(grid, dtype=float).ravel()), ()
        )


def test_names_are_refused_where_the_terms_have_no_delta_for_them():
    agreement = parley.Owner("o", table(np.random.default_rng(1))).prepare(terms("laplace", 0.0))
    with pytest.raises(Malformed, match="delta"):
        agreement.part.check(
            ColumnStatisticsQuery.ask(agreement.hash, "learner", 2, np.array((NAMES, 0.0, 0.0) * 3)), ()
        )


def test_a_streamed_table_counts_alike(tmp_path):
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"a": rng.normal(size=500), "b": rng.choice(["u", "v"], 500), "y": rng.integers(0, 5, 500)})
    for place in range(2):
        rows.iloc[250 * place : 250 * (place + 1)].to_parquet(tmp_path / f"{place}.parquet")
    agreed = terms(records=500).changed(privacy={"person": None, "records_per_person": 1})
    grid = np.array([(MAGNITUDES, 0, 0), (NAMES, 0, 0), (EQUAL, 0, 4)], dtype=float)
    whole, parts = (vector(parley.Owner("o", source).prepare(agreed), grid) for source in (rows, tmp_path))
    assert np.array_equal(whole[0], parts[0])
    assert whole[1] == parts[1]
    assert len(whole[0]) == 3 * NUMBERS_PER_COLUMN
