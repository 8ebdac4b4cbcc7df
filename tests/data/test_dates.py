"""Dates as days since 1970-01-01: one format for a column, whatever a table is made of."""

import datetime
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import parley
from parley.data.dates import EPOCH_ORDINAL, WrittenDates, date_of, day_number
from parley.data.fitting import fit_preparation
from parley.data.headers import ranges
from parley.data.table import days
from parley.errors import DataError, TermsError

FORMATS = ["%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%b-%Y", "%d %B %Y", "%Y%m%d", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M"]
CONTENT = {
    "model": {"kind": "linear-regression", "target": "rate", "features": ["opened"], "intercept": True},
    "privacy": {"clip": 1.0},
    "owners": [{"name": "a", "records": 4, "epsilon": 1.0}],
}


def terms(**model):
    return parley.Terms.from_dict({**CONTENT, "model": {**CONTENT["model"], **model}})


@given(st.dates(datetime.date(1000, 1, 1)), st.sampled_from(FORMATS))
def test_a_date_is_read_back_in_every_format(day, written):
    assert day_number(day.strftime(written), written) == day.toordinal() - EPOCH_ORDINAL
    assert (
        day_number(day, "%d/%m/%Y") == day_number(np.datetime64(day, "D"), written) == day.toordinal() - EPOCH_ORDINAL
    )
    assert date_of(day_number(day, written)) == day


@pytest.mark.parametrize(
    "cell", ["31/02/2020", "2020-01-01", "1/2/20", "unknown", "", "١/١/٢٠٢٠", 17, 1.5, object(), None]
)
def test_what_is_no_date_in_the_format_is_none(cell):
    assert math.isnan(day_number(cell, "%d/%m/%Y"))


@pytest.mark.parametrize("written", ["%d/%m", "%Y", "%Y-%m-%q", "%Y-%m-%d %Y", "%Y-%m-%b", "day"])
def test_a_format_without_year_and_month_or_of_unknown_parts_is_refused(written):
    with pytest.raises(TermsError, match=r"model\.dates\.opened.*a date's format"):
        terms(dates={"opened": written})


def test_a_gap_of_somebody_else_changes_no_date(tmp_path):
    """Tools write whole numbers as floats where one is missing. A mutant that takes the text as it is loses all."""
    whole = pd.DataFrame({"opened": [20191224, 20181231, 20180101]})
    gap = whole.assign(opened=whole["opened"].where([True, True, False]))
    read = []
    for place, table in enumerate((whole, gap)):
        table.to_csv(tmp_path / f"{place}.csv", index=False)
        rows = parley.data.sources.read_table(tmp_path / f"{place}.csv")
        read.append(days(rows, "opened", "%Y%m%d", "a", gaps=True))
    np.testing.assert_array_equal(read[1][:2], read[0][:2])
    assert np.isfinite(read[0]).all()


def test_a_day_beyond_all_calendars_is_a_gap():
    assert math.isnan(day_number(np.datetime64("20000-01-01", "s"), "%Y-%m-%d"))


def test_terms_without_dates_keep_their_hash_and_others_have_their_own():
    assert '"dates"' not in terms().canonical
    assert len({terms().hash, *(terms(dates={"opened": each}).hash for each in FORMATS[1:3])}) == 3
    with pytest.raises(TermsError, match="expected a feature"):
        terms(dates={"rate": "%Y-%m-%d"})


def test_the_format_is_found_if_one_reads_all_and_otherwise_said_how_many_rows_differ():
    assert WrittenDates.from_cells({"1/2/2020": 5, "25/12/2020": 5}) == WrittenDates(("%d/%m/%Y",), 10, 0, 0)
    assert WrittenDates.from_cells({"1/2/2020": 5, "2/3/2020": 5}).formats == ("%d/%m/%Y", "%m/%d/%Y")
    assert WrittenDates.from_cells({"2020-02-01": 8, "25.12.2020": 2}) == WrittenDates(("%Y-%m-%d",), 8, 2, 0)
    assert WrittenDates.from_cells({"2020-02-01": 95, "unknown": 5}) == WrittenDates(("%Y-%m-%d",), 95, 0, 5)
    assert WrittenDates.from_cells({datetime.date(2020, 2, 1): 1}).formats == ("%Y-%m-%d",)
    assert WrittenDates.from_cells({"May 4, 2020": 1}).formats == ("%b %d, %Y",)
    for other in ({"Dec": 4}, {"3.14": 3, "2.7": 2}, {"555-12-34": 9}, {"2020-01-01": 8, "car": 2}, {}):
        assert WrittenDates.from_cells(other) is None


@pytest.fixture
def sources(tmp_path):
    """One column of dates, one of them missing and one that does not fit, in every kind of table."""
    text = ["24/12/2019", None, "2019-12-24", "01/01/1970"]
    typed = [datetime.date(2019, 12, 24), None, None, datetime.date(1970, 1, 1)]
    rate = [1.0, 2.0, 3.0, 4.0]
    frame = pd.DataFrame({"opened": text, "rate": rate})
    frame.to_csv(tmp_path / "text.csv", index=False)
    frame.to_parquet(tmp_path / "text.parquet")
    made = {"text.csv": tmp_path / "text.csv", "text.parquet": tmp_path / "text.parquet", "frame": frame}
    for kind in (pa.date32(), pa.timestamp("ns"), pa.timestamp("s", "UTC")):
        cells = [None if day is None else datetime.datetime.combine(day, datetime.time(15)) for day in typed]
        column = pa.array(typed, kind) if kind == pa.date32() else pa.array(cells, pa.timestamp("us")).cast(kind)
        made[str(kind)] = tmp_path / f"{len(made)}.parquet"
        pq.write_table(pa.table({"opened": column, "rate": rate}), made[str(kind)])
    return made


def test_every_kind_of_table_gives_the_same_days(sources):
    agreed = terms(dates={"opened": "%d/%m/%Y"}, missing="fill", bounds={"opened": [0, 20000], "rate": [0, 9]})
    prepared, _ = fit_preparation(agreed)
    for kind, table in sources.items():
        train, _ = prepared.designs(table, agreed, "a")
        assert train.X[:, 0].tolist() == [18254.0, 10000.0, 10000.0, 0.0], kind
        assert train.X[:, 1].tolist() == [0.0, 1.0, 1.0, 0.0], kind
        assert ranges(table, {"opened": (0, 9)}, "a", dates=agreed.model.dates)["opened"].outside == 0.25, kind


def test_a_cell_that_does_not_fit_is_refused_as_a_missing_one_is_and_never_shown(sources):
    prepared, _ = fit_preparation(terms(dates={"opened": "%d/%m/%Y"}, bounds={"opened": [0, 20000]}))
    with pytest.raises(DataError, match=r"'opened', row 2 \(and 1 more\).*%d/%m/%Y") as refused:
        prepared.matrix(sources["frame"], "a")
    assert "2019" not in str(refused.value)
    assert np.isnan(days(sources["frame"], "opened", "%d/%m/%Y", "a", gaps=True)).tolist() == [False, True, True, False]
