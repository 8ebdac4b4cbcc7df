import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from samples import make_terms, regression_table

import parley
from parley.data.holdout import parts_of
from parley.data.sources import Chunk, open_table, same_table
from parley.data.sources.held import FrameTable
from parley.data.sources.source import BATCH_ROWS, column_names
from parley.data.streamed import StreamedDesign
from parley.data.table import numbers
from parley.errors import DataError
from parley.protocol.queries import GradientQuery

KINDS = ("frame", "t.csv", "t.csv.zst", "t.dat", "t.parquet", "t.arrow", "parts", "year=2024")


def given(folder, kind, rows=40):
    """Ratings as each kind of table holds them."""
    row = np.arange(rows)
    table = pd.DataFrame({"user": row % 7, "item": row % 5, "rating": row % 3 + 0.5})
    if kind in ("t.csv", "t.csv.zst"):
        with pa.output_stream(folder / kind) as file:  # packed as its name says
            file.write(table.to_csv(index=False).encode())
    elif kind == "t.dat":
        (folder / kind).write_text("".join(f"{u:g}::{i:g}::{r}::0\n" for u, i, r in table.to_numpy()))
    elif kind == "t.parquet":
        table.to_parquet(folder / kind, row_group_size=11)
    elif kind == "t.arrow":
        with pa.OSFile(str(folder / kind), "wb") as file, pa.ipc.new_file(file, pa.Schema.from_pandas(table)) as to:
            to.write_table(pa.Table.from_pandas(table), max_chunksize=11)
    elif kind in ("parts", "year=2024"):
        (folder / kind).mkdir()
        for number, start in enumerate(range(0, rows, 1 + rows // 3)):
            table[start : start + 1 + rows // 3].to_parquet(folder / kind / f"{number}.parquet", index=False)
    return table if kind == "frame" else folder / kind


@pytest.mark.parametrize("rows", [40, BATCH_ROWS + 9])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_hands_out_the_same_rows_in_the_same_order(tmp_path, kind, rows):
    source = open_table(given(tmp_path, kind, rows))
    assert len(source) == rows
    assert column_names(source.example) == [name for name, _ in source.schema] == ["user", "item", "rating"]
    assert len(source.example) == 0
    assert source.streams == (kind in ("parts", "year=2024"))
    assert (source.path is None) == (kind == "frame")
    expected = np.arange(rows) % 3 + 0.5
    parts = [numbers(part, "rating", "t") for _, part in parts_of(source, ["rating"])]
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    np.testing.assert_array_equal(numbers(source.frame(["rating"]), "rating", "t"), expected)
    assert sum(chunk.rows for chunk in source.chunks) == rows
    assert source.unchanged()
    assert source.digest() == open_table(source.frame() if kind == "frame" else source.path).digest()


def test_one_table_under_two_names_is_found_whatever_kind_it_is(tmp_path):
    kinds = {kind: open_table(given(tmp_path, kind)) for kind in KINDS}
    assert same_table(kinds) is None
    (tmp_path / "copy.csv").write_bytes((tmp_path / "t.csv").read_bytes())
    for kind, other in (("t.csv", "copy.csv"), ("t.parquet", "t.parquet"), ("parts", "parts")):
        assert same_table({**kinds, "other": open_table(tmp_path / other)}) == (kind, "other")
    assert same_table({"one": kinds["frame"], "other": open_table(given(tmp_path, "frame"))}) is None  # nothing tells


class Streamed(FrameTable):
    """A data frame that is handed out in parts, and nothing else."""

    streams = True
    short = 0  # rows that it keeps to itself

    def batches(self, columns):
        for start in range(0, len(self) - self.short, 900):
            yield self.held[columns].iloc[start : min(start + 900, len(self) - self.short)]


def gradient(table, rows):
    agreement = parley.Owner("a", table).prepare(make_terms(rows))
    query = GradientQuery.ask("t", "l", 1, np.array([0.3, -0.2, 0.1]))
    return agreement.tables.train, agreement.part.training.question.bounded(query, agreement.tables).value


def test_a_source_that_streams_needs_no_more_than_batches():
    table = regression_table(10_000)
    design, value = gradient(Streamed(table), len(table))
    assert isinstance(design, StreamedDesign)
    np.testing.assert_allclose(value, gradient(table, len(table))[1], rtol=1e-9)


def test_rows_that_do_not_come_or_come_twice_are_noticed(monkeypatch):
    """The sensitivity counts on every row being there once, whoever wrote the source."""
    table = regression_table(3000)
    monkeypatch.setattr(Streamed, "short", 1)
    with pytest.raises(DataError, match="table: the table has fewer rows"):
        gradient(Streamed(table), len(table))
    with pytest.raises(DataError, match="the number of rows changed"):
        list(parts_of(Streamed(table), ["y"]))
    monkeypatch.setattr(Streamed, "short", 0)
    monkeypatch.setattr(Streamed, "chunks", (Chunk(1500), Chunk(1500)))
    monkeypatch.setattr(Streamed, "chunk_batches", lambda self, chunks, columns, at_once: iter([self.held, self.held]))
    with pytest.raises(DataError, match="table: the table has more rows"):
        gradient(Streamed(table), len(table))
