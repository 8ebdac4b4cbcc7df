"""Tables in memory.

Premise T1.
"""

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from parley.data import read_table
from parley.data.table import codes, keep_per_person, numbers, require_columns
from parley.errors import DataError

SECRET = "Jane Doe 1969"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([1.0, float("nan"), 3.0], "column 'a', row 2: the value is missing"),
        ([1.0, 2.0, float("inf")], "column 'a', row 3: the value is infinite"),
        ([float("nan")] * 3, r"row 1: the value is missing \(and 2 more\)"),
        (["1", SECRET, "3"], "column 'a', row 2: expected a number"),
        ([None, "2", "3"], "column 'a', row 1: the value is missing"),
    ],
)
def test_bad_cells_are_named_by_column_and_row_never_by_value(cells, message):
    with pytest.raises(DataError, match=message) as caught:
        numbers(pd.DataFrame({"a": cells}), "a", "bank")
    assert "Jane" not in str(caught.value)


def test_numbers_as_text_and_nullable_integers_are_read():
    assert numbers(pd.DataFrame({"a": ["1", "2.5"]}), "a", "t").tolist() == [1.0, 2.5]
    assert numbers(pd.DataFrame({"a": pd.array([1, 2], dtype="Int64")}), "a", "t").tolist() == [1.0, 2.0]
    assert numbers(pd.DataFrame({"a": [True, False]}), "a", "t").tolist() == [1.0, 0.0]


def test_a_missing_column_brings_a_suggestion():
    with pytest.raises(DataError, match="'loan_amt' is missing; did you mean 'loan_amnt'"):
        require_columns(pd.DataFrame({"loan_amnt": [1]}), ["loan_amt"], "bank")


def test_codes_come_from_the_list_and_strangers_get_the_last_number():
    frame = pd.DataFrame({"home": ["RENT", "OWN", "CASTLE"]})
    assert codes(frame, "home", ["OWN", "RENT"], "bank").tolist() == [1.0, 0.0, 2.0]
    with pytest.raises(DataError, match="row 2: the value is missing"):
        codes(pd.DataFrame({"home": ["RENT", None]}), "home", ["OWN", "RENT"], "bank")


def test_a_name_is_the_same_whatever_type_its_column_has():
    for cells in ([1, 2], [1.0, 2.0], ["1", "2"], [1, "2"], pd.Categorical([1, 2])):
        assert codes(pd.DataFrame({"a": cells}), "a", ["2", "1"], "t").tolist() == [1.0, 0.0]
    mixed = pd.DataFrame({"who": pd.Series([0, "0", 0.0, "1"], dtype=object)})
    assert len(keep_per_person(mixed, "who", 1, "t")) == 2


def test_odd_tables_are_refused_with_a_sentence():
    with pytest.raises(DataError, match="give a data frame"):
        read_table(np.zeros((2, 2)))
    with pytest.raises(DataError, match="row 1: expected a number"):
        numbers(pd.DataFrame({"a": [[1], [2]]}), "a", "t")
    with pytest.raises(DataError, match="row 2: expected a name"):
        codes(pd.DataFrame({"a": [None, [2]]}), "a", ["1"], "t")
    assert list(read_table(pd.DataFrame(np.zeros((1, 2)))).columns) == ["0", "1"]


