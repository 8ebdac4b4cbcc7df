"""What one record can do to a sum of clipped gradients: measured, searched for, and not moved by its company.

Premise F9.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

from torch import nn  # noqa: E402

from parley.tasks.networks.architectures import (  # noqa: E402
    Architecture,
    cross_entropy,
    squared,
)
from parley.tasks.networks.clipping import RecordGradients  # noqa: E402
from parley.tasks.networks.question import NetworkGradientQuestion  # noqa: E402

torch.set_num_threads(1)
CLIP = 0.5


def small(places=False):
    """A network of two convolutions and a layer for rows of 64 numbers; of many channels where places are to be few."""
    torch.manual_seed(0)
    wide = 48 if places else 3
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, wide, 3, stride=2),
        nn.Tanh(),
        nn.Conv2d(wide, wide, 2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(4 * wide, 3),
    )


def rows_of(count, seed=0, width=64):
    rng = np.random.default_rng(seed)
    return rng.random((count, width), dtype=np.float32), rng.integers(0, 3, count).astype(float)


def theta_of(module, scale=1.0):
    return scale * np.concatenate([p.detach().double().numpy().reshape(-1) for p in module.parameters()])


def measure(value, norm):
    return float(np.linalg.norm(value, {"l1": 1, "l2": 2, "linf": np.inf}[norm]))


def by_hand(module, losses, X, y, norm):
    """The sum of clipped gradients, one record after the other, by PyTorch alone."""
    total = 0.0
    for row, target in zip(torch.from_numpy(X), torch.from_numpy(y), strict=True):
        loss = losses(module(row[None]), target[None]).sum()
        pieces = torch.autograd.grad(loss, list(module.parameters()))
        gradient = np.concatenate([piece.double().numpy().reshape(-1) for piece in pieces])
        total = total + gradient * min(1.0, CLIP / measure(gradient, norm))
    return total


class Own(nn.Module):
    """A module of one's own, which is for studies alone."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, rows):
        return self.layers(rows)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf"])
@pytest.mark.parametrize("study", [False, True])
@pytest.mark.parametrize("places", [False, True])
def test_the_sum_is_that_of_records_clipped_one_by_one(norm, study, places, device):
    module, (X, y) = small(places), rows_of(9)
    made = Own(module) if study else module
    found = RecordGradients(made, cross_entropy, (64,), CLIP, norm, 9, device, study)
    assert [type(layer).__name__ for layer in found._by_zeros].count("Places") == (
        1 if places and norm == "l2" and not study else 0
    )
    wanted = by_hand(module, cross_entropy, X, y, norm)
    assert found.clipped_sum(theta_of(module), X, y) == pytest.approx(wanted, abs=2e-6)


def test_a_layer_of_sequences_and_one_without_a_constant_have_closed_forms_too():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 5, bias=False), nn.Tanh(), nn.Flatten(), nn.Linear(15, 3))
    rng = np.random.default_rng(0)
    X, y = rng.random((6, 3, 4), dtype=np.float32), rng.integers(0, 3, 6).astype(float)
    found = RecordGradients(module, cross_entropy, (3, 4), CLIP, "l2", 6)
    wanted = by_hand(module, cross_entropy, X, y, "l2")
    assert found.clipped_sum(theta_of(module), X, y) == pytest.approx(wanted, abs=2e-6)


def others():
    """Networks of layers that scale, of sequences, and of an activation of each kind."""
    images = nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.GELU(), nn.AdaptiveAvgPool2d(1)
    sequence = nn.Unflatten(1, (4, 16)), nn.Conv1d(4, 6, 3, 2, 1), nn.SiLU(), nn.LayerNorm(8), nn.MaxPool1d(2)
    torch.manual_seed(0)
    return [
        nn.Sequential(nn.Linear(64, 8), nn.GroupNorm(2, 8), nn.ReLU(), nn.Linear(8, 3)),
        nn.Sequential(*images, nn.Flatten(), nn.Linear(4, 3)),
        nn.Sequential(*sequence, nn.Flatten(), nn.Softplus(), nn.Linear(24, 3)),
        nn.Sequential(nn.LayerNorm(64, bias=False), nn.Linear(64, 5), nn.ELU(), nn.Linear(5, 3), nn.Sigmoid()),
    ]


