"""Layers that a release takes: what they compute, that no place or company of a record shows, and what is refused.

`python tests/tasks/networks/test_layers.py 10000` searches through so many settings.

Premise F9.
"""

import copy
import math
import sys
from contextlib import contextmanager

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

from torch import nn  # noqa: E402

from parley.data.split import batch, shuffled  # noqa: E402
from parley.errors import GuaranteeError, SettingError  # noqa: E402
from parley.privacy.mechanisms.banded import Band  # noqa: E402
from parley.tasks.networks import clipping, elementwise, kernels  # noqa: E402
from parley.tasks.networks.architectures import binary_cross_entropy, cross_entropy, squared  # noqa: E402
from parley.tasks.networks.clipping import RecordGradients  # noqa: E402
from parley.tasks.networks.correlated import MixedGradientQuestion  # noqa: E402
from parley.tasks.networks.layers import _BUILDERS, exact_network  # noqa: E402
from parley.tasks.networks.question import NetworkRows  # noqa: E402

ACTIVATIONS = [
    nn.ReLU(),
    nn.LeakyReLU(0.1),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.SiLU(),
    nn.ELU(),
    nn.ELU(0.7),
    nn.Softplus(),
    nn.Softplus(2.0, 1.0),
    nn.GELU(),
    nn.GELU("tanh"),
]
LOSSES = (cross_entropy, squared, binary_cross_entropy)


@contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def said(layers, rows):
    for layer in layers:
        rows = layer.forward(rows)
    return rows


def pooled(layer):
    return nn.Sequential(nn.Unflatten(1, (2, 6, 6)), layer)


def sequences(layer):
    return nn.Sequential(nn.Unflatten(1, (2, 36)), layer)


SHAPED = [
    pooled(nn.MaxPool2d(3, 2, 1)),
    pooled(nn.MaxPool2d((2, 3))),
    pooled(nn.AvgPool2d(2, 1)),
    pooled(nn.AvgPool2d(3, padding=1)),
    pooled(nn.AdaptiveAvgPool2d(1)),
    pooled(nn.ZeroPad2d((1, 0, 2, 0))),
    pooled(nn.GroupNorm(2, 2)),
    pooled(nn.LayerNorm((6, 6), bias=False)),
    sequences(nn.MaxPool1d(3, 2)),
    sequences(nn.AvgPool1d(4, 2, 1)),
    sequences(nn.AdaptiveAvgPool1d(1)),
    sequences(nn.LayerNorm(36)),
    sequences(nn.Conv1d(2, 3, 5, 2, 1, 2)),
    nn.Sequential(nn.GroupNorm(4, 72)),
    nn.Sequential(nn.LayerNorm(72, elementwise_affine=False), nn.Identity(), nn.Flatten()),
]


@pytest.mark.parametrize("layers", [*map(nn.Sequential, ACTIVATIONS), *SHAPED], ids=str)
def test_a_layer_computes_what_pytorch_does_and_its_slopes(layers):
    rows = torch.cat([torch.randn(50, 72, generator=torch.Generator().manual_seed(0)) * 3, torch.zeros(1, 72) + 50])
    made = exact_network(layers)
    ours, theirs = rows.clone().requires_grad_(), rows.double().requires_grad_()
    found, wanted = said(made, ours), copy.deepcopy(layers).double()(theirs)
    assert torch.allclose(found.double(), wanted, rtol=3e-6, atol=1e-6)
    weights = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1))
    slopes = [
        torch.autograd.grad(a, b, w)[0] for a, b, w in ((found, ours, weights), (wanted, theirs, weights.double()))
    ]
    assert torch.allclose(slopes[0].double()[:50], slopes[1][:50], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("losses", "outputs"), [(cross_entropy, 5), (squared, 2), (binary_cross_entropy, 1)])
def test_slopes_of_losses_are_those_of_pytorch(losses, outputs):
    draw = torch.Generator().manual_seed(0)
    scores = (torch.randn(40, outputs, generator=draw) * 10).requires_grad_()
    y = torch.randint(0, max(outputs, 2), (40,), generator=draw).double()
    (wanted,) = torch.autograd.grad(losses(scores, y).sum(), scores)
    assert torch.allclose(clipping.SLOPES[losses](scores.detach(), y), wanted, rtol=1e-5, atol=1e-6)


