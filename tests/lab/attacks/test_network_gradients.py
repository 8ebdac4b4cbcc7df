"""Images off gradients of networks: to float32 without noise, though clipped; within the bound of Gaussian noise with
it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

from parley.errors import SettingError  # noqa: E402
from parley.privacy.mechanisms import FastNoise  # noqa: E402
from parley.tasks.networks.architectures import Architecture, cross_entropy, set_parameters  # noqa: E402
from parley.tasks.networks.clipping import RecordGradients  # noqa: E402
from parley_lab.attacks.network_gradients import (  # noqa: E402
    guess,
    likeness,
    noisy_gradients,
    read_input,
    read_label,
    reconstruct,
)
from parley_lab.papers.aarhus2020.digits import SIDE_PIXELS, synthetic_digits  # noqa: E402

torch.set_num_threads(1)
DIGITS, DELTA = synthetic_digits(200), 1e-5


def network(kind, layers=(), clip=0.5):
    made = Architecture.from_name(kind, SIDE_PIXELS**2, 10, layers)
    module, theta = made.module(), made.initial(0)
    set_parameters(module, theta)
    return module, RecordGradients(made.module(), cross_entropy, (SIDE_PIXELS**2,), clip, "l2", 1.0), theta


def gradient_of(place, gradients, theta, epsilon=np.inf, seed=0):
    found, _ = noisy_gradients(
        gradients, DIGITS.images[place], int(DIGITS.labels[place]), theta, epsilon, DELTA, 1, seed
    )
    return found[0]


@pytest.mark.parametrize("clip", [0.01, 1e6])
def test_a_dense_layer_gives_the_image_and_its_label_away_clipped_or_not(clip):
    module, gradients, theta = network("mlp", (32,), clip)
    for place in range(20):
        gradient = gradient_of(place, gradients, theta)
        assert clip == 1e6 or np.linalg.norm(gradient) == pytest.approx(clip)
        assert np.abs(read_input(module, gradient) - DIGITS.images[place]).max() < 1e-5
        assert read_label(module, gradient) == DIGITS.labels[place]


def test_convolutions_give_the_image_away_to_a_search_and_only_with_its_own_label():
    module, gradients, theta = network("chase-large")
    gradient, label = gradient_of(0, gradients, theta), int(DIGITS.labels[0])
    assert read_label(module, gradient) == label
    found = reconstruct(module, gradient, label, SIDE_PIXELS, 150)
    assert likeness(found, DIGITS.images[0]) > 0.95
    wrong = reconstruct(module, gradient, (label + 1) % 10, SIDE_PIXELS, 150)
    assert likeness(wrong, DIGITS.images[0]) < 0.8
    with pytest.raises(SettingError):
        read_input(module, gradient)


def test_noise_of_epsilon_8_leaves_nothing_to_see():
    module, gradients, theta = network("mlp", (32,))
    found = [
        likeness(read_input(module, gradient_of(place, gradients, theta, 8.0, seed=place)), DIGITS.images[place])
        for place in range(20)
    ]
    assert abs(np.mean(found)) < 4 * 784**-0.5 / 20**0.5  # as plain noise would have it


def test_two_images_are_told_apart_no_better_than_the_noise_allows_and_half_of_it_is_noticed(monkeypatch):
    _, gradients, theta = network("mlp", (8,))
    pair = [int(np.flatnonzero(DIGITS.labels == label)[0]) for label in (0, 1)]
    asked = (gradients, DIGITS.images[pair], DIGITS.labels[pair].astype(np.int64), theta)
    found = {epsilon: guess(*asked, epsilon, DELTA, 1000) for epsilon in (1.0, 8.0, 1000.0)}
    assert all(each.holds for each in found.values())
    assert 0.5 < found[1.0].right < found[8.0].right < found[1000.0].right == 1
    assert found[8.0].right > 0.7
    plain = FastNoise.gaussian
    monkeypatch.setattr(FastNoise, "gaussian", lambda self, value, sigma: plain(self, value, sigma / 2))
    assert not guess(*asked, 8.0, DELTA, 1000).holds
    with pytest.raises(SettingError):
        guess(gradients, DIGITS.images[:3], DIGITS.labels[:3].astype(np.int64), theta, 1.0, DELTA, 10)
