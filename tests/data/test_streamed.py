"""Tables read piece by piece.

Premise T2: Places are public and equal in neighbouring tables, whatever cells hold. Places include the
positions of rows, files, row groups, batches and recordings. Columns made from folder names count as public.
"""

import threading
import time
import traceback
from io import StringIO
from itertools import pairwise
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask_processes import close_left_open
from samples import BOUNDS, class_table, make_terms, regression_table

import parley
from parley.data import blocks, cluster, streamed, synthetic_lending
from parley.data.cells import MAX_CELL_CHARACTERS, distinct_cells
from parley.data.design import BLOCK_ROWS, Design, Summable
from parley.data.preparation import Preparation
from parley.data.sources import held_table
from parley.data.sources.parquet import ParquetFolder
from parley.data.streamed import StreamedDesign
from parley.errors import DataError, SettingError, Unavailable
from parley.losses import RecordBound
from parley.losses.moments import mean_moments
from parley.owner.ledger import Ledger
from parley.protocol.queries import GradientQuery, UpdateQuery

ROWS = 3 * BLOCK_ROWS + 777


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Pieces of two blocks, one block in memory at a time, so that small tables have many."""
    monkeypatch.setattr(streamed, "MIN_PIECE_BLOCKS", 2)
    monkeypatch.setattr(streamed, "BATCH_BLOCKS", 1)


def write_folder(folder, table, sizes=(5000, 1, 3000, 10**9), group=1100):
    """The table as files of these many rows, in row groups that fit neither files nor blocks."""
    folder.mkdir()
    start = 0
    for number, size in enumerate(sizes):
        part = table.iloc[start : start + size]
        if len(part):
            part.to_parquet(folder / f"part-{number}.parquet", row_group_size=group, index=False)
        start += size
    return folder


def bounded(agreement, query):
    """The exact answer to a training question, and what is claimed of it."""
    return agreement.part.training.question.bounded(query, agreement.tables)


def designs(tmp_path, table, terms):
    memory = parley.Owner("a", table).prepare(terms)
    disk = parley.Owner("a", write_folder(tmp_path / "table", table)).prepare(terms)
    assert isinstance(disk.tables.train, StreamedDesign)
    return memory, disk


@pytest.mark.parametrize("kind", ["linear-regression", "linear-svm", "logistic-regression"])
@pytest.mark.parametrize("holdout", [0.0, 0.3])
def test_gradients_and_moments_are_those_of_the_table_in_memory(tmp_path, kind, holdout):
    table = regression_table(ROWS) if kind == "linear-regression" else class_table(ROWS)
    terms = make_terms(ROWS, model__kind=kind, model__holdout=holdout, privacy__clip=0.7)
    memory, disk = designs(tmp_path, table, terms)
    theta = np.linspace(-1, 1, memory.setup.parameters)
    exact, streamed_value = (bounded(a, GradientQuery.ask("t", "l", 1, theta)) for a in (memory, disk))
    np.testing.assert_allclose(streamed_value.value, exact.value, rtol=1e-9, atol=1e-12)
    assert streamed_value.sensitivity == exact.sensitivity
    moments = [mean_moments(a.tables.train, RecordBound(0.7, "l1", clips=True)) for a in (memory, disk)]
    np.testing.assert_allclose(moments[1], moments[0], rtol=1e-9)
    assert len(disk.tables.train) == len(memory.tables.train)
    assert len(disk.tables.held_out) == len(memory.tables.held_out)


@pytest.mark.parametrize("kind", ["linear-regression", "linear-svm", "logistic-regression"])
def test_costs_and_curvatures_need_sums_alone(tmp_path, kind):
    """So an owner that learns from a folder finds its own optimum too."""
    table = regression_table(ROWS) if kind == "linear-regression" else class_table(ROWS)
    memory, disk = designs(tmp_path, table, make_terms(ROWS, model__kind=kind))
    objective, theta = memory.setup.objective, np.linspace(-1, 1, 2 * memory.setup.parameters).reshape(2, -1)
    costs, curves = zip(
        *((objective.cost(d, theta), objective.hessian(d, theta[0])) for d in trained(memory, disk)), strict=True
    )
    np.testing.assert_allclose(costs[1], costs[0], rtol=1e-9)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-9, atol=1e-12)
    if kind != "linear-svm":
        best = [objective.optimum([d]) for d in trained(memory, disk)]
        np.testing.assert_allclose(best[1], best[0], rtol=1e-6)


def test_a_table_on_disk_does_not_pretend_to_hold_rows(tmp_path):
    """What only a table in memory has is not there, rather than there and broken."""
    disk = designs(tmp_path, regression_table(ROWS), make_terms(ROWS))[1].tables.train
    assert isinstance(disk, Summable)
    assert not isinstance(disk, Design)
    promised = {name for name in dir(Summable) if not name.startswith("_")}
    only_rows = {name for name in (*dir(Design), *Design.__dataclass_fields__) if not name.startswith("_")} - promised
    assert {"X", "y", "weight", "row_norms", "pieces"} <= only_rows
    assert not only_rows & set(dir(disk))


def trained(*agreements):
    return [agreement.tables.train for agreement in agreements]


@pytest.mark.parametrize("kind", ["linear-regression", "logistic-regression"])
def test_local_updates_are_those_of_the_table_in_memory(tmp_path, kind):
    """And within the rounding bound of each other, which is far smaller than the noise."""
    table = regression_table(ROWS) if kind == "linear-regression" else class_table(ROWS)
    bounds = {name: [-4, 4] for name in ("x0", "x1", "x2")}
    settings = {"learning__algorithm": "federated-averaging", "learning__local_steps": 6, "learning__step": "auto"}
    terms = make_terms(ROWS, model__kind=kind, model__bounds=bounds, privacy__clip=0.7, **settings)
    memory, disk = designs(tmp_path, table, terms)
    start = np.linspace(-1, 1, memory.setup.parameters)
    exact, streamed_value = (bounded(a, UpdateQuery.ask("t", "l", 1, start, 6)) for a in (memory, disk))
    np.testing.assert_allclose(streamed_value.value, exact.value, rtol=1e-9, atol=1e-12)
    assert streamed_value.sensitivity == exact.sensitivity
    assert np.abs(exact.value).min() > 1e-3


def test_names_scales_and_components_are_those_of_the_table_in_memory(tmp_path):
    """Columns of names, as text and as categories, and numbers of other types: a cell means the same on either way."""
    synthetic_lending(800, seed=3).to_parquet(tmp_path / "public.parquet")
    table = synthetic_lending(ROWS, seed=4).astype({"purpose": "category", "dti": "float32", "fico": "int16"})
    features = ["fico", "dti", "home_ownership", "purpose", "annual_inc"]
    public = {"model__public": str(tmp_path / "public.parquet"), "model__components": 4, "model__intercept": True}
    terms = make_terms(ROWS, model__target="int_rate", model__features=features, privacy__clip=2.0, **public)
    memory, disk = (agreement.tables.train for agreement in designs(tmp_path, table, terms))
    blocks = [block for piece in disk.places for block in disk._blocks(piece)]
    np.testing.assert_allclose(np.concatenate([block.X for block in blocks]), memory.X, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), memory.y)
    assert len(np.unique(memory.X[:, 0])) > ROWS / 2


def test_a_sum_is_the_same_to_the_bit_whatever_the_number_of_threads(tmp_path, monkeypatch):
    disk = parley.Owner("a", write_folder(tmp_path / "table", regression_table(ROWS))).prepare(make_terms(ROWS))
    query = GradientQuery.ask("t", "l", 1, np.array([0.3, -0.2, 0.1]))
    values = []
    for cores in (0, 1, 4):
        monkeypatch.setattr(blocks, "_cores", lambda cores=cores: cores)
        values.append(bounded(disk, query).value)
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 2, 3),
        (BLOCK_ROWS,) * 3,
        (BLOCK_ROWS - 1, 1, 1),
        (2 * BLOCK_ROWS + 5, BLOCK_ROWS - 5),
        (0, 3 * BLOCK_ROWS, 0, 9),
        (),
    ],
)
def test_rows_keep_their_order_across_the_seams_of_batches(sizes):
    ends = np.cumsum([0, *sizes])
    batches = [np.arange(a, b, dtype=float) for a, b in pairwise(ends)]
    cut = list(streamed._aligned(Design(np.stack([rows, -rows]).T, rows, rows + 1) for rows in batches))
    assert all(len(block) == BLOCK_ROWS for block in cut[:-1])
    assert sum(map(len, cut)) == ends[-1]
    assert not cut or 0 < len(cut[-1]) <= BLOCK_ROWS
    for block, start in zip(cut, range(0, ends[-1], BLOCK_ROWS), strict=True):
        rows = np.arange(start, start + len(block), dtype=float)
        np.testing.assert_array_equal(block.X, np.stack([rows, -rows]).T)
        np.testing.assert_array_equal(block.y, rows)
        np.testing.assert_array_equal(block.weight, rows + 1)


def test_only_the_beginning_of_a_long_cell_is_looked_at(tmp_path):
    """One record's long cell would otherwise slow down every round; cut, it is a name like another."""
    table = regression_table(ROWS).assign(x0="RENT")
    table.loc[77, "x0"] = "x" * 5 * MAX_CELL_CHARACTERS
    table.loc[99, "x0"] = "x" * MAX_CELL_CHARACTERS
    terms = make_terms(ROWS, model__categories={"x0": ["RENT"]})
    memory, disk = designs(tmp_path, table, terms)
    found = np.concatenate(
        [block.X[:, 0] for piece in disk.tables.train.places for block in disk.tables.train._blocks(piece)]
    )
    np.testing.assert_array_equal(found, memory.tables.train.X[:, 0])
    assert np.flatnonzero(found).tolist() == [77, 99]
    for column in (pa.array(table["x0"], pa.string()), pa.array(table["x0"]).dictionary_encode()):
        assert sorted(distinct_cells(column)[1]) == ["RENT", "x" * MAX_CELL_CHARACTERS]


