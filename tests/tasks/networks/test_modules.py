"""Networks by name, and shapes of batches by which no row's company shows.

Premise F9: PyTorch rounds single operations (+, −, ×, ÷, √) as IEEE 754 prescribes, at every place of an array. The
batch's shape and a row's place alone determine the order of a matrix product. A test with random rows detects places
whose order differs. Sums of float64 products satisfy F3.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

from torch import nn  # noqa: E402

from parley.errors import GuaranteeError, SettingError  # noqa: E402
from parley.tasks.networks import kernels  # noqa: E402
from parley.tasks.networks.architectures import (  # noqa: E402  # noqa: E402
    _BUILDERS,
    Architecture,
    cross_entropy,
    module_scores,
    parameters_of,
    set_parameters,
)
from parley.tasks.networks.clipping import RecordGradients  # noqa: E402
from parley.tasks.networks.terms import ARCHITECTURES  # noqa: E402


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("logistic", 7850),
        ("mlp", 52650),
        ("zawacki-cnn", 26010),
        ("chase-small", 13114),
        ("chase-large", 106122),
        ("tanh-cnn", 26010),
        ("scattering-linear", 39700),
    ],
)
def test_networks_by_name_have_their_sizes_and_say_ten_numbers_of_an_image(name, parameters):
    network = Architecture.from_name(name, 784, 10, (64, 32) if name == "mlp" else ())
    assert network.parameters == parameters
    theta, module = network.initial(), network.module()
    set_parameters(module, theta)
    assert np.allclose(parameters_of(module), theta, rtol=1e-6)
    assert module_scores(module, np.zeros((3, 784), dtype=np.float32)).shape == (3, 10)
    assert not np.array_equal(theta, network.initial(1))


@pytest.mark.parametrize(
    ("name", "width", "parameters"), [("zawacki-cnn-9", 3072, 131_466), ("vgg-11", 784, 9_220_354)]
)
def test_deep_networks_have_their_sizes_and_their_signals_do_not_vanish(name, width, parameters):
    network = Architecture.from_name(name, width, 10 if width == 3072 else 2)
    assert network.parameters == parameters
    module = network.module()
    set_parameters(module, network.initial())
    said = module_scores(module, np.random.default_rng(0).normal(0, 1, (3, width)).astype(np.float32))
    assert 1e-2 < np.abs(said - said.mean(axis=1, keepdims=True)).max() < 10


def test_what_terms_may_name_is_what_can_be_made():
    assert tuple(_BUILDERS) == ARCHITECTURES
    with pytest.raises(SettingError, match="expected one of logistic"):
        Architecture.from_name("resnet", 784, 10)
    with pytest.raises(SettingError, match="28 x 28 image"):
        Architecture.from_name("zawacki-cnn", 100, 10)
    with pytest.raises(SettingError, match="32 x 32 image"):
        Architecture.from_name("zawacki-cnn-9", 784, 10)


def test_places_that_come_out_otherwise_are_not_used():
    """A kernel of its own for the first rows of a shape, as edges of tiles may have."""

    def computed(rows):
        said = rows.sum(1)
        return [torch.cat([said[:3] * (1 + 2.0**-20), said[3:]])]

    slots = kernels.sound_shapes(computed, (5,), [32], "cpu")
    assert slots[0].places.tolist() == list(range(3, 32))


def test_a_kernel_that_hears_of_other_rows_is_refused():
    with pytest.raises(GuaranteeError, match="depends on other records in the batch"):
        kernels.sound_shapes(lambda rows: [rows + 1e-6 * rows.sum()], (5,), [32], "cpu")


def test_float32_means_float32_and_what_was_set_before_comes_back(monkeypatch):
    torch.set_float32_matmul_precision("medium")
    with kernels.exact_kernels():
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == "medium"
    torch.set_float32_matmul_precision("highest")
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", "BF16")
    with pytest.raises(GuaranteeError, match="bfloat16"), kernels.exact_kernels():
        pass


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "cuda:99", "mps"])
def test_devices_that_are_not_there_are_refused_in_a_sentence(device):
    with pytest.raises(SettingError, match="expected"):
        RecordGradients(nn.Linear(2, 2), cross_entropy, (2,), 1.0, "l2", 4, device)