def any_numbers(count, seed=0):
    """Float32 numbers of any digits, and those that are special."""
    digits = np.random.default_rng(seed).integers(0, 1 << 32, count, dtype=np.uint32)
    found = digits.view(np.float32)
    found[:8] = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-45, 88.0]
    found[8 : count // 2] = np.random.default_rng(seed).normal(0, 4, count // 2 - 8)
    return torch.from_numpy(found)


def same(found, wanted):
    """Equal to the bit, except for the signs of zeros and the kinds of NaN."""
    return bool(((found == wanted) | (found.isnan() & wanted.isnan())).all())


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("layer", ACTIVATIONS, ids=str)
def test_an_activation_does_not_show_the_place_of_a_number(layer, count):
    """Long arrays are cut into pieces for threads, whose last numbers PyTorch computes by another formula."""
    (made,), numbers = exact_network(nn.Sequential(layer)), any_numbers(100_003).requires_grad_()

    def computed(x):
        x = x.detach().requires_grad_()
        y = made.forward(x)
        return torch.stack([y.detach(), torch.autograd.grad(y, x, torch.full_like(x, 1.37))[0]])

    with threads(count):
        whole = computed(numbers)
        for begin in (1, 3, 17, 50_001):
            assert same(computed(numbers[begin:]), whole[:, begin:])
        alone = torch.cat([computed(numbers[at : at + 1]) for at in range(2000)], 1)
        assert same(alone, whole[:, :2000])


def network(rng):
    """A random network of listed layers for rows of 36 numbers; its last layer says three numbers."""

    def activation():
        return ACTIVATIONS[rng.integers(len(ACTIVATIONS))]

    kind, wide = rng.integers(4), int(rng.integers(3, 12))
    if kind == 0:
        channels = int(rng.choice([2, 4, 24]))
        body = [nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, channels, 3, padding=1), activation()]
        body += [nn.GroupNorm(2, channels)] * int(rng.integers(2))
        after = [nn.MaxPool2d(2), nn.AvgPool2d(2, 1), nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels, 2)]
        body += [after[rng.integers(4)], activation(), nn.Flatten()]
    elif kind == 1:
        body = [nn.Unflatten(1, (2, 18)), nn.Conv1d(2, wide, 4, 2), activation(), nn.Flatten()]
        body[3:3] = [(nn.MaxPool1d(2), nn.AvgPool1d(3), nn.AdaptiveAvgPool1d(1))[rng.integers(3)]]
    else:
        wide = int(rng.integers(8, 400)) | 1
        body = [nn.Linear(36, wide), activation()] + [nn.LayerNorm(wide)] * int(rng.integers(2))
        body += [nn.Linear(wide, 8, bias=bool(rng.integers(2))), activation()] * (kind - 2)
    width = said(body, torch.zeros(2, 36)).shape[1]
    with torch.random.fork_rng():
        torch.manual_seed(int(rng.integers(1 << 30)))
        return nn.Sequential(*body, nn.Linear(width, 3))


def moved(made, theta, X, y, drawn):
    """How far the sum about other records moves, in clips, when one is there or not: drawn, or in a fixed batch with a
    target or without."""
    norm = {"l1": lambda v: np.abs(v).sum(), "l2": np.linalg.norm, "linf": lambda v: np.abs(v).max()}[made.norm]
    alone = made.clipped_sum(theta, X[:1], y[:1])
    whole, every = made.clipped_sum(theta, X, y), np.arange(len(X))
    if drawn:
        without = made.clipped_sum(theta, X, y, every[1:])
    else:
        without = made.clipped_sum(theta, X, np.where(every == 0, np.nan, y), every, every > 0)
    assert norm(alone) <= made.clip * (1 + 1e-12)
    return float(norm(whole - without - alone)) / made.clip


