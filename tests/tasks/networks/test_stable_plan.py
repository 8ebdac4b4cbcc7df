"""Stable noise in private training: accounted for in every direction, and never released."""

import math

import numpy as np
import pytest
from rings import rings
from scipy.stats import kstest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

from torch import nn  # noqa: E402

import parley  # noqa: E402
from parley.errors import GuaranteeError, SettingError  # noqa: E402
from parley.privacy.accounting import stable_epsilon  # noqa: E402
from parley.privacy.mechanisms import FastNoise, SafeNoise  # noqa: E402
from parley.privacy.mechanisms.mechanism import Bounded  # noqa: E402
from parley.privacy.mechanisms.stable_law import cdf  # noqa: E402
from parley.tasks.networks.stable_plan import StableOnSums, StablePlan  # noqa: E402
from parley.tasks.networks.training import Speed, train_network  # noqa: E402

torch.set_num_threads(1)
PLAN = StablePlan(alpha=1.9, scale=1.0, clip=0.5, batches=5, epochs=12, step=3.0, optimiser="momentum")


def points(rows, seed=0):
    frame = rings(rows, seed)
    return frame[["u", "v"]].to_numpy() / 4, frame["ring"].map({"inner": 0, "middle": 1, "outer": 2}).to_numpy()


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))


def test_a_study_learns_and_says_what_it_costs_in_every_direction(device):
    told = []
    trained = train_network(
        network(), *points(600), PLAN, validation=points(300, 9), seed=0, speed=Speed(device), progress=told.append
    )
    assert not trained.released
    assert trained.adjacency == "replace-one"
    assert trained.accuracy > 0.6  # one in three by chance
    bound = stable_epsilon(1.9, 1.0, 1e-5, l2_sensitivity=2.0, compositions=60, sampling=0.2)
    assert trained.epsilon_spent == pytest.approx(bound.high, rel=1e-6)
    assert bound.low <= trained.epsilon_spent
    assert bound.one_dimensional < trained.epsilon_spent
    spent = [each.epsilon_spent for each in told]
    assert spent == sorted(spent)


def test_the_noise_has_the_law_and_scale_of_the_plan():
    """On a mean over n/M records: `scale` clips over that many."""
    law = StableOnSums(1.5, 0.2, 1.0)
    noise = law.release(Bounded(np.zeros(4000), 1.0, "l2"), FastNoise(0))
    assert kstest(noise, lambda x: cdf(x, 1.5, 0.2)).pvalue > 1e-3
    seen = []
    from parley.tasks.networks import training

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_trained", lambda module, state, answering, *rest: seen.append(answering))
        train_network(network(), *points(600), StablePlan(**(vars(PLAN) | {"epochs": 1})), seed=0)
    found = seen[0].series
    assert found.mechanism.scale == pytest.approx(1.0 * 0.5 * 5 / 600)
    assert found.event.multiplier == pytest.approx(0.5, rel=1e-6)
    assert found.event.multiplier <= 0.5
    assert (found.event.sampling, found.spent_after(0)) == (0.2, 0)


def test_it_is_never_released(tmp_path):
    X, y = points(60)
    books = parley.Ledger(tmp_path / "a.ledger", lifetime=99.0, lifetime_delta="0.1")
    for more in ({}, {"ledger": books}, {"ledger": books, "seed": 1}, {"ledger": books, "checkpoint": tmp_path / "s"}):
        with pytest.raises(GuaranteeError, match="no exact sampler"):
            train_network(network(), X, y, PLAN, **more)
    with pytest.raises(SettingError, match="needs a ledger"):
        train_network(network(), X, y, PLAN, seed=0, checkpoint=tmp_path / "s")
    with pytest.raises(GuaranteeError, match="no exact sampler"):
        StableOnSums(1.9, 1.0, 1.0).release(Bounded(np.zeros(3), 1.0, "l2"), SafeNoise())
    with pytest.raises(GuaranteeError):
        StableOnSums(1.9, 1.0, 1.0).release(Bounded(np.zeros(3), 2.0, "l2"), FastNoise(0))
    assert books.reserved[0] == 0
    books.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 2.5}, "alpha = 2.5"),
        ({"scale": math.inf}, "scale"),
        ({"batches": 1}, "at least 2"),
        ({"clip": 0.0}, "clip = 0.0"),
        ({"delta": 0.0}, "delta"),
    ],
)
def test_plans_that_promise_nothing_are_refused(changes, words):
    with pytest.raises(SettingError, match=words):
        StablePlan(**(vars(PLAN) | changes))