def test_text_that_cannot_be_decoded_is_not_quoted(tmp_path):
    (tmp_path / "table").mkdir()
    secret = b"Jane\xff"
    words = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, len(secret)], pa.int32()).buffers()[1], pa.py_buffer(secret)]
    )
    pq.write_table(pa.table({"x0": words, "y": [1.0]}), tmp_path / "table" / "a.parquet")
    for categories in ({}, {"x0": ["Jane"]}):
        terms = make_terms(1, model__features=["x0"], model__categories=categories)
        with pytest.raises(DataError, match="the text is not UTF-8") as caught:
            parley.Owner("a", tmp_path / "table").prepare(terms)
        assert "Jane" not in "".join(traceback.format_exception(caught.value))


def test_a_regression_bounded_by_its_columns_needs_the_statistics_once(tmp_path):
    terms = make_terms(ROWS, privacy__clip=None, model__bounds=BOUNDS)
    memory, disk = designs(tmp_path, regression_table(ROWS), terms)
    for a, b in zip(memory.tables.train.statistics, disk.tables.train.statistics, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9)


def test_no_sum_is_longer_than_its_rounding_bound_allows(tmp_path):
    """Additions on the longest path: within a block, over the blocks of a piece, over the pieces - at most BLOCK +
    blocks in all."""
    folder = write_folder(tmp_path / "table", regression_table(ROWS), sizes=(1,) * 50 + (4096, 1, 10**9), group=300)
    design = parley.Owner("a", folder).prepare(make_terms(ROWS)).tables.train
    sizes = [[len(block) for block in design._blocks(piece)] for piece in design.places]
    assert sum(map(sum, sizes)) == ROWS
    assert all(size == BLOCK_ROWS for piece in sizes for size in piece[:-1])
    assert all(len(piece) >= 2 for piece in sizes[:-1])
    assert BLOCK_ROWS + max(map(len, sizes)) + len(sizes) <= BLOCK_ROWS + -(-ROWS // BLOCK_ROWS) + 2


def test_an_owner_releases_from_a_folder(tmp_path):
    folder = write_folder(tmp_path / "table", regression_table(ROWS))
    owner = parley.Owner("a", folder, ledger=Ledger(tmp_path / "a.ledger", lifetime=1.0))
    terms = make_terms(ROWS, learning__horizon=3)
    owner.accept(terms)
    result = parley.train(terms, [owner])
    assert result.released
    assert owner.ledger.account(terms.hash).spent == 1


def test_a_study_holds_the_rows_of_a_folder_prepared_once(tmp_path, monkeypatch):
    """Bit by bit the study of one file; an owner that only looks may hold them, too."""
    table, terms = regression_table(ROWS), make_terms(ROWS, learning__horizon=3, model__holdout=0.2)
    folder = parley.Owner("a", write_folder(tmp_path / "table", table))
    prepared = mock.Mock(side_effect=Preparation.block, autospec=True)
    with monkeypatch.context() as counting:
        counting.setattr(Preparation, "block", lambda *each: prepared(*each))
        found = [parley.train(terms, [folder], replicates=7, seed=seed).theta for seed in (1, 1, 2)]
    first = prepared.call_count
    assert found[0].tobytes() == found[1].tobytes() != found[2].tobytes()
    assert found[0].tobytes() == parley.train(terms, [parley.Owner("a", table)], replicates=7, seed=1).theta.tobytes()
    assert sum(len(each.args[1]) for each in prepared.call_args_list[:first]) == ROWS
    owner = parley.Owner("a", held_table(tmp_path / "table"))
    assert len(owner.prepare(terms).tables.held_out.in_memory()) == ROWS // 5
    assert owner.table.digest() == folder.table.digest()


def test_rows_that_this_machine_cannot_hold_are_refused_before_one_is_read(tmp_path, monkeypatch):
    folder = write_folder(tmp_path / "table", regression_table(ROWS))
    monkeypatch.setattr("os.sysconf", lambda name: 300 if name == "SC_PHYS_PAGES" else 1000)
    assert parley.Owner("a", folder).prepare(make_terms(ROWS)).tables.train.width == 3
    with pytest.raises(DataError, match="prepared rows need 0 GB of memory, but this machine has 0 GB; use fewer rows"):
        parley.train(make_terms(ROWS), [parley.Owner("a", folder)])


def test_what_cannot_be_streamed_is_refused_in_one_sentence(tmp_path):
    table = regression_table(ROWS)
    folder = write_folder(tmp_path / "table", table)
    with pytest.raises(DataError, match="state 100 records, but the table has 13065"):
        parley.Owner("a", folder).prepare(make_terms(100))
    with pytest.raises(DataError, match="cannot count rows per person"):
        parley.Owner("a", folder).prepare(make_terms(ROWS, privacy__person="x0"))
    with pytest.raises(DataError, match="column 'x9' is missing"):
        parley.Owner("a", folder).prepare(make_terms(ROWS, model__features=["x9"]))
    with pytest.raises(DataError, match="only sums over its rows"):
        parley.Owner("a", folder).prepare(make_terms(ROWS)).tables.train.in_memory()
    table.loc[9000, "x1"] = np.nan
    with pytest.raises(DataError, match="counted from row 8002 on: column 'x1', row 1000: the value is missing"):
        parley.Owner("a", write_folder(tmp_path / "holes", table)).prepare(make_terms(ROWS))
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"contains no \.parquet files"):
        len(ParquetFolder(tmp_path / "none"))
    (tmp_path / "none" / "a.parquet").write_text("junk")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        parley.Owner("a", tmp_path / "none").prepare(make_terms(ROWS))


