"""CSV files read row by row.

Premise T2.
"""

import io
import random
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from samples import make_terms, regression_table

import parley
from parley.data import read_table
from parley.data.sources import csv_rows, open_table
from parley.data.sources.csv_file import CsvFile, LongCsvFile
from parley.data.sources.csv_rows import CsvRows
from parley.data.sources.files import LocalFile
from parley.data.sources.source import BATCH_ROWS
from parley.data.table import numbers
from parley.errors import DataError
from parley.network.identity.settings import load_owner
from parley.network.serving.daemon import open_owner
from parley.network.serving.opening import open_ledger
from parley.owner.warnings import find_warnings

SECRET = "Jane Doe 1969"
CELLS = ("", "1", " 7", "x y", "NA", "é", '"a,b"', '"x\ny"', '""', '"q""r"', 'm"d', '"x"y', "\t", "1e400", "0012")


def long_file(path, **asked):
    return LongCsvFile(LocalFile(path), **asked)


def as_pandas_reads(content):
    """How these files were read before, None for those that were refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return pd.read_csv(io.BytesIO(content), dtype=str, index_col=False)
        except (ValueError, pd.errors.ParserWarning):
            return None


def random_file(draw):
    """(a CSV file, whether some row is short)."""
    columns, end = draw.randint(2, 4), draw.choice(("\n", "\r\n"))
    names = ["a", '"b, c"', "", "a"][:columns]
    rows = [[draw.choice(CELLS) for _ in names] for _ in range(draw.randint(0, 5))]
    ragged = draw.choice((None,) * 6 + ("short", "long", "closed", "open")) if rows else None
    if ragged == "short":
        rows[-1] = ["1"]
    elif ragged == "long":
        draw.choice(rows).append("1")
    elif ragged == "closed":
        rows = [[*row, ""] for row in rows]
    elif ragged == "open":
        rows[-1][-1] = '"no end'
    lines = [",".join(row) for row in (names, *rows)]
    lines[1:1] = draw.choice(([], [], [""], ["  "]))
    start, last = draw.choice(("", "\ufeff", end)), draw.choice(("", end))
    return (start + end.join(lines) + last).encode(), ragged == "short"


def test_files_are_read_to_the_cell_as_they_always_were(tmp_path):
    """Against pandas, which read them before: quotes, gaps, blank lines, marks, ragged rows; short ones are refused."""
    draw, path, read = random.Random(5), tmp_path / "t.csv", 0
    for number in range(200):
        content, short = random_file(draw)
        path.write_bytes(content)
        before = as_pandas_reads(content)
        if before is None or short:
            with pytest.raises(DataError, match=r"cells than the header|ends inside a quoted cell"):
                CsvFile(path).frame()
            continue
        pd.testing.assert_frame_equal((CsvFile(path) if number % 2 else long_file(path)).frame(), before)
        read += 1
    assert read > 120


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A file of several batches and blocks: numbers as text, quotes, embedded newlines."""
    rows = BATCH_ROWS + 700
    table = pd.DataFrame({"x": np.arange(rows) / 7, "name": [f'n{row}, "of"\n{row % 5}' for row in range(rows)]})
    path = tmp_path_factory.mktemp("wide") / "t.csv"
    table.to_csv(path, index=False)
    return table, path


