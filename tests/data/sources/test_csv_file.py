import numpy as np
import pandas as pd
import pytest
from samples import regression_table

from parley.data import read_table
from parley.data.headers import read_header
from parley.data.sources import open_table
from parley.data.table import codes, numbers
from parley.errors import DataError


def test_no_cell_changes_how_another_one_is_read(tmp_path):
    """Guessing a column's type from all its cells would: one stray cell, and every record is coded anew."""
    rows = [f"{i % 3 + 1:02d},{i % 3 + 1},{i}" for i in range(300)]
    strays = {0: ("X1", "2.5", "1.5"), 7: ("", "NA", "1e3")}
    for place, stray in strays.items():
        plain, mixed = tmp_path / "plain.csv", tmp_path / "mixed.csv"
        plain.write_text("zip,level,x\n" + "\n".join(rows))
        mixed.write_text("zip,level,x\n" + "\n".join([*rows[:place], ",".join(stray), *rows[place + 1 :]]))
        one, two = read_table(plain), read_table(mixed).fillna("?")
        for column, categories in (("zip", ["01", "02", "03"]), ("level", ["1", "2", "3"])):
            changed = codes(one, column, categories, "t") != codes(two, column, categories, "t")
            assert set(np.flatnonzero(changed)) <= {place}
        changed = numbers(one, "x", "t") != numbers(two, "x", "t")
        assert set(np.flatnonzero(changed)) <= {place}


def test_rows_longer_than_the_line_of_names_are_refused_in_one_sentence(tmp_path):
    """pandas drops the cells and warns with a path of its own source; nobody learns which cells were lost."""
    (tmp_path / "long.csv").write_text("a,b\n1,2,3\n4,5,6\n")
    with pytest.raises(DataError, match=r"long\.csv: a row has more cells than the header"):
        read_table(tmp_path / "long.csv")


def test_comma_and_semicolon_files_are_read_alike(tmp_path):
    homes = ["rent", "own; or, nearly", None, "other"]
    frame = pd.DataFrame({"age": [20.5, np.nan, 71.25, 33.0], "home": pd.Series(homes, dtype=object), "paid": "yes"})
    for separator in ",;":
        frame.to_csv(tmp_path / "t.csv", index=False, sep=separator)
        expected = frame.astype(str).where(frame.notna())
        pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), expected, check_dtype=False)
    (tmp_path / "t.csv").write_text('\ufeffa,"b;c;d"\n1,2;3;4;5;6\n', encoding="utf-8")  # records have no say
    assert read_table(tmp_path / "t.csv").columns.tolist() == ["a", "b;c;d"]


def test_a_digest_speaks_of_the_rows_that_are_held_and_of_no_others(tmp_path):
    """Who opened a file before it changed holds other rows than who digests it afterwards."""
    path = tmp_path / "t.csv"
    regression_table(20).to_csv(path, index=False)
    early, again = open_table(path), open_table(path)
    assert early.digest() == again.digest()
    assert early.unchanged()
    late = open_table(path)
    regression_table(20, seed=1).to_csv(path, index=False)
    assert not late.unchanged()
    with pytest.raises(DataError, match="changed while it was being read"):
        late.digest()
    pd.testing.assert_frame_equal(late.frame(), early.frame())  # what is held stays as it was


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b,a\n1,2,3\n", "'a' appears more than once"), ("\n1,2\n", "first line is empty")],
)
def test_a_header_that_names_no_column_or_one_twice_is_refused_where_headers_are_read(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_header(tmp_path / "t.csv")
