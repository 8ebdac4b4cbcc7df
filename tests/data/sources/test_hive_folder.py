import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as pq
import pytest
from samples import make_terms, regression_table

import parley
from parley.data.sketch import digested_table
from parley.data.sources import open_table
from parley.data.table import codes, numbers
from parley.errors import DataError
from parley.owner.disclosure import place_warnings
from parley.owner.ledger import Ledger
from parley.owner.warnings import find_warnings
from parley.protocol.queries import GradientQuery


def put(folder, path, **columns):
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / path)


def read(source, column):
    return [cell for batch in source.batches([column]) for cell in batch.column(column).to_pylist()]


def test_folders_below_are_read_in_the_order_of_their_paths_byte_by_byte(tmp_path):
    paths = ["b/1.parquet", "a/2.parquet", "a.b/3.parquet", "B/4.parquet", "é/5.parquet", "a/z/6.parquet"]
    for number, path in enumerate(paths):
        put(tmp_path, path, x=[float(number)])
    for path in ("_temporary/7.parquet", "a/.8.parquet", "a/_9.parquet"):  # left by writers
        put(tmp_path, path, x=[7.0])
    (tmp_path / "a" / "_SUCCESS").touch()
    expected = sorted(paths, key=lambda path: path.encode())
    assert read(open_table(tmp_path), "x") == [float(paths.index(path)) for path in expected]


def test_files_of_the_folder_itself_are_the_table_as_they_always_were(tmp_path):
    put(tmp_path, "1.parquet", x=[1.0])
    before = digested_table(tmp_path)[1]
    put(tmp_path, "old/0.parquet", x=[0.0])
    put(tmp_path, "year=2024/0.parquet", x=[0.0])
    assert read(open_table(tmp_path), "x") == [1.0]
    assert digested_table(tmp_path)[1] == before


@pytest.fixture
def hive(tmp_path):
    """As pyarrow writes it: two years, an area with a slash in its name, and a gap."""
    table = pd.DataFrame(
        {
            "year": [2024, 2023, 2024, 2023, 2024, 2024],
            "area": ["n/w", "s", "n/w", None, "s", "s"],
            "x": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
        }
    )
    where = dataset.partitioning(pa.schema([("year", pa.int64()), ("area", pa.string())]), flavor="hive")
    dataset.write_dataset(pa.Table.from_pandas(table), tmp_path / "t", format="parquet", partitioning=where)
    return table.sort_values(["year", "area"], kind="stable"), tmp_path / "t"


def test_names_of_folders_are_columns_of_text_which_terms_may_read_as_numbers(hive):
    table, folder = hive
    source = open_table(folder)
    assert source.schema == (("x", "double"), ("year", "string"), ("area", "string"))
    assert source.placed_by == ("year", "area")
    by_x = {x: (str(year), None if pd.isna(area) else area) for year, area, x in table.itertuples(index=False)}
    for columns in (["x", "year", "area"], ["year", "x", "area"]):
        rows = pa.Table.from_batches(source.batches(columns)).to_pylist()
        assert {row["x"]: (row["year"], row["area"]) for row in rows} == by_x
    assert read(source, "year") == ["2023", "2023", "2024", "2024", "2024", "2024"]
    frame = source.frame()
    np.testing.assert_array_equal(numbers(frame, "year", "t"), [2023, 2023, 2024, 2024, 2024, 2024])
    assert sorted(codes(frame, "area", ["n/w", "s"], "t", gaps=True)) == [0, 0, 1, 1, 1, 3]


def test_a_release_from_a_hive_folder_is_that_of_a_flat_one(tmp_path):
    table, terms = regression_table(300), make_terms(300)
    table["x2"] = np.repeat([-0.5, 0.25, 0.75], 100)
    (tmp_path / "flat").mkdir()
    for place, value in enumerate((-0.5, 0.25, 0.75)):
        part = table.iloc[100 * place : 100 * (place + 1)]
        part.to_parquet(tmp_path / "flat" / f"{place}.parquet", index=False)
        put(tmp_path / "hive", f"x2={value}/0.parquet", **part.drop(columns="x2").to_dict("list"))
    query = GradientQuery.ask("t", "l", 1, np.array([0.3, -0.2, 0.1]))
    values = []
    for name in ("flat", "hive"):
        agreement = parley.Owner("a", tmp_path / name).prepare(terms)
        values.append(agreement.part.training.question.bounded(query, agreement.tables).value.tobytes())
    assert values[0] == values[1]
    owner = parley.Owner("a", tmp_path / "hive", ledger=Ledger(tmp_path / "a.ledger", lifetime=1.0))
    said = [warning.sentence for warning in find_warnings(owner, owner.prepare(terms))]
    assert place_warnings(["x2"])[0].sentence in said
    assert "ordered by x2" in place_warnings(["x2"])[0].sentence
    owner.ledger.close()


def test_the_digest_knows_what_folders_are_called(hive):
    _, folder = hive
    source, before = digested_table(folder)
    (folder / "year=2024").rename(folder / "year=2025")  # the same files in the same order
    assert not source.unchanged()
    assert digested_table(folder)[1].cells != before.cells


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["year=2023/0.parquet", "area=s/0.parquet"], "the columns or their types differ"),
        (["year=2023/0.parquet", "0/0.parquet"], "the columns or their types differ"),
        (["year=2023/area=s/0.parquet", "area=s/year=2023/0.parquet"], "the columns or their types differ"),
        (["x=1/0.parquet"], "column 'x' appears more than once"),
        (["year=1/year=2/0.parquet"], "column 'year' appears more than once"),
    ],
)
def test_folders_that_mix_schemas_are_refused_in_one_sentence(tmp_path, paths, said):
    for path in paths:
        put(tmp_path, path, x=[1.0])
    with pytest.raises(DataError, match=said):
        len(open_table(tmp_path))


@pytest.mark.parametrize("log", ["_delta_log/0.json", ".hoodie/hoodie.properties", "metadata/v1.metadata.json"])
def test_a_folder_with_a_log_of_which_files_count_is_refused(tmp_path, log):
    """Files that such a table gave up lie there still: their rows would count twice."""
    put(tmp_path, "0.parquet", x=[1.0])
    (tmp_path / log).parent.mkdir()
    (tmp_path / log).touch()
    with pytest.raises(DataError, match="has a table log"):
        len(open_table(tmp_path))
