"""A Dask scheduler and its worker, in processes of their own, are cut off, lost and started again at the same
addresses."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from dask_processes import DaskProcesses, close_left_open
from samples import class_table, make_terms, regression_table

import parley
from parley.data import cluster, streamed
from parley.data.cluster import HeldBlocks
from parley.data.design import BLOCK_ROWS
from parley.errors import Unavailable
from parley.protocol.queries import GradientQuery

pytest.importorskip("distributed", reason="dask.distributed is not installed; pip install 'parley-dp[cluster]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the cluster's own threads and sockets


@pytest.fixture(scope="module", autouse=True)
def collected():
    yield
    close_left_open()


@pytest.fixture(scope="module")
def dask():
    with DaskProcesses() as made:
        yield made


@pytest.fixture
def ask(tmp_path, monkeypatch, dask):
    """What an owner's daemon does with a question, on several threads; and the answer without a cluster."""
    monkeypatch.setattr(streamed, "MIN_PIECE_BLOCKS", 1)
    rows = 3 * BLOCK_ROWS
    regression_table(rows).to_parquet(tmp_path / "0.parquet", row_group_size=1500, index=False)
    agreement = parley.Owner("a", tmp_path).prepare(make_terms(rows, privacy__clip=0.7))

    def answer():
        query = GradientQuery.ask("t", "l", 1, np.array([0.3, -0.2, 0.1]))
        return agreement.part.training.question.bounded(query, agreement.tables).value

    alone = answer()
    with cluster.joined(dask.address) as begin, ThreadPoolExecutor(3, initializer=begin) as threads:

        def answers_are_right():
            return all((each.result() == alone).all() for each in [threads.submit(answer) for _ in range(6)])

        yield answers_are_right


def test_an_owner_answers_after_its_connection_was_cut(dask, ask):
    for _ in range(3):
        assert ask()
        dask.cut()
    assert ask()


def test_an_owner_answers_after_scheduler_and_workers_restarted(dask, ask, monkeypatch):
    assert ask()
    dask.kill()
    monkeypatch.setattr(cluster, "RECONNECT_TIMEOUT_S", 0.3)
    with pytest.raises(Unavailable, match="the scheduler does not answer; start the scheduler"):
        ask()
    dask.start()
    monkeypatch.undo()
    assert ask()


def test_a_study_goes_on_when_the_scheduler_restarts(dask, monkeypatch):
    table = class_table(BLOCK_ROWS + 99)
    terms = make_terms(len(table), model__kind="logistic-regression", learning__horizon=3)

    def study():
        return parley.train(terms, [parley.Owner("a", table)], replicates=3, seed=3)

    alone, sums, asked = study(), cluster.Cluster.sum, []

    def sum_and_lose(self, *about):
        asked.append(about)
        if len(asked) == 3:
            dask.kill()
            threading.Thread(target=dask.start).start()
        return sums(self, *about)

    monkeypatch.setattr(cluster.Cluster, "sum", sum_and_lose)
    monkeypatch.setattr(cluster, "RECONNECT_TIMEOUT_S", 300)  # a busy machine starts processes slowly
    with cluster.joined(dask.address) as begin:
        begin()
        afar = study()
    assert len(asked) > 3
    np.testing.assert_array_equal(afar.theta, alone.theta)


@pytest.mark.parametrize("when", ["held", "summed"])
def test_what_a_worker_met_with_is_said_and_is_not_kept(dask, tmp_path, when):
    """A missing file is no lost connection; and once it is there, all is well, even where the worker held a failure."""
    file = tmp_path / "missing"

    def hold(pieces):  # inside of the test: what cannot be imported is sent as it is
        if when == "held":
            pieces[0].open().close()
        return HeldBlocks(pieces)

    def opened(piece):
        piece.open().close()
        return np.ones(1)

    with cluster.joined(dask.address) as begin:
        begin()
        with pytest.raises(FileNotFoundError):
            cluster.current_cluster().sum(hold, hold, [file], opened)
        file.touch()
        assert cluster.current_cluster().sum(hold, hold, [file], opened) == 1
