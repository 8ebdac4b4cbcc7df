import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples import make_terms, regression_table

import parley
from parley.data.sources import open_table
from parley.data.sources.parquet import ParquetFolder
from parley.errors import DataError
from parley.owner.ledger import Ledger
from parley.protocol.queries import GradientQuery


def write_folder(folder, table):
    """400 rows in two files of two row groups each."""
    folder.mkdir()
    for number in range(2):
        part = table.iloc[200 * number : 200 * (number + 1)]
        part.to_parquet(folder / f"part-{number}.parquet", row_group_size=100, index=False)
    return folder


def another(path, table):
    table.to_parquet(path, index=False)


@pytest.mark.parametrize("change", ["longer", "moved", "added", "removed"])
def test_a_folder_that_changes_is_not_answered_from_and_costs_nothing(tmp_path, change):
    """Sensitivities count on every row being there once: one person's row a thousand times over gets no answer."""
    table = regression_table(400)
    folder = write_folder(tmp_path / "table", table)
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.0)
    terms = make_terms(400)
    owner = parley.Owner("a", folder, ledger=ledger)
    owner.accept(terms)
    owner.answer(GradientQuery.ask(terms.hash, "learner", 1, np.zeros(3)))
    if change == "longer":
        another(folder / "part-1.parquet", pd.concat([table.iloc[:1]] * 5000))
    elif change == "moved":
        another(folder / "part-1.parquet", table.iloc[:200])
    elif change == "added":
        another(folder / "part-9.parquet", table.iloc[:200])
    else:
        (folder / "part-1.parquet").unlink()
    with pytest.raises(DataError, match=r"changed|looked at"):
        owner.answer(GradientQuery.ask(terms.hash, "learner", 2, np.zeros(3)))
    assert ledger.account(terms.hash).answers == 1


def test_a_row_group_of_another_length_is_noticed_in_the_middle_of_a_pass(tmp_path, monkeypatch):
    table = regression_table(400)
    folder = write_folder(tmp_path / "table", table)
    design = parley.Owner("a", folder).prepare(make_terms(400)).tables.train
    another(folder / "part-1.parquet", pd.concat([table.iloc[:1]] * 5000))
    monkeypatch.setattr(ParquetFolder, "require_unchanged", lambda self: None)  # as if it happened after the look
    with pytest.raises(DataError, match="more rows"):
        design.sum(lambda block: block.X.sum(axis=0))


def test_files_of_other_types_are_named(tmp_path):
    table = regression_table(400)
    folder = write_folder(tmp_path / "table", table)
    another(folder / "part-1.parquet", table.iloc[200:].astype({"x1": "float32"}))
    with pytest.raises(DataError, match=r"part-1\.parquet: the columns or their types differ"):
        parley.Owner("a", folder).prepare(make_terms(400))


def test_how_a_folder_is_read_does_not_hang_on_what_its_cells_hold(tmp_path):
    """The same rows are prepared at once, so that products of matrices have the same shapes.

    One long or odd cell splits no batch.
    """
    rng = np.random.default_rng(0)
    names, shapes = [f"name {place}" for place in rng.integers(0, 400, 3_000)], set()
    for cell in ("name 1", "", "y" * 300_000, None):
        changed = [*names[:1_000], cell, *names[1_001:]]
        for made in (pa.array(changed), pa.array(changed).dictionary_encode()):
            file = tmp_path / "table.parquet"
            table = pa.table({"a": made, "x": rng.normal(size=3_000)})
            pq.write_table(table, file, row_group_size=2_000, dictionary_pagesize_limit=2_000, data_page_size=1_000)
            with pq.ParquetFile(file, pre_buffer=False) as source:
                shapes.add(
                    tuple(
                        len(b)
                        for g in range(2)
                        for b in source.iter_batches(512, row_groups=[g], columns=["a", "x"], use_threads=False)
                    )
                )
    assert shapes == {(512, 512, 512, 464, 512, 488)}


def test_a_folder_whose_files_declare_other_types_is_refused_by_its_schema(tmp_path):
    for name, kind in (("1.parquet", pa.int64()), ("2.parquet", pa.int32())):
        pq.write_table(pa.table({"x": pa.array([1, 2], kind)}), tmp_path / name)
    with pytest.raises(DataError, match=r"the columns or their types differ from those of 1\.parquet"):
        len(open_table(tmp_path))
