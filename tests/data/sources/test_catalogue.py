import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples import make_terms, regression_table

import parley
from parley.data import read_table
from parley.data.sources import SOURCES, open_table
from parley.data.sources.csv_file import CsvFile
from parley.data.sources.held import FrameTable
from parley.data.sources.parquet import ParquetFolder
from parley.data.table import numbers
from parley.errors import DataError

SECRET = "Jane Doe 1969"


def test_csv_and_parquet_are_read_alike(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert numbers(read_table(tmp_path / name), "a", "t").tolist() == [1.5, 2.5]


@pytest.mark.parametrize(("name", "message"), [("none.csv", "no such file"), ("t.xlsx", "give a .csv or .parquet")])
def test_unreadable_files_are_named(tmp_path, name, message):
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / name)


def test_a_broken_file_does_not_quote_its_content(tmp_path):
    (tmp_path / "t.parquet").write_text(SECRET)
    (tmp_path / "t.csv").write_text(f'a,b\n1,2\n"{SECRET},3,4\n5')
    for name in ("t.parquet", "t.csv"):
        with pytest.raises(DataError) as caught:
            read_table(tmp_path / name)
        assert "Jane" not in str(caught.value)


def test_a_file_is_read_and_a_folder_is_streamed(tmp_path):
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    assert len(open_table(tmp_path / "a.parquet")) == 1
    assert isinstance(open_table(tmp_path), ParquetFolder)


def test_a_program_adds_its_own_kind_by_an_ending_or_by_a_type(tmp_path, monkeypatch):
    class Tabbed(CsvFile):
        def parsed(self):
            return pd.read_csv(self.path, dtype=str, sep="\t")

    class Recorded:
        def __init__(self, rows):
            self.rows = rows

    monkeypatch.setitem(SOURCES, ".tsv", Tabbed)
    monkeypatch.setitem(SOURCES, Recorded, lambda given: FrameTable(pd.DataFrame(given.rows)))
    table, terms = regression_table(60), make_terms(60)
    table.to_csv(tmp_path / "t.TSV", index=False, sep="\t")
    models = [
        parley.train(terms, [parley.Owner("a", given)], seed=1).theta.tolist()
        for given in (table, tmp_path / "t.TSV", Recorded(table.to_dict("records")))
    ]
    assert models[0] == models[1] == models[2]


def test_a_kind_of_data_frame_is_one(tmp_path):
    class Marked(pd.DataFrame):
        pass

    assert open_table(Marked({"x": [1.0, 2.0]})).frame()["x"].tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match=r"a table cannot be a list; give a data frame"):
        open_table([1.0])


def test_a_folder_is_not_read_where_all_rows_are_wanted(tmp_path):
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"give a \.csv or \.parquet file"):
        read_table(tmp_path)
