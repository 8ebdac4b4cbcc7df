"""One table as CSV, Parquet, a folder, in an object store, and out of databases: the same prepared rows to the bit, and
the same releases."""

import numpy as np
import object_store
import pytest
from databases import write_duckdb, write_sqlite
from samples import make_terms, regression_table

import parley
from parley.data.databases import Request, open_database, take_snapshot
from parley.data.sources import find_source
from parley.data.table import numbers
from parley.privacy.mechanisms import FastNoise
from parley.protocol.queries import GradientQuery

ROWS = 300
COLUMNS = ("x0", "x1", "x2", "y")
KINDS = ("t.parquet", "folder", "s3 file", "s3 folder", "sqlite", "duckdb", "postgres")


@pytest.fixture(scope="module")
def rows():
    """Numbers whose numerals mean the same double to everybody: not every SQLite reads the nearest one."""
    return ((regression_table(ROWS, seed=4) * 64).round().div(64) + 0.0).assign(id=range(ROWS))[["id", *COLUMNS]]


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    """A folder with the table as a CSV file, a Parquet file and a folder of two."""
    made = tmp_path_factory.mktemp("tables")
    rows.to_csv(made / "t.csv", index=False)
    rows.to_parquet(made / "t.parquet", index=False)
    (made / "folder").mkdir()
    rows.iloc[:200].to_parquet(made / "folder" / "0.parquet", index=False)
    rows.iloc[200:].to_parquet(made / "folder" / "1.parquet", index=False)
    return made


@pytest.fixture(scope="module")
def script(rows):
    """What makes the table in a database, its rows in another order."""
    mixed = rows.sample(frac=1, random_state=0)
    cells = ", ".join(f"({', '.join(map(repr, row))})" for row in mixed.itertuples(index=False, name=None))
    real = "DOUBLE PRECISION"
    return f"CREATE TABLE same (id BIGINT, x0 {real}, x1 {real}, x2 {real}, y {real}); INSERT INTO same VALUES {cells}"


@pytest.fixture
def place(request, files, script, tmp_path):
    """Where one kind of the table lies."""
    kind = request.param
    if kind.startswith("s3"):
        with object_store.small_server() as store:
            store.put_folder("lake/t", files)
            yield f"s3://lake/t/{'t.csv' if kind == 's3 file' else 'folder'}"
    elif kind in ("sqlite", "duckdb", "postgres"):
        if kind == "postgres":
            server = request.getfixturevalue("postgres")
            server.sql(script)
            uri = server.uri
        else:
            uri = {"sqlite": write_sqlite, "duckdb": write_duckdb}[kind](tmp_path / "t.db", script)
        with open_database(uri) as database:
            take_snapshot(database, Request("SELECT * FROM same", ("id",)), tmp_path / "snapshot")
        yield tmp_path / "snapshot"
    else:
        yield files / kind


def told(place, terms):
    """(one answer, the models of a study) from the table at this place, of one seed each."""
    owner = parley.Owner("a", place, noise=FastNoise(5))
    owner.accept(terms)
    query = GradientQuery.ask(terms.hash, "learner", 1, np.array([0.1, -0.2, 0.3]))
    return owner.answer(query).value, parley.train(terms, [parley.Owner("a", place)], replicates=5, seed=6).theta


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_one_table_gives_the_same_answers_wherever_it_lies(rows, files, place):
    """Studies to the bit; a release, too, but for the order in which what is streamed adds up."""
    terms, source = make_terms(ROWS, model__holdout=0.2), find_source(place)
    held = source.frame()
    for column in COLUMNS:
        assert numbers(held, column, "t").tobytes() == rows[column].to_numpy().tobytes()
    (answer, study), (known, same) = told(place, terms), told(files / "t.csv", terms)
    assert study.tobytes() == same.tobytes()
    if source.streams:
        np.testing.assert_allclose(answer, known, rtol=1e-13)
    else:
        assert answer.tobytes() == known.tobytes()