@pytest.mark.parametrize("module", others(), ids=["groups", "images", "sequence", "rows"])
def test_networks_of_other_layers_are_those_of_records_one_by_one(module, device):
    X, y = rows_of(5)
    found = RecordGradients(module, cross_entropy, (64,), CLIP, "l2", 5, device)
    assert found.clipped_sum(theta_of(module), X, y) == pytest.approx(
        by_hand(module, cross_entropy, X, y, "l2"), abs=2e-6
    )


def balanced(row, parameters, rng, size):
    """Weights so large, and balanced for this row, that what the first unit says of it is what its products leave of
    each other: last digits decide."""
    theta = np.zeros(parameters)
    theta[: len(row)] = size * rng.choice([-1.0, 1.0], len(row)) * rng.uniform(0.5, 1.5, len(row))
    if row[-1]:
        theta[len(row) - 1] = -(theta[: len(row) - 1] @ row[:-1]) / row[-1]
    return theta


def found_worst(made, rng, tries=45, company=1, width=64):
    """The most that a record moves a sum when it is drawn or not, over the clip; climbing over the record, its company
    and theta, any doubles among them."""
    norm, P = made.norm, made.parameters

    def row():
        kind = rng.integers(5)
        if kind == 0:
            return rng.choice([0.0, 1.0, -1.0], width)
        if kind == 1:
            return rng.choice([-1.0, 1.0], width) * 10.0 ** rng.uniform(-45, 38, width)
        return rng.random(width) * 10.0 ** rng.uniform(-3, 3)

    def point(rows):
        kind = rng.integers(4)
        if kind == 0:
            return rng.choice([-1.0, 1.0], P) * 10.0 ** rng.uniform(-300, 50, P)
        if kind == 1:
            return balanced(rows[-1], P, rng, 10.0 ** rng.uniform(2, 8))
        return rng.normal(0, 10.0 ** rng.uniform(-3, 2), P)

    def moved(rows, y, theta):
        X = np.array(rows).astype(np.float32)
        there, without = made.clipped_sum(theta, X, y), made.clipped_sum(theta, X[1:], y[1:])
        assert np.isfinite(there).all()
        return measure(there - without, norm) / made.clip

    rows, y = [row() for _ in range(company + 1)], rng.integers(0, 3, company + 1).astype(float)
    theta = point(rows)
    worst = moved(rows, y, theta)
    for step in range(tries):
        trial = [row() if step % 3 == 0 or rng.random() < 0.3 else each for each in rows]
        where = point(trial) if step % 3 == 1 else theta
        if (found := moved(trial, y, where)) > worst:
            worst, rows, theta = found, trial, where
    return worst


LINEAR = nn.Sequential(nn.Linear(64, 3))
SETTINGS = [
    (LINEAR, cross_entropy, "l2"),
    (LINEAR, cross_entropy, "l1"),
    (LINEAR, cross_entropy, "linf"),
    (small(), cross_entropy, "linf"),
    (nn.Sequential(nn.Linear(64, 1)), squared, "l2"),
    (small(), cross_entropy, "l1"),
    (small(places=True), cross_entropy, "l2"),
    (nn.Sequential(nn.Linear(64, 8), nn.GroupNorm(2, 8), nn.Linear(8, 3)), cross_entropy, "l2"),
]


@pytest.mark.parametrize(("module", "losses", "norm"), SETTINGS)
def test_no_record_found_moves_a_sum_by_more_than_the_clip(module, losses, norm, device):
    made = RecordGradients(module, losses, (64,), CLIP, norm, 8, device)
    worst = found_worst(made, np.random.default_rng(0))
    assert 0.9 < worst <= 1 + 2 * 2 * made.rounding(2)


def test_without_padded_shapes_a_records_company_would_be_found_out(monkeypatch):
    """The mutant: batches as large as the draw, so that a record alone is computed in another order than among
    others."""

    def as_drawn(self, shapes, X, y, chosen=None, present=None):
        yield torch.from_numpy(X), torch.from_numpy(y), torch.ones(len(X), dtype=torch.float64)

    made = RecordGradients(LINEAR, cross_entropy, (64,), CLIP, "l2", 8)
    monkeypatch.setattr(RecordGradients, "_batches", as_drawn)
    assert found_worst(made, np.random.default_rng(0), tries=300) > 1.5