@pytest.mark.filterwarnings("ignore")  # of the cluster's own threads and sockets
def test_blocks_are_summed_on_a_cluster(tmp_path, monkeypatch):
    """A real local Dask cluster of two processes, told to joblib: the same numbers. Then a daemon whose settings name
    it."""
    distributed = pytest.importorskip(
        "distributed", reason="dask.distributed is not installed; pip install 'parley-dp[cluster]'"
    )
    import joblib

    from parley.network.exchange.remote import RemoteOwner
    from parley.network.identity.settings import OwnerSettings
    from parley.network.serving.acceptance import Acceptance, Acceptances
    from parley.network.serving.daemon import open_owner, serve
    from parley.network.serving.log import Log

    terms = make_terms(ROWS)
    memory, disk = designs(tmp_path, regression_table(ROWS), terms)
    theta = np.array([0.3, -0.2, 0.1])
    client = distributed.Client(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with client:
        with joblib.parallel_config(backend="dask"):
            afar = bounded(disk, GradientQuery.ask("t", "l", 1, theta)).value
        np.testing.assert_allclose(afar, bounded(memory, GradientQuery.ask("t", "l", 1, theta)).value, rtol=1e-9)
        assert len(disk.tables.train.places) > 1

        place = {name: tmp_path / name for name in ("table", "ledger", "accepted", "socket")}
        settings = OwnerSettings(name="a", cluster=client.scheduler.address, **place)
        parley.Ledger(settings.ledger, lifetime=1.0)
        owner = open_owner(settings)
        owner.accept(terms)
        owner.ledger.close()
        Acceptances(settings.accepted).store(Acceptance(terms, relay=True))
        steps = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)
        stop = threading.Event()
        with Log(StringIO()) as log:
            daemon = threading.Thread(target=serve, args=(settings, stop, log))
            daemon.start()
            peer = RemoteOwner("a", f"unix:{settings.socket}", None)
            until = time.monotonic() + 30
            while time.monotonic() < until:
                try:
                    told = peer.ask(GradientQuery.ask(terms.hash, "learner", 1, theta), ROWS, 3, 30)
                    break
                except Unavailable:
                    time.sleep(0.1)
            stop.set()
            daemon.join()
        assert np.isfinite(told.answer.value).all()
        assert client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter) > steps + 2
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT_S", 0.5)
    with pytest.raises(SettingError, match="no Dask scheduler answers"), cluster.joined("tcp://127.0.0.1:1"):
        raise AssertionError
    close_left_open()