def test_a_long_file_is_read_in_batches_that_no_cell_moves(wide, tmp_path, monkeypatch):
    """Rows that are prepared together decide shapes of products: a cell that is long, quoted or missing must not."""
    table, path = wide

    def shapes(first, block=1 << 16):
        changed = tmp_path / "t.csv"
        changed.write_bytes(path.read_bytes().replace(b"0.0,", first + b",", 1))
        batches = list(CsvRows(LocalFile(changed), block=block).batches(["x", "name"], 1000))
        found = pa.Table.from_batches(batches)
        assert found["name"].to_pylist() == table["name"].tolist()
        assert found["x"].to_pylist()[1:] == [repr(x) for x in table["x"]][1:]
        return [len(batch) for batch in batches]

    expected = [1000] * (len(table) // 1000) + [len(table) % 1000]
    cells = [b"1", b"", b'"a\nb"', b"y" * 40_000]
    assert all(shapes(cell) == expected for cell in cells)
    monkeypatch.setattr(
        csv_rows, "_equal_batches", lambda batches, size: batches
    )  # as the parser has them: cells decide
    assert len({tuple(shapes(cell)) for cell in cells}) > 1


def test_a_long_file_is_the_same_table_and_is_watched(wide, tmp_path):
    table, path = wide
    held, long = CsvFile(path), long_file(path)
    assert held.digest() == long.digest()
    assert held.schema == long.schema
    assert len(held) == len(long) == len(table)
    np.testing.assert_array_equal(numbers(long.frame(["x"]), "x", "t"), table["x"])
    assert [len(batch) for batch in long.batches([])] == [BATCH_ROWS, 700]
    changing = tmp_path / "t.csv"
    changing.write_bytes(path.read_bytes())
    watched = long_file(changing)
    assert watched.unchanged()
    changing.write_bytes(path.read_bytes() + b"1,2\n")
    assert not watched.unchanged()
    with pytest.raises(DataError, match=r"t\.csv: the file changed since the table was opened"):
        watched.digest()


def test_large_files_are_not_held_and_train_the_same_model(tmp_path, monkeypatch):
    table, terms = regression_table(300), make_terms(300)
    for name in ("t.csv", "t.csv.gz", "t.tsv"):
        table.to_csv(tmp_path / name, index=False, sep="\t" if name == "t.tsv" else ",")
    assert isinstance(open_table(tmp_path / "t.csv"), CsvFile)
    small = parley.train(terms, [parley.Owner("a", tmp_path / "t.csv")], seed=1).theta.tolist()
    monkeypatch.setattr("parley.data.sources.csv_file.MAX_HELD_BYTES", 0)
    for name in ("t.csv", "t.csv.gz", "t.tsv"):
        source = open_table(tmp_path / name)
        assert isinstance(source, LongCsvFile)
        assert parley.train(terms, [parley.Owner("a", source)], seed=1).theta.tolist() == small


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_separators_and_encodings_are_seen_in_the_line_of_names_or_asked_for(tmp_path, separator, encoding):
    table = pd.DataFrame({"größe": ["1", "2,5;7|8"], "b": ["ä\tö", "ü"]})
    if encoding.startswith("utf"):
        table["lost \ufffd"] = "\ufffd"  # what once was another character
    table.to_csv(path := tmp_path / "t.csv", index=False, sep=separator, encoding=encoding)
    shown = encoding.startswith("utf")
    read = open_table(path, encoding=None if shown else encoding)
    pd.testing.assert_frame_equal(read.frame(), table, check_dtype=False)
    asked = open_table(path, separator, encoding)
    pd.testing.assert_frame_equal(asked.frame(), table, check_dtype=False)
    assert read.digest() != asked.digest()  # what is asked for changes what bytes mean
    if not shown:
        with pytest.raises(DataError, match="the header is not UTF-8; state the file's encoding"):
            open_table(path)


def test_an_owner_s_settings_ask_by_name(tmp_path):
    table = regression_table(20).rename(columns={"x0": "größe"})
    table.to_csv(path := tmp_path / "t.csv", index=False, sep=" ", encoding="latin-1")
    open_ledger(tmp_path / "bank", "a", path, 1.0, 0.0, "127.0.0.1:0")
    settings = tmp_path / "bank" / "owner.toml"
    settings.write_text('separator = " "\nencoding = "latin-1"\n' + settings.read_text())
    owner = open_owner(load_owner(settings))
    np.testing.assert_array_equal(numbers(owner.table.frame(), "größe", "t"), table["größe"])
    owner.ledger.close()


def test_what_cannot_be_asked_for_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "t.parquet")
    for asked, said in (({"separator": "::"}, "one character"), ({"encoding": "klingon"}, "'klingon' is unknown")):
        with pytest.raises(DataError, match=said):
            open_table(tmp_path / "t.csv", **asked)
    with pytest.raises(DataError, match="only CSV files"):
        open_table(tmp_path / "t.parquet", encoding="latin-1")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (f"1,2\n3,4\n\n5,6,{SECRET}\n", "a row has more cells than the header (first: row 3);"),
        (f"1,2\n{SECRET}\n", "a row has fewer cells than the header (first: row 2);"),
        (f'1,2\n3,"{SECRET}\n', "the file ends inside a quoted cell"),
        (f"1,2\n{SECRET},\udcff\n", "cannot be read as csv"),
        (f"1,2,\n3,4,{SECRET}\n", "a row has more cells than the header"),
    ],
)
def test_ragged_and_broken_rows_are_refused_in_one_sentence_with_their_place_and_no_cell(tmp_path, rows, said):
    (tmp_path / "t.csv").write_bytes(f"a,b\n{rows}".encode(errors="surrogateescape"))
    for source in (CsvFile(tmp_path / "t.csv"), long_file(tmp_path / "t.csv")):
        with pytest.raises(DataError, match=re.escape(said)) as caught:
            source.frame()
        assert "Jane" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_packed_files_that_end_early_and_rows_longer_than_a_block_are_refused(tmp_path):
    table = regression_table(3000)
    table.to_csv(whole := tmp_path / "t.csv.gz", index=False)
    (tmp_path / "half.csv.gz").write_bytes(whole.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"half\.csv\.gz: "):
        read_table(tmp_path / "half.csv.gz")
    (tmp_path / "long.csv").write_text(f"a,b\n1,2\n{'y' * 7_000_000},3\n4,5\n")
    assert read_table(tmp_path / "long.csv")["a"].str.len().tolist() == [1, 7_000_000, 1]
    with pytest.raises(DataError, match="a row is longer than 2 MB"):
        len(long_file(tmp_path / "long.csv"))


def test_owners_of_long_files_are_told_what_owners_of_held_ones_are(tmp_path):
    table, terms = regression_table(300), make_terms(300)
    table["customer_id"], table["note"] = np.arange(300) // 2, "x, y"
    table.loc[150:] = table.loc[:149].to_numpy()  # half of the rows are copies
    said = []
    for columns in (table, table.drop(columns="customer_id")):
        columns.to_csv(tmp_path / "t.csv", index=False)
        for source in (CsvFile(tmp_path / "t.csv"), long_file(tmp_path / "t.csv")):
            owner = parley.Owner("a", source)
            said.append([str(warning) for warning in find_warnings(owner, owner.prepare(terms))])
    assert said[0] == said[1]
    assert said[2] == said[3]
    assert any("customer_id" in text for text in said[1])
    assert any("copies of an earlier row" in text for text in said[3])
