"""Private training of a module in Python: what it costs, that it learns, and that no restart brings budget back."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rings import rings

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

from torch import nn  # noqa: E402

import parley  # noqa: E402
from parley.errors import BudgetExhausted, DataError, GuaranteeError, OutOfOrder, SettingError  # noqa: E402
from parley.privacy.accounting import compose  # noqa: E402
from parley.privacy.events import GaussianEvent  # noqa: E402
from parley.tasks.networks.training import NetworkPlan, Speed, train_network  # noqa: E402

torch.set_num_threads(1)
PLAN = NetworkPlan(epsilon=8.0, delta=1e-5, clip=1.0, batches=5, epochs=20, step=2.0)
SHORT = NetworkPlan(**(vars(PLAN) | {"epochs": 4}))


def points(rows, seed=0):
    frame = rings(rows, seed)
    return frame[["u", "v"]].to_numpy() / 4, frame["ring"].map({"inner": 0, "middle": 1, "outer": 2}).to_numpy()


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))


def ledger(folder):
    return parley.Ledger(folder / "a.ledger", lifetime=8.0, lifetime_delta="1e-5")


def test_rings_are_learned_and_progress_is_judged_on_public_rows(device):
    told = []
    trained = train_network(
        network(), *points(1000), PLAN, validation=points(300, 9), seed=0, speed=Speed(device), progress=told.append
    )
    assert trained.accuracy > 0.9
    assert (trained.epsilon_spent, trained.adjacency, trained.released) == (8.0, "replace-one", False)
    assert [each.step for each in told] == list(range(1, 101))
    assert sum(each.accuracy is not None for each in told) == PLAN.epochs
    assert told[0].epsilon_spent < told[-1].epsilon_spent == 8.0
    X, y = points(300, 9)
    assert trained.predict_proba(X).sum(axis=1) == pytest.approx(1)
    assert np.mean(trained.predict(X) == y) == trained.accuracy


@pytest.mark.parametrize(
    "changes",
    [
        {"optimiser": "adam", "step": 0.1},
        {"optimiser": "plain", "decay": "none", "step": 5.0},
        {"epsilon": 1e4, "mechanism": "laplace", "delta": 0.0, "step": 10.0},
        {"clip_norm": "linf", "clip": 0.1, "step": 5.0},
    ],
    ids=str,
)
def test_other_optimisers_and_noises_run(changes):
    plan = NetworkPlan(**(vars(PLAN) | changes))
    trained = train_network(network(), *points(1000), plan, validation=points(300, 9), seed=0)
    assert trained.accuracy > 0.5  # one in three by chance


def test_the_noise_is_that_of_the_sampled_releases_by_replace_one(monkeypatch):
    """The multiplier that training uses costs what it says, by loss distributions of their own, and 2 % less noise
    would cost more."""
    seen = []
    monkeypatch.setattr(
        "parley.tasks.networks.training._trained", lambda module, state, answering, *rest: seen.append(answering)
    )
    train_network(network(), *points(200), PLAN, seed=0)
    series = seen[0].series
    event = series.event
    assert (event.sampling, event.adjacency) == (1 / 5, "replace-one")
    assert compose([event.times(100)], 1e-5, "pld").high == pytest.approx(8.0, rel=2e-3)
    quieter = GaussianEvent(event.multiplier * 0.98, 1 / 5)
    assert compose([quieter.times(100)], 1e-5, "pld").high > 8.05
    assert series.mechanism.sensitivity == pytest.approx(2 * 1.0 * 5 / 200, rel=1e-9)
    assert series.mechanism.sensitivity > 2 * 1.0 * 5 / 200


KILLED = """
import os, signal, sys
sys.path[:0] = [{support!r}, {here!r}]
from pathlib import Path
from test_training import SHORT, ledger, network, points, train_network

def end(state):
    if state.step == 7:
        os.kill(os.getpid(), signal.SIGKILL)