def found_moves(settings, seed, counts=(1, 2, 8), thetas=12):
    """The settings, of so many, in which another record's share moved: (threads, network, moved in clips)."""
    rng, bad, done = np.random.default_rng(seed), [], 0
    while done < settings:
        module, expected = network(rng), float(rng.choice([8, 40, 150, 300]))
        losses, norm = LOSSES[rng.integers(3)], ("l2", "l1", "linf")[rng.integers(3)]
        made = RecordGradients(module, losses, (36,), 0.5, norm, expected)
        for _ in range(thetas):
            rows = int(rng.choice([len(made.shapes[0]), rng.integers(2, 2 * expected + 4)]))
            X = (rng.normal(0, 1, (rows, 36)) * 10.0 ** rng.uniform(-2, 2)).astype(np.float32)
            y = rng.integers(0, 2, rows).astype(float)
            theta = rng.normal(0, 10.0 ** rng.uniform(-2, 2), made.parameters)
            for count in counts:
                with threads(count):
                    found = moved(made, theta, X, y, drawn=bool(rng.integers(2)))
                if not found <= 4 * made.rounding(rows) * rows:
                    bad.append((count, str(module), found))
                done += 1
    return bad


def test_no_records_share_is_found_to_move_when_another_is_there_or_not():
    assert not found_moves(180, 0)


def by_pytorch(function):
    """The mutant: PyTorch's own activation and its slope."""

    def activation(x, **settings):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = function(x, **settings)
        return y.detach(), torch.autograd.grad(y, x, torch.ones_like(y))[0]

    return activation


def test_the_search_finds_pytorchs_own_sigmoid(monkeypatch):
    """In networks of which the probes call these places sound."""
    numbers = torch.linspace(-3, 3, 4096)
    if torch.equal(torch.cat([torch.sigmoid(each[None]) for each in numbers]), torch.sigmoid(numbers)):
        pytest.skip("PyTorch computes a sigmoid by one formula on this machine")
    monkeypatch.setattr(elementwise, "sigmoid", by_pytorch(torch.sigmoid))
    monkeypatch.setattr(elementwise, "AT_ONCE", 1 << 30)
    monkeypatch.setitem(globals(), "ACTIVATIONS", [nn.Sigmoid()])
    assert any(found_moves(36, seed) for seed in (7, 4, 13, *range(20, 40)))


def corner(width, size):
    """A network whose sigmoids all take one number, for which PyTorch's formulas differ; what the network says is what
    the last of them leaves of a constant, enlarged: 0 if it is that of vectors."""
    numbers = torch.linspace(-3, 3, 4096)
    alone = torch.cat([torch.sigmoid(each[None]) for each in numbers])
    at = int((alone - torch.sigmoid(numbers)).abs().argmax())
    theta = np.zeros(3 * width + 1)
    theta[width : 2 * width] = float(numbers[at])  # constants of the first layer, whose weights are 0
    theta[3 * width - 1], theta[-1] = 2.0**30, -(2.0**30) * float(torch.sigmoid(numbers)[at])
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(1, width), nn.Sigmoid(), nn.Linear(width, 1))
    return RecordGradients(module, squared, (1,), 1.0, "l2", size), theta


def test_pytorchs_last_numbers_do_not_move_the_sum_by_a_clip():
    """The last unit of the last row, in shapes that are full: with PyTorch's sigmoid one record more moves another's
    share from 0 to the clip, at widths of which the probes call every place sound."""
    worst = 0.0
    with threads(1):
        for width in (43, 47, 55):
            made, theta = corner(width, 40)
            rows = len(made.shapes[0])
            worst = max(worst, moved(made, theta, np.ones((rows, 1), dtype=np.float32), np.zeros(rows), True))
    assert worst < 1e-9


