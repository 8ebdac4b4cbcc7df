"""Sums on a real local Dask cluster of two processes, which may spill as Dask's own settings say."""

import contextlib
import gc
import json
import os
import pickle
import signal
import sys
import threading
import time

import cloudpickle
import numpy as np
import pytest
from dask_processes import close_left_open
from samples import class_table, make_terms, regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.data import cluster, streamed
from parley.data.cluster import HeldBlocks, HeldPieces
from parley.data.design import BLOCK_ROWS
from parley.errors import GuaranteeError, Unavailable
from parley.protocol.queries import GradientQuery
from parley.terms import write_terms

distributed = pytest.importorskip(
    "distributed", reason="dask.distributed is not installed; pip install 'parley-dp[cluster]'"
)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the cluster's own threads and sockets
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not know where tests lie

ROWS = 7 * BLOCK_ROWS + 321
THETA = np.array([0.3, -0.2, 0.1])


class Weighed(cluster.Cluster):
    """Knows how many bytes the largest task had."""

    largest = 0

    def _submit(self, client, worker, work, *about):
        self.largest = max(self.largest, len(cloudpickle.dumps((work, about))))
        return super()._submit(client, worker, work, *about)


@pytest.fixture(scope="module", autouse=True)
def collected():
    yield
    close_left_open()


@pytest.fixture(scope="module")
def client():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "memory_limit": "1GB"}
    with distributed.Client(**settings, dashboard_address=None, set_as_default=False) as made:  # as `joined` has it
        assert all(made.run(_spills).values())
        yield made


@pytest.fixture
def joined(client, monkeypatch):
    """This thread uses the cluster; pieces have two blocks."""
    monkeypatch.setattr(streamed, "MIN_PIECE_BLOCKS", 2)
    made = Weighed(lambda timeout: client)
    cluster.use_cluster(made)
    yield made
    cluster.use_cluster(None)


def _spills(dask_worker):
    return cluster.spills(dask_worker)


def _transitions(dask_scheduler):
    return dask_scheduler.transition_counter


def _reserved():
    return sum(holder.reserved for holder in cluster._holders)


def _exit_soon():
    threading.Timer(0.3, os._exit, [1]).start()


def _share(share):
    cluster.KEPT_MEMORY_SHARE = share


def _answer(size):
    cluster.MAX_BATCH_BYTES = size


def folder_of(place, rows=ROWS):
    table, folder = regression_table(rows), place / "table"
    folder.mkdir()
    for number, start in enumerate(range(0, rows, 6000)):
        table.iloc[start : start + 6000].to_parquet(folder / f"{number}.parquet", row_group_size=1500, index=False)
    return folder


def prepared(folder, **settings):
    return parley.Owner("a", folder).prepare(make_terms(ROWS, privacy__clip=0.7, **settings))


def answer(agreement):
    query = GradientQuery.ask("t", "l", 1, THETA)
    return agreement.part.training.question.bounded(query, agreement.tables).value


def freed(client):
    """Whether the workers keep nothing within a few seconds."""
    until = time.monotonic() + 10
    while any(client.run(_reserved).values()) and time.monotonic() < until:
        gc.collect()
        time.sleep(0.05)
    return not any(client.run(_reserved).values())


@pytest.mark.parametrize("seed", [None, 5])
def test_sums_are_the_same_to_the_bit_read_or_kept_by_whomever(tmp_path, client, joined, monkeypatch, seed):
    folder = folder_of(tmp_path)
    agreement = prepared(folder, model__holdout=0.2, model__holdout_seed=seed)
    train = agreement.tables.train
    cluster.use_cluster(None)
    alone = answer(agreement)
    cluster.use_cluster(joined)
    for _ in range(3):
        np.testing.assert_array_equal(answer(agreement), alone)
    kept = client.run(_reserved)
    assert sum(kept.values()) == sum(map(train.reader.size, train.places)) == 8 * len(train) * (3 + 5)
    assert all(kept.values())  # both have some
    client.run(_answer, 1)  # sums travel one by one
    np.testing.assert_array_equal(answer(agreement), alone)
    client.run(_answer, cluster.MAX_BATCH_BYTES)
    assert joined.largest < 20_000
    one = dict([next(iter(client.nthreads().items()))])
    monkeypatch.setattr(client, "nthreads", lambda: one)
    for _ in range(2):
        np.testing.assert_array_equal(answer(agreement), alone)
    monkeypatch.undo()
    del agreement, train
    assert freed(client)


