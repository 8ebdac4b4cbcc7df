"""What wavelets see of an image: which way its stripes run, and nothing of other images."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

from parley.tasks.networks.architectures import Architecture, cross_entropy  # noqa: E402
from parley.tasks.networks.clipping import RecordGradients  # noqa: E402
from parley.tasks.networks.layers import DIRECTIONS, FREQUENCY, SCATTERING_CHANNELS, Scattering  # noqa: E402


def stripes(direction: int) -> np.ndarray:
    """An image [1, 1, 28, 28] of waves that run this way."""
    down, right = np.mgrid[:28, :28].astype(float)
    angle = math.pi * direction / DIRECTIONS
    wave = np.cos(FREQUENCY * (right * math.cos(angle) + down * math.sin(angle)))
    return torch.tensor(0.5 + wave / 2, dtype=torch.float32)[None, None]


@pytest.mark.parametrize("direction", range(DIRECTIONS))
def test_stripes_are_seen_by_the_wavelet_of_their_direction(direction):
    strength = Scattering()._strengths(stripes(direction))[0, :, 8:20, 8:20].mean((1, 2))
    assert int(strength.argmax()) == direction
    assert strength[direction] > 1.5 * strength[(direction + DIRECTIONS // 2) % DIRECTIONS]


def test_it_has_81_channels_of_7_by_7_no_parameters_and_says_nothing_of_plain_areas():
    seen = Scattering()
    assert not list(seen.parameters())
    assert not seen.state_dict()  # formulas: nothing to keep
    assert seen(torch.rand(2, 1, 28, 28)).shape == (2, SCATTERING_CHANNELS, 7, 7)
    plain = seen._strengths(torch.ones(1, 1, 28, 28))[0, :, 8:20, 8:20]
    assert float(plain.max()) < 1e-6


def test_what_it_sees_of_a_row_is_the_same_alone_and_in_company():
    network = Architecture.from_name("scattering-linear", 784, 10)
    made = RecordGradients(network.module(), cross_entropy, (784,), 1.0, "l2", 4)
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 784), dtype=np.float32), rng.integers(0, 10, 40).astype(float)
    theta = network.initial()
    alone = made.clipped_sum(theta, X[:1], y[:1])
    there = made.clipped_sum(theta, X, y, np.arange(20)), made.clipped_sum(theta, X, y, np.arange(1, 20))
    assert np.allclose(there[0] - there[1], alone, atol=1e-12)
    assert np.linalg.norm(alone) <= 1.0