def test_a_missing_target_moves_no_other_record_of_a_fixed_batch():
    """With rows dropped, those after it stand one place before, and the last one leaves PyTorch's last numbers."""
    worst = 0.0
    with threads(1):
        for width in (43, 47, 55):
            made, theta = corner(width, 40)
            rows = 2 * len(made.shapes[0])
            X, y, present = np.ones((rows, 1), dtype=np.float32), np.zeros(rows), np.ones(rows, dtype=np.bool_)
            question = MixedGradientQuestion.from_gradients(made, rows, 2, Band((1.0,)), 1)
            whole = question._sum(NetworkRows(X, y, present), 1, theta)
            missing = present.copy()
            missing[np.sort(batch(shuffled(rows, 0, "batches", 0), 2, 0))[0]] = False
            without = question._sum(NetworkRows(X, y, missing), 1, theta)
            worst = max(worst, np.linalg.norm(whole - without - made.clipped_sum(theta, X[:1], y[:1])))
    assert worst < 1e-9


def test_probes_see_weights_of_a_network_that_begins_with_zeros(monkeypatch):
    seen = []
    monkeypatch.setattr(clipping, "sound_shapes", lambda computed, *rest: seen.extend(computed(torch.rand(8, 4))) or [])
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    assert RecordGradients(module, cross_entropy, (4,), 1.0, "l2", 8).shapes == []
    assert all(bool((each != 0).all()) for each in seen)


def test_small_networks_are_probed_more_often():
    """Two orders of adding up three products differ in every other number."""
    calls = []

    def computed(rows):
        calls.append(len(rows))
        return [rows.sum(1)]

    kernels.sound_shapes(computed, (3,), [32], "cpu")
    assert len(calls) > kernels.PROBES


def test_threads_that_flush_tiny_numbers_are_refused():
    with threads(1):
        try:
            if not torch.set_flush_denormal(True):
                pytest.skip("this processor does not flush denormal numbers")
            with pytest.raises(GuaranteeError, match="set_flush_denormal"):
                RecordGradients(nn.Linear(2, 2), cross_entropy, (2,), 1.0, "l2", 8).shapes  # noqa: B018
        finally:
            torch.set_flush_denormal(False)


class Doubled(nn.Linear):
    def forward(self, rows):
        return super().forward(rows / rows.abs().max())


class Inner(nn.Sequential):
    pass


def layer(change, kind=nn.Linear, *settings):
    made = kind(*(settings or (4, 4)))
    change(made)
    return made


def patched(made):
    made.forward = lambda rows: rows / rows.abs().max()


SHARED = nn.Linear(4, 4)
TIED = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
TIED[1].weight = TIED[0].weight
REFUSED = [
    (nn.BatchNorm1d(4), r"BatchNorm1d \(0\): the layer mixes the records"),
    (nn.Dropout(0.1), r"Dropout \(0\): the layer draws at random"),
    (nn.InstanceNorm1d(4), r"InstanceNorm1d \(0\): the layer is not known"),
    (Doubled(4, 4), r"Doubled \(0\): the layer is not known"),
    (Inner(nn.Linear(4, 4)), r"Inner \(0\): the layer is not known"),
    (layer(patched), "overrides forward"),
    (layer(patched, nn.Sequential, nn.Tanh()), "overrides forward"),
    (layer(lambda made: made.register_forward_hook(lambda *each: None)), "has hooks"),
    (layer(lambda made: made.register_full_backward_hook(lambda *each: None)), "has hooks"),
    (layer(lambda made: made.register_buffer("seen", torch.zeros(()))), "has buffers"),
    (nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), "ParametrizedLinear"),
    (
        layer(lambda made: made.register_parameter("more", nn.Parameter(torch.zeros(2)))),
        "parameters do not match its settings",
    ),
    (
        layer(lambda made: made.register_parameter("more", nn.Parameter(torch.zeros(2))), nn.Sequential, nn.Tanh()),
        "own",
    ),
    (nn.Sequential(SHARED, nn.Tanh(), SHARED), "shares parameters"),
    (TIED, "shares parameters"),
    (nn.Sequential(nn.Flatten(0), nn.Linear(4, 4)), "records do not mix"),
    (nn.Unflatten(0, (2, 4)), "records do not mix"),
    (nn.Conv2d(4, 4, 3, groups=2), "groups=1"),
    (nn.Conv2d(4, 4, 3, padding="same"), "numbers as padding"),
    (nn.MaxPool2d(2, ceil_mode=True), "ceil_mode"),
    (nn.AdaptiveAvgPool2d(2), "output_size"),
]


