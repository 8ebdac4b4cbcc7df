"""Many runs of one network at once: sums as in private training, draws and noise of the laws they should have."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

from torch import nn  # noqa: E402

from parley.errors import SettingError  # noqa: E402
from parley.privacy.mechanisms.stable_law import cdf  # noqa: E402
from parley.tasks.networks.architectures import cross_entropy  # noqa: E402
from parley.tasks.networks.clipping import RecordGradients  # noqa: E402
from parley.tasks.networks.elementwise import Pooled  # noqa: E402
from parley_lab.papers.zawacki2024.stacked_networks import (  # noqa: E402
    StackedNetwork,
    StudyNoise,
    StudySteps,
    _draws,
    stable_draws,
    trained_runs,
)

torch.set_num_threads(1)
CLIP = 0.3


def images(wide):
    """Convolutions whose gradients are written out, or, wide ones, measured by products of places."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, wide, 3, padding=1),
        nn.ReLU(),
        Pooled(2, mean=True),
        nn.Conv2d(wide, wide, 3, stride=2, padding=1),
        nn.Tanh(),
        Pooled(2),
        nn.Flatten(),
        nn.Linear(wide, 3),
    )


@pytest.mark.parametrize("wide", [3, 40])
def test_sums_are_those_of_private_training(wide, device):
    module, rng = images(wide), np.random.default_rng(0)
    made = RecordGradients(module, cross_entropy, (64,), CLIP, "l2", 5, device)
    theta = rng.normal(0, 0.4, (2, made.parameters)).astype(np.float32)
    X, y = rng.random((2, 5, 64), dtype=np.float32), rng.integers(0, 3, (2, 5))
    there = np.array([[1, 1, 0, 1, 1], [1, 1, 1, 1, 0]], dtype=np.float32)
    asked = [torch.from_numpy(each).to(device) for each in (theta, X, y, there)]
    clips = torch.full((2, 1), CLIP, device=device)
    found = StackedNetwork(module, device).clipped_sums(*asked, clips).cpu().numpy()
    for run, kept in enumerate(there > 0):
        wanted = made.clipped_sum(theta[run].astype(float), X[run][kept], y[run][kept].astype(float))
        assert np.linalg.norm(wanted) > CLIP
        assert found[run] == pytest.approx(wanted, abs=1e-5)


def test_every_place_is_drawn_alike_and_once(device):
    """Counts of 4,000 draws of 200 places at 0.1: their means and variances within four standard errors."""
    steps = StudySteps(0.1, 2000, 1.0)
    draws = list(_draws(200, 2, steps, torch.Generator(device).manual_seed(0)))
    chosen = np.concatenate([places.cpu().numpy() for places, _ in draws])
    there = np.concatenate([marks.cpu().numpy() for _, marks in draws]) > 0
    counts = there.sum(1)
    assert counts.mean() == pytest.approx(20, abs=4 * math.sqrt(18 / 4000))
    assert counts.var() == pytest.approx(18, abs=4 * 18 * math.sqrt(2 / 4000))
    each = np.bincount(chosen[there], minlength=200) / 4000
    assert np.abs(each - 0.1).max() < 4.5 * math.sqrt(0.09 / 4000)
    assert all(len(set(row[marks])) == marks.sum() for row, marks in zip(chosen[:200], there[:200], strict=True))


def test_noise_has_its_law(device):
    alphas = torch.tensor([[1.0], [1.5], [1.999], [2.0]], dtype=torch.float64, device=device)
    found = stable_draws(alphas, 4000, torch.Generator(device).manual_seed(0)).cpu().numpy()
    for alpha, draws in zip((1.0, 1.5, 1.999, 2.0), found, strict=True):
        assert kstest(draws, lambda x, alpha=alpha: cdf(x, alpha)).pvalue > 1e-3
    assert kstest(found[1], lambda x: cdf(x, 1.0)).pvalue < 1e-6  # the power of it


def test_runs_are_trained_each_with_its_own_noise(device):
    rng = np.random.default_rng(1)
    X = rng.normal(0, 1, (600, 4)).astype(np.float32)
    y = (X[:, 0] > X[:, 1]).astype(np.int64)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    noises = [StudyNoise(), StudyNoise(2.0, 0.5, 1.0), StudyNoise(1.999, 0.5, 1.0), StudyNoise(1.5, 500.0, 1.0)]
    begin = np.tile(rng.normal(0, 0.3, 58), (4, 1))
    what = module, begin, X, y, noises, StudySteps(0.1, 150, 1.0, 0.5), 3, device
    theta = trained_runs(*what)
    network = StackedNetwork(module, device)
    asked = torch.from_numpy(X).to(device), torch.from_numpy(y).to(device)
    found = network.accuracies(theta, *asked)
    assert (found[:3] > 0.9).all()
    assert found[3] < 0.9
    assert torch.equal(theta, trained_runs(*what))


def test_what_cannot_be_stacked_or_studied_is_refused():
    with pytest.raises(SettingError, match="GroupNorm: expected Linear or Conv2d"):
        StackedNetwork(nn.Sequential(nn.Linear(2, 4), nn.GroupNorm(2, 4)))
    with pytest.raises(SettingError, match="finite clip with noise"):
        StudyNoise(2.0, 1.0)
    with pytest.raises(SettingError, match="alpha = 3"):
        StudyNoise(3.0, 1.0, 1.0)
    with pytest.raises(SettingError, match="expected cpu, cuda"):
        trained_runs(None, None, None, None, (), StudySteps(0.1, 1, 1.0), 0, "tpu")
