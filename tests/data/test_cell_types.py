"""A part of `benchmarks/cell_types.py`: one cell changed in a column of any declared type changes no other row,
wherever the table lies.

Premise T1: A cell and its column's declared type alone determine the cell's value.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples import make_terms, regression_table

import parley
from parley.audit.exact.cell_pool import COLUMN_TYPES, FORMS, LARGE_CELLS
from parley.errors import DataError, LedgerError
from parley.owner.ledger import Ledger
from parley.tasks.statistics.column_statistics.question import NAMES, ColumnStatisticsQuery
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement
from parley_lab.cell_reading import search_cells

ROWS = 3000
BIG = 2**53 + 1


def load_benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "cell_types.py"
    spec = importlib.util.spec_from_file_location("cell_types_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BENCHMARK = load_benchmark()


def search(places, types, forms=FORMS):
    return search_cells(BENCHMARK.readers(), places, types, forms, BENCHMARK.agree)


def test_no_cell_changes_how_another_row_reads():
    """A gap in the place of a cell, in Parquet columns of every fourth type, elsewhere of a few. The benchmark has all
    of them."""
    gaps = [(kind, cells, changes[:1]) for kind, cells, changes in COLUMN_TYPES]
    found = search((1,), gaps[5::4], [form for form in FORMS if form.name.startswith("Parquet")])
    few = search((1,), [gaps[place] for place in (6, 18)])
    assert found.settings > 200
    assert few.settings > 100
    assert found.read > 0.3 * found.settings
    assert not found.violations + few.violations, (found.all + few.all)[0]


def test_the_search_finds_the_old_reading():
    """By way of pandas one gap made floats of all whole numbers, and those from 2^53 on lost their names without a
    word."""
    with BENCHMARK.old_reading():
        found = search((1,), [(pa.int64(), LARGE_CELLS, [None])])
    assert found.violations >= 5


def statistics_terms(delta=1e-6):
    content = {
        "model": {"kind": "linear-regression", "target": "y", "features": ["x"], "radius": 10.0},
        "learning": {"horizon": 5},
        "privacy": {"mechanism": "gaussian" if delta else "laplace", "delta": delta, "clip": 5.0, "scale_epsilon": 0.5},
        "owners": [{"name": "a", "records": ROWS, "epsilon": 1.0}],
    }
    return column_statistics_agreement(parley.Terms.from_dict(content))


def named(table, terms):
    agreement = parley.Owner("a", table).prepare(terms)
    columns = len(agreement.setup.preparation.asked)
    query = ColumnStatisticsQuery.ask(
        terms.hash, "learner", terms.learning.horizon, np.array([NAMES, 0.0, 0.0] * columns)
    )
    return agreement.part.training.question.bounded(query, agreement.tables).named[0]


def write(place, cells):
    table = pa.table({"x": pa.array(cells, pa.int64()), "y": pa.array(np.zeros(len(cells)))})
    if place.suffix:
        pq.write_table(table, place, row_group_size=1000)
    else:
        place.mkdir(exist_ok=True)
        for number in range(3):
            pq.write_table(table.slice(number * 1000, 1000), place / f"{number}.parquet")
    return place


@pytest.mark.parametrize("place", ["t.parquet", "folder"])
def test_one_gap_renames_nobody(tmp_path, place):
    """It moved 3,000 counts, in a file and in every batch of a folder, where the noise is for 2."""
    cells, terms = [BIG + 2 * (row % 2) for row in range(ROWS)], statistics_terms()
    before = named(write(tmp_path / place, cells), terms)
    after = named(write(tmp_path / place, [None, *cells[1:]]), terms)
    assert before == {str(BIG): ROWS // 2, str(BIG + 2): ROWS // 2}
    assert after == {str(BIG): ROWS // 2 - 1, str(BIG + 2): ROWS // 2}


def test_what_codes_refuse_scales_refuse_too_and_before_anything_is_asked():
    """A float from 2^53 on has no name: it is said when the table is prepared, where names may be asked."""
    frame = pd.DataFrame({"x": [float(BIG), *np.ones(ROWS - 1)], "y": np.zeros(ROWS)})
    with pytest.raises(
        DataError,
        match=r"a: column 'x', row 1: expected a name: .* these terms may ask for names; write larger numbers",
    ):
        parley.Owner("a", frame).prepare(statistics_terms())
    parley.Owner("a", frame).prepare(statistics_terms(delta=0.0))  # nobody asks for names
    named(frame.assign(x=frame["x"].astype("int64")), statistics_terms())


@pytest.mark.parametrize("kind", ["file", "folder", "frame", "CSV"])
def test_a_changed_schema_is_refused_where_the_terms_were_accepted(tmp_path, kind):
    """The same numbers, declared otherwise. An acceptance that says nothing of a schema goes on."""

    def table(dtype):
        frame = regression_table(20).assign(extra=np.arange(20).astype(dtype))
        if kind == "frame":
            return frame
        (tmp_path / "parts").mkdir(exist_ok=True)
        place = {"file": tmp_path / "t.parquet", "folder": tmp_path / "parts" / "1.parquet", "CSV": tmp_path / "t.csv"}[
            kind
        ]
        frame = frame.rename(columns={} if dtype == "int64" else {"extra": "other"}) if kind == "CSV" else frame
        (frame.to_csv if kind == "CSV" else frame.to_parquet)(place, index=False)
        return tmp_path / "parts" if kind == "folder" else place

    terms = make_terms(20)
    ledger = Ledger(tmp_path / "a.ledger", 2.0)
    parley.Owner("a", table("int64"), ledger=ledger).accept(terms)
    parley.Owner("a", table("int64"), ledger=ledger).accept(terms)
    with pytest.raises(LedgerError, match="the current table declares other columns or types"):
        parley.Owner("a", table("float64"), ledger=ledger).accept(terms)
    ledger.verify()
    ledger.close()


def test_an_acceptance_without_a_schema_goes_on(tmp_path):
    terms, table = make_terms(20), regression_table(20)
    ledger = Ledger(tmp_path / "a.ledger", 2.0)
    owner = parley.Owner("a", table, ledger=ledger)
    ledger.accept(owner.reservation(terms), owner._digest.cells)  # as before ledgers kept it
    owner.accept(terms)
    assert len(ledger.accounts()) == 1
    assert ledger.verify() > 0
    ledger.close()