@pytest.mark.parametrize(("part", "words"), REFUSED, ids=lambda each: each if isinstance(each, str) else "")
def test_what_is_not_listed_is_refused_and_says_what_to_do(part, words):
    with pytest.raises(GuaranteeError, match=words) as error:
        RecordGradients(nn.Sequential(part, nn.Linear(4, 3)), cross_entropy, (4,), 1.0, "l2", 8)
    assert "pass a seed for a simulation" in str(error.value)


def test_a_loss_of_ones_own_is_refused():
    def by_class(said, y):
        return cross_entropy(said, y) * torch.bincount(y.long(), minlength=3)[y.long()]

    with pytest.raises(GuaranteeError, match="loss: expected one of cross_entropy, squared, binary_cross_entropy"):
        RecordGradients(nn.Sequential(nn.Linear(4, 3)), by_class, (4,), 1.0, "l2", 8)


@pytest.mark.parametrize(
    ("module", "row"),
    [
        (nn.Sequential(nn.Conv2d(2, 2, 1), nn.Flatten(), nn.Linear(4, 3)), (2, 2)),
        (nn.Sequential(nn.Conv1d(2, 2, 1), nn.Linear(4, 3)), (4,)),
        (nn.Sequential(nn.MaxPool2d(2, 1), nn.Linear(3, 3)), (4,)),
        (nn.Sequential(nn.ZeroPad2d(1), nn.Linear(6, 3)), (4,)),
        (nn.Sequential(nn.LayerNorm((2, 4)), nn.Linear(4, 3)), (4,)),
        (nn.Sequential(nn.Linear(5, 3)), (4,)),
        (nn.Sequential(nn.Linear(4, 3)), (2, 4)),
    ],
    ids=str,
)
def test_layers_that_would_take_records_for_an_axis_of_theirs_are_refused(module, row):
    with pytest.raises(SettingError, match="network: "):
        RecordGradients(module, cross_entropy, row, 1.0, "l2", 8)


def test_weights_that_are_drawn_meanwhile_leave_the_generator_alone():
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    exact_network(nn.Sequential(*(nn.Identity() for _ in range(2)), SHARED))
    assert torch.equal(torch.rand(2), wanted)


def test_every_listed_layer_is_searched_or_compared():
    tried = {type(part) for each in (*SHAPED, *map(nn.Sequential, ACTIVATIONS)) for part in each}
    searched = {nn.Linear, nn.Conv2d}
    named = {kind for kind in _BUILDERS if not kind.__module__.startswith("torch.")}
    assert set(_BUILDERS) - named <= tried | searched | {nn.Unflatten}


@pytest.mark.parametrize(
    "layer",
    [
        nn.ZeroPad2d((0, 0, 0, 0, 0, 0, 1, -1)),
        nn.ZeroPad2d((0, 0, 1, -1)),
        nn.LayerNorm(()),
        nn.LayerNorm(4, eps=torch.tensor(1e-5)),
        nn.ELU(alpha=torch.ones(3)),
        nn.MaxPool2d(2, padding=(0, 0, 0, 1)),
    ],
    ids=repr,
)
def test_settings_that_could_reach_the_axis_of_records_are_refused(layer):
    """Padding by eight numbers moves records to their neighbours' targets; LayerNorm of no axis is one of the batch."""
    with pytest.raises(GuaranteeError, match="pass a seed for a simulation"):
        exact_network(nn.Sequential(layer))


def test_groups_that_were_taken_away_afterwards_are_refused():
    layer = nn.GroupNorm(1, 4)
    layer.num_groups = 0
    with pytest.raises(GuaranteeError, match="whole numbers >= 1"):
        exact_network(nn.Sequential(layer))


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    bad = found_moves(wanted, int(sys.argv[2]) if sys.argv[2:] else 1, thetas=100)
    sys.stdout.write(f"{wanted:,} settings, 1, 2 and 8 threads, drawn and fixed batches: a share moved in {len(bad)}\n")
    sys.exit(bool(bad))
