import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from samples import make_terms, regression_table

import parley
from parley.data import read_table
from parley.data.sources import open_table
from parley.data.table import codes, numbers
from parley.errors import DataError

SECRET = "Jane Doe 1969"


@pytest.mark.parametrize("packing", ["uncompressed", "lz4", "zstd"])
def test_arrow_and_feather_files_are_read_as_parquet_is(tmp_path, packing):
    table = pa.table(
        {
            "x": pa.array([1.5, None, -2.0] * 40),
            "n": pa.array([1, 2, None] * 40, pa.int16()),
            "name": pa.array(["a", None, "b"] * 40).dictionary_encode(),
            "view": pa.array(["u", "v", None] * 40, pa.string_view()),
        }
    )
    feather.write_feather(table, tmp_path / "t.feather", packing, chunksize=17)
    (tmp_path / "t.arrow").write_bytes((tmp_path / "t.feather").read_bytes())
    table.to_pandas().to_parquet(tmp_path / "t.parquet")
    for name in ("t.feather", "t.arrow"):
        source = open_table(tmp_path / name)
        assert (len(source), [chunk.rows for chunk in source.chunks]) == (120, [17] * 7 + [1])
        frames = [source.frame(), read_table(tmp_path / "t.parquet")]
        for column in ("x", "n"):
            read, same = (numbers(frame, column, "t", gaps=True) for frame in frames)
            np.testing.assert_array_equal(read, same)
        for column in ("name", "view"):
            read, same = (codes(frame, column, ["a", "u"], "t", gaps=True) for frame in frames)
            np.testing.assert_array_equal(read, same)


def test_an_arrow_file_trains_the_same_model_and_is_watched(tmp_path):
    table, terms = regression_table(60), make_terms(60)
    table.to_feather(tmp_path / "t.arrow")
    models = [parley.train(terms, [parley.Owner("a", given)], seed=1) for given in (table, tmp_path / "t.arrow")]
    assert models[0].theta.tolist() == models[1].theta.tolist()
    source = open_table(tmp_path / "t.arrow")
    table.iloc[:-1].to_feather(tmp_path / "t.arrow")
    with pytest.raises(DataError, match="changed since the table was opened"):
        source.frame()


def test_a_broken_arrow_file_is_refused_without_its_cells(tmp_path):
    feather.write_feather(pa.table({"a": [SECRET] * 100}), whole := tmp_path / "t.arrow", "uncompressed")
    content = whole.read_bytes()
    far = content.find(np.arange(0, 13 * 100, 13, dtype="<i4").tobytes())  # the places at which cells begin
    assert far > 0
    broken = {
        "text": SECRET.encode(),
        "half": content[: len(content) // 2],
        "offsets": content[: far + 40] + b"\xff\xff\xff\x7f" + content[far + 44 :],
        "characters": content.replace(b"Jane", b"J\xff\xfee"),
    }
    for name, bytes_ in broken.items():
        (tmp_path / f"{name}.arrow").write_bytes(bytes_)
        with pytest.raises(DataError, match=rf"{name}\.arrow: cannot be read as Arrow") as caught:
            read_table(tmp_path / f"{name}.arrow")
        assert "Doe" not in str(caught.value)