def test_what_a_task_carries_does_not_grow_with_the_table(tmp_path, joined):
    """With the place of a row alone deciding, a piece's share of the mask need not travel."""
    agreement = prepared(folder_of(tmp_path), model__holdout=0.2, model__holdout_seed=5)
    train = agreement.tables.train
    answer(agreement)
    assert joined.largest < 20_000
    assert all(piece.kept is train.kept for piece in train.places)
    old = prepared(tmp_path / "table", model__holdout=0.2).tables.train
    assert all(len(piece.kept.bits) == -(-sum(chunk.rows for chunk in piece.chunks) // 8) for piece in old.places)


def test_pieces_grow_with_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(streamed, "MIN_PIECE_BLOCKS", 1)
    monkeypatch.setattr(streamed, "MAX_PIECES", 3)
    train = prepared(folder_of(tmp_path)).tables.train
    assert len(train.places) == 3
    assert sum(piece.rows for piece in train.places) == ROWS


def test_a_worker_keeps_no_more_than_its_share_of_memory(tmp_path, client, joined):
    agreement = prepared(folder_of(tmp_path))
    piece = max(map(agreement.tables.train.reader.size, agreement.tables.train.places))
    cluster.use_cluster(None)
    alone = answer(agreement)
    cluster.use_cluster(joined)
    limit = 1.5 * piece
    client.run(_share, limit / 1e9)
    try:
        for _ in range(3):
            np.testing.assert_array_equal(answer(agreement), alone)
        assert all(0 < kept <= limit for kept in client.run(_reserved).values())
    finally:
        client.run(_share, cluster.KEPT_MEMORY_SHARE)


def test_nothing_is_written_to_a_disk(tmp_path, client, joined):
    """Neither rows, which cannot be pickled, nor sums: workers were told not to spill."""
    agreement = prepared(folder_of(tmp_path))
    for _ in range(3):
        answer(agreement)
    assert not any(client.run(_spills).values())

    def evicted(dask_worker):
        return [dask_worker.data.evict() for _ in range(3)] if len(dask_worker.data) else [-1]

    assert all(value == -1 for each in client.run(evicted).values() for value in each)
    for kind in (HeldPieces, HeldBlocks):
        with pytest.raises(TypeError, match="rows must stay in the memory"):
            pickle.dumps(object.__new__(kind))


def test_a_study_has_the_same_numbers_on_a_cluster(client):
    """Costs, gradients and the optimum of a table in memory, whose blocks the workers hold."""
    table = class_table(3 * BLOCK_ROWS + 99)
    terms = make_terms(len(table), model__kind="logistic-regression", learning__horizon=4, model__holdout=0.1)

    def study():
        return parley.train(terms, [parley.Owner("a", table)], replicates=30, seed=3)

    alone = study()
    cluster.use_cluster(cluster.Cluster(lambda timeout: client))
    try:
        afar = study()
    finally:
        cluster.use_cluster(None)
    np.testing.assert_array_equal(afar.theta, alone.theta)
    np.testing.assert_array_equal(afar.path, alone.path)
    assert afar.relative_fitness == alone.relative_fitness


def test_the_command_takes_a_cluster(tmp_path, client):
    rows = BLOCK_ROWS + 9
    class_table(rows).to_parquet(tmp_path / "a.parquet")
    terms = make_terms(rows, model__kind="linear-svm", learning__horizon=2).changed(
        owners={"a": {"data": str(tmp_path / "a.parquet")}}
    )
    write_terms(terms, tmp_path / "terms.toml")

    def run(*options):
        command = ["train", str(tmp_path / "terms.toml"), "--replicates", "5", "--seed", "1", "--json", *options]
        return CliRunner().invoke(app, command)

    steps = client.run_on_scheduler(_transitions)
    alone, afar = (json.loads(run(*options).stdout) for options in ((), ("--cluster", client.scheduler.address)))
    assert client.run_on_scheduler(_transitions) > steps
    assert numbers_in(afar) == pytest.approx(numbers_in(alone), rel=1e-12)
    assert cluster.current_cluster() is None


def numbers_in(content):
    """All numbers of a JSON object but the seconds, in their order."""
    if isinstance(content, dict):
        return [each for key, inner in content.items() if key != "seconds" for each in numbers_in(inner)]
    if isinstance(content, list):
        return [each for inner in content for each in numbers_in(inner)]
    return [float(content)] if isinstance(content, int | float) else []


def test_a_scheduler_without_workers_is_said(client, monkeypatch):
    monkeypatch.setattr(client, "nthreads", dict)
    with pytest.raises(Unavailable, match="has no workers"):
        cluster.Cluster(lambda timeout: client).sum(HeldBlocks, HeldBlocks, [1], float)


class Telling(cluster.Cluster):
    """Two threads, one with three pieces and one with two, that tell these lists of sums, one turn after the other."""

    def __init__(self, *turns):
        super().__init__(lambda timeout: self)
        self.turns = iter(turns)

    def _deal(self, *about):
        return cluster.Dealt(None, {}, ("a", "b"), (None, None))

    def _submit(self, *about):
        pass

    def _told(self, *about):
        return [list(map(np.float64, sums)) for sums in next(self.turns)]


@pytest.mark.parametrize(
    "turns", [[([1, 4, 16], [2, 8])], [([1], [2]), ([4, 16], [8])], [([1], [2]), ([4], [8]), ([16], [])]]
)
def test_every_piece_is_added_once_however_sums_travel(turns):
    assert Telling(*turns).sum(HeldBlocks, HeldBlocks, range(5), float) == 31


@pytest.mark.parametrize(
    "turns",
    [
        [([], [])],
        [([1, 4, 16], [2])],
        [([1, 4], [2, 8]), ([], [])],
        [([1, 4], [2, 8]), ([16], [32])],
        [([1, 4, 16, 64], [2, 8])],
        [([1], [2, 8]), ([4, 16], [8])],
    ],
)
def test_a_piece_that_is_told_twice_or_never_is_refused(turns):
    with pytest.raises(GuaranteeError, match="each sum exactly once"):
        Telling(*turns).sum(HeldBlocks, HeldBlocks, range(5), float)


class Slowly:
    """A client whose workers stay, compute for so many looks, and whose sums need so many tries to arrive."""

    def __init__(self, looks, tries):
        self.looks, self.tries, self.fetched = looks, tries, 0

    def wait(self, asked, timeout):
        self.looks -= 1
        if self.looks > 0:
            raise TimeoutError

    def result(self, timeout):
        self.fetched += 1
        if self.fetched < self.tries:
            raise TimeoutError
        return [np.float64(1)]

    def as_current(self):
        return contextlib.nullcontext()

    def nthreads(self):
        return {"a": 1}


@pytest.mark.parametrize(
    ("looks", "tries", "arrives"), [(50, 1, True), (50, cluster.MAX_ATTEMPTS, True), (1, 99, False)]
)
def test_sums_that_are_computed_and_do_not_arrive_are_not_fetched_for_ever(monkeypatch, looks, tries, arrives):
    slow = Slowly(looks, tries)
    monkeypatch.setattr(distributed, "wait", slow.wait)
    dealt = cluster.Dealt(slow, {"a": 1}, ("a",), (None,))
    with contextlib.nullcontext() if arrives else pytest.raises(Unavailable, match="not arrive in 3 attempts of 60"):
        assert cluster.Cluster(lambda timeout: slow)._told(dealt, [slow]) == [[1]]
    assert slow.fetched == min(tries, cluster.MAX_ATTEMPTS)


def test_a_worker_that_is_lost_with_its_sums_is_made_up_for(tmp_path, client, joined, monkeypatch):
    """It has computed them, and is gone before they are fetched."""
    monkeypatch.setattr(cluster, "WORKER_CHECK_INTERVAL_S", 0.2)
    agreement = prepared(folder_of(tmp_path))
    alone = answer(agreement)
    lost, wait = next(iter(client.nthreads())), distributed.wait
    process = client.run(os.getpid, workers=[lost])[lost]

    def wait_and_lose(asked, timeout):
        done = wait(asked, timeout=timeout)
        if lost in client.nthreads():
            os.kill(process, signal.SIGKILL)
            while lost in client.nthreads():
                time.sleep(0.05)
        return done

    monkeypatch.setattr(distributed, "wait", wait_and_lose)
    np.testing.assert_array_equal(answer(agreement), alone)
    assert lost not in client.nthreads()


def test_a_lost_worker_is_made_up_for(tmp_path, client, joined, monkeypatch):
    """The last test of the cluster: what a worker held is read again by those that are there."""
    monkeypatch.setattr(cluster, "WORKER_CHECK_INTERVAL_S", 0.2)
    agreement = prepared(folder_of(tmp_path))
    alone = answer(agreement)
    lost = next(iter(client.nthreads()))
    exits = client.submit(_exit_soon, workers=[lost], pure=False)
    for _ in range(30):
        np.testing.assert_array_equal(answer(agreement), alone)
        if lost not in client.nthreads():
            break
        time.sleep(0.1)
    assert lost not in client.nthreads()
    np.testing.assert_array_equal(answer(agreement), alone)
    del exits