def test_without_the_clip_it_would_be_found_out(monkeypatch):
    """The mutant: nothing scaled down."""
    made = RecordGradients(LINEAR, cross_entropy, (64,), CLIP, "l2", 8)
    monkeypatch.setattr(made, "_factors", lambda layers: torch.ones(len(layers[0].numbers[0]), dtype=torch.float64))
    with pytest.raises(AssertionError):
        assert found_worst(made, np.random.default_rng(0)) <= 1


@pytest.mark.parametrize(("clipped", "noise"), [("linf", "l2"), ("linf", "l1"), ("l2", "l1"), ("l1", "l2")])
def test_a_clip_in_another_norm_than_the_noises_is_reached_so_that_less_noise_would_not_do(clipped, noise):
    """One record replaced by one that pulls the other way: in every number alike, or (L1) in one alone."""
    alike = clipped != "l1"
    module, x = nn.Sequential(nn.Linear(3, 1, bias=alike)), np.ones((1, 3)) if alike else np.array([[1.0, 0.0, 0.0]])
    made = RecordGradients(module, squared, (3,), CLIP, clipped, 2)
    theta, rows = np.zeros(made.parameters), x.astype(np.float32)
    up, down = (made.clipped_sum(theta, rows, np.array([y])) for y in (1e3, -1e3))
    question = NetworkGradientQuestion.from_gradients(made, 10, 2, norm=noise)
    moved = measure(up - down, noise) * 2 / 10
    assert 1 - 1e-9 < moved / question.sensitivity <= 1
    assert question.norm == noise == question.extent.norm


@pytest.mark.parametrize("name", ["logistic", "chase-small"])
def test_a_row_alone_and_in_company_hands_over_the_same_numbers(name, device):
    """Alone in any shape it is the same to the bit; among others the sum grows by it but for roundings in float64."""
    network = Architecture.from_name(name, 784, 10)
    made = RecordGradients(network.module(), cross_entropy, (784,), 1.0, "l2", 40, device)
    theta = np.random.default_rng(1).normal(0, 0.3, network.parameters)
    X, y = rows_of(70, 3, 784)
    alone = made.clipped_sum(theta, X[:1], y[:1])
    assert np.linalg.norm(alone) > 0.01
    for company in (1, 30, 69):
        some = made.clipped_sum(theta, X[: company + 1], y[: company + 1])
        others = made.clipped_sum(theta, X[1 : company + 1], y[1 : company + 1])
        assert np.abs(some - others - alone).max() < 1e-13 * company
    silent = RecordGradients(network.module(), cross_entropy, (784,), 1.0, "l2", 100, device)
    assert np.array_equal(silent.clipped_sum(theta, X[:1], y[:1]), alone)


def test_an_empty_draw_is_nothing_and_a_gradient_that_is_no_number_counts_nothing(device):
    made = RecordGradients(LINEAR, cross_entropy, (64,), CLIP, "l2", 8, device)
    X, y = rows_of(3)
    theta = np.ones(made.parameters)
    assert not made.clipped_sum(theta, X[:0], y[:0]).any()
    wild = X.copy()
    wild[0] = np.inf
    wild[1, 3] = np.nan
    assert np.array_equal(made.clipped_sum(theta, wild, y), made.clipped_sum(theta, X[2:], y[2:]))
    assert np.isinf(made.record_norms(theta, wild, y)[:2]).all()


def test_a_row_without_a_target_keeps_its_place_and_counts_nothing(monkeypatch):
    """Or the rows after it would move, into places that a kernel may treat otherwise: in a fixed batch, for sure."""
    made = RecordGradients(LINEAR, cross_entropy, (64,), CLIP, "l2", 8)
    (X, y), present, theta = rows_of(6), np.arange(6) != 1, np.ones(made.parameters)
    wild = np.where(present[:, None], X, np.inf).astype(np.float32)
    seen, batches = [], RecordGradients._batches

    def noted(self, *asked):
        for rows, targets, there in batches(self, *asked):
            seen.append((rows.clone(), there.clone()))
            yield rows, targets, there

    monkeypatch.setattr(RecordGradients, "_batches", noted)
    found = made.clipped_sum(theta, wild, np.where(present, y, np.nan), None, present)
    made.clipped_sum(theta, X, y)
    (rows, there), (every, _) = seen
    assert torch.equal(rows[2:], every[2:])
    assert not rows[1].any()
    assert there[:7].tolist() == [1, 0, 1, 1, 1, 1, 0]
    assert found == pytest.approx(made.clipped_sum(theta, X[present], y[present]), abs=1e-12)