folder = Path({folder!r})
train_network(network(), *points(400), SHORT, ledger=ledger(folder), checkpoint=folder / "state", progress=end)
"""


def test_killed_it_goes_on_and_the_ledger_is_exact(tmp_path):
    here = Path(__file__).parent
    code = KILLED.format(support=str(here.parents[1] / "support"), here=str(here), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL, done.stderr
    books = ledger(tmp_path)
    ((_, account),) = books.accounts()
    assert account.answers == 7
    told = []
    trained = train_network(
        network(), *points(400), SHORT, ledger=books, checkpoint=tmp_path / "state", progress=told.append
    )
    assert [each.step for each in told] == list(range(8, 21))
    assert (trained.epsilon_spent, trained.released) == (8.0, True)
    assert books.reserved[0] == books.lifetime[0]
    ((_, account),) = books.accounts()
    assert (account.answers, account.spent) == (20, 8)
    again = train_network(network(), *points(400), SHORT, ledger=books, checkpoint=tmp_path / "state")
    assert np.array_equal(again.scores(points(9)[0]), trained.scores(points(9)[0]))
    books.close()


def test_neither_a_lost_checkpoint_nor_another_plan_brings_budget_back(tmp_path, monkeypatch):
    books, (X, y) = ledger(tmp_path), points(400)
    monkeypatch.setattr("parley.owner.ledger.stored_rows.MAX_KEPT_ANSWER_BYTES", 1)  # of long answers the latest alone
    first = train_network(network(), X, y, SHORT, ledger=books, checkpoint=tmp_path / "state")
    (tmp_path / "state").unlink()
    with pytest.raises(OutOfOrder):
        train_network(network(), X, y, SHORT, ledger=books, checkpoint=tmp_path / "state")
    with pytest.raises(BudgetExhausted, match="lifetime budget"):
        train_network(network(), X, y, NetworkPlan(**(vars(PLAN) | {"epsilon": 0.1})), ledger=books)
    assert books.reserved == books.lifetime
    assert first.released
    books.close()


def test_checkpoints_that_are_not_of_this_run_are_refused(tmp_path):
    X, y = points(60)
    kept, books = tmp_path / "state", parley.Ledger(tmp_path / "b.ledger", lifetime=99.0, lifetime_delta="0.1")
    train_network(network(), X, y, SHORT, ledger=books, checkpoint=kept)
    before = books.reserved
    with pytest.raises(SettingError, match="another run"):
        train_network(network(), X, y, PLAN, ledger=books, checkpoint=kept)
    with pytest.raises(DataError, match="one target for each"):
        train_network(network(), X, y, PLAN, ledger=books, validation=(X, y[1:]))
    assert books.reserved == before  # what is refused costs nothing
    kept.write_bytes(kept.read_bytes()[:-1] + b"x")
    with pytest.raises(SettingError, match="expected an unchanged checkpoint"):
        train_network(network(), X, y, SHORT, ledger=books, checkpoint=kept)
    with pytest.raises(SettingError, match="needs a ledger"):
        train_network(network(), X, y, SHORT, checkpoint=kept)
    with pytest.raises(SettingError, match="a simulation that is not released"):
        train_network(network(), X, y, SHORT, ledger=books, seed=1)
    books.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batches": 1}, "at least 2"),
        ({"clip": 0.0}, "clip = 0.0"),
        ({"delta": 0.0}, "with Gaussian noise"),
        ({"mechanism": "laplace"}, "expected 0 with Laplace"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"optimiser": "nesterov"}, "optimiser = 'nesterov': expected 'plain', 'momentum' or 'adam'"),
        ({"decay": "linear"}, "decay = 'linear': expected 'cosine' or 'none'"),
        ({"mechanism": "geometric"}, "expected 'gaussian' or 'laplace'"),
    ],
)
def test_plans_that_promise_nothing_are_refused(changes, words):
    with pytest.raises(SettingError, match=words):
        NetworkPlan(**(vars(PLAN) | changes))


class Scaled(nn.Module):
    """A forward of one's own, in which a record scales all others."""

    def __init__(self):
        super().__init__()
        self.layers = network()

    def forward(self, rows):
        return self.layers(rows / rows.abs().max())


def weighted(said, y):
    return nn.functional.cross_entropy(said, y.long(), reduction="none") * 2


def test_a_forward_or_a_loss_of_ones_own_trains_as_a_study_alone(tmp_path):
    books, few = ledger(tmp_path), NetworkPlan(**(vars(PLAN) | {"epochs": 1}))
    for module, loss in ((Scaled(), "cross-entropy"), (network(), weighted)):
        for kept in (None, books):
            with pytest.raises(GuaranteeError, match="pass a seed for a simulation"):
                train_network(module, *points(60), few, loss=loss, ledger=kept)
        assert not train_network(module, *points(60), few, loss=loss, seed=0).released
    assert books.reserved[0] == 0
    books.close()


def test_a_module_that_remembers_or_draws_is_no_study_either():
    for layer in (nn.BatchNorm1d(16), nn.Dropout(0.5)):
        module = nn.Sequential(nn.Linear(2, 16), layer, nn.Linear(16, 3))
        with pytest.raises(GuaranteeError, match="cannot compute per-record gradients"):
            train_network(module, *points(60), PLAN, seed=0)


def test_two_classes_are_learned_by_one_number():
    X, y = points(600)
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1))
    outer = (y == 2).astype(float)
    trained = train_network(module, X, outer, PLAN, loss="binary-cross-entropy", validation=(X, outer), seed=0)
    assert trained.accuracy == np.mean(trained.predict(X) == outer) > 0.8
    assert trained.predict_proba(X).sum(axis=1) == pytest.approx(1)
    with pytest.raises(DataError, match="class numbers from 0 to 1"):
        train_network(module, X, y, PLAN, loss="binary-cross-entropy", seed=0)


def test_targets_that_are_no_classes_are_refused():
    X, y = points(20)
    for wrong in (y + 1.5, y + 1, y - 1):
        with pytest.raises(DataError, match="class numbers from 0 to 2"):
            train_network(network(), X, wrong, PLAN, seed=0)


def test_a_run_that_diverges_says_so():
    wild = NetworkPlan(**(vars(PLAN) | {"step": 1e39, "epochs": 1}))
    with pytest.raises(SettingError, match="diverged"):
        train_network(network(), *points(100), wild, seed=0)


def test_a_cell_that_is_no_number_is_not_quoted():
    with pytest.raises(DataError, match="expected only numbers") as error:
        train_network(torch.nn.Linear(1, 2), [["Ada Lovelace"]], [0], PLAN)
    assert "Ada" not in str(error.value)