def test_at_most_k_rows_of_a_person_remain():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": rng.integers(0, 20, 200), "x": range(200)})
    kept = keep_per_person(frame, "who", 3, "bank")
    assert kept["who"].value_counts().max() == 3
    assert kept["x"].is_monotonic_increasing
    with pytest.raises(DataError, match="every row needs its person"):
        keep_per_person(pd.DataFrame({"who": [1, None]}), "who", 1, "bank")


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([1.5, -0.0, 1e300]),
        pa.array([1.5, float("nan"), float("inf")]),
        pa.array([1.5, None, 2.5]),
        pa.array([0.1, 0.2, None], pa.float32()),
        pa.array([2**53 + 1, 2**63, 7], pa.uint64()),
        pa.array([1, None, 3], pa.int8()),
        pa.array([True, False, True]),
        pa.array([True, None, False]),
        pa.array(["1", " 2.5 ", "1e3"]),
        pa.array(["1", "x", "nan"]),
        pa.array(["1", None, ""]),
        pa.array(["a", "b", "a"], pa.large_string()),
        pa.array(["a", "1", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([1, 1, 0], pa.int8()), pa.array([3, 1])),
        pa.array([Decimal("1.5"), Decimal("1.0"), None]),
        pa.array([date(2020, 1, 1)] * 3),
        pa.array([None, None, None]),
    ],
    ids=lambda cells: f"{cells.type}-{cells.null_count}",
)
def test_a_cell_means_the_same_in_a_parquet_batch_and_in_a_data_frame(cells):
    """Also for part of a batch, which lies in the middle of its buffers."""
    for batch in (whole := pa.record_batch({"a": cells}), whole.slice(1), whole.slice(0, 0)):
        frame = batch.to_pandas()
        for read in (lambda rows: numbers(rows, "a", "t"), lambda rows: codes(rows, "a", ["1", "a"], "t")):
            expected, found = outcome(read, frame), outcome(read, batch)
            assert type(found) is type(expected)
            np.testing.assert_array_equal(found, expected)


def test_a_dictionary_may_hold_a_gap_or_an_entry_twice():
    """pandas takes neither; they are cells like others."""
    cells = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array([4711, None, 4711]))
    batch = pa.record_batch({"a": cells})
    assert codes(batch, "a", ["4711"], "t", gaps=True).tolist() == [0, 2, 0]
    np.testing.assert_array_equal(numbers(batch, "a", "t", gaps=True), [4711, np.nan, 4711])


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.map_(pa.string(), pa.int8()), pa.uuid()], ids=str
)
def test_types_without_a_meaning_are_refused_by_the_schema_before_any_cell(kind):
    rows = pa.record_batch({"a": pa.nulls(3, kind), "b": pa.array([1, 2, 3])})
    for table in (rows, rows.to_pandas(types_mapper=pd.ArrowDtype)):
        for read in (
            lambda t: numbers(t, "a", "t"),
            lambda t: codes(t, "a", ["1"], "t"),
            lambda t: require_columns(t, ["b", "a"], "t"),
        ):
            with pytest.raises(DataError, match=r"t: column .a. has the type .*; convert the column to one of"):
                read(table)
        require_columns(table, ["b"], "t")  # what nobody reads may be anything


def outcome(read, rows):
    try:
        return read(rows)
    except DataError as error:
        return str(error)


def test_codes_that_a_gap_made_decimals_are_the_listed_ones(tmp_path):
    """A column with gaps is written as 1.0, 2.0; from the file it must mean what it means in memory."""
    frame = pd.DataFrame({"thal": [3.0, np.nan, 7.0, 6.0, 6.5], "num": [0, 1, 0, 2, 0]})
    frame.to_csv(tmp_path / "hospital.csv", index=False)
    assert "3.0" in (tmp_path / "hospital.csv").read_text()
    read = read_table(tmp_path / "hospital.csv")
    expected = [0.0, 4.0, 2.0, 1.0, 3.0]  # 6.5 is none of them, and a gap comes after
    for rows in (frame, read):
        assert codes(rows, "thal", ("3", "6", "7"), "hospital", gaps=True).tolist() == expected
        assert codes(rows, "thal", ("3.0", "6.0", "7.00"), "hospital", gaps=True).tolist() == expected


def test_a_name_as_it_is_listed_comes_before_its_value():
    rows = pd.DataFrame({"version": ["1", "1.0", "1.00", "v1.0", "01"]})
    assert codes(rows, "version", ("1.0", "1"), "table").tolist() == [1.0, 0.0, 0.0, 2.0, 2.0]
    assert codes(rows, "version", ("1", "1.0"), "table").tolist() == [0.0, 1.0, 0.0, 2.0, 2.0]


def test_a_time_in_no_calendar_is_refused_and_not_quoted():
    frame = pa.table({"c": pa.array([10**15, 0], pa.timestamp("ms", "Europe/Paris"))}).to_pandas()
    with pytest.raises(DataError, match=r"a: column 'c': the cells cannot be read \(NotImplementedError\)"):
        codes(frame, "c", ["1"], "a")
