"""The same reservoir on every machine, bounded whatever drives it, and forgetful."""

import hashlib

import numpy as np
import pytest

from parley.tasks.dynamics.reservoir.recordings import STATE_DEVIATION, Features, Nodes, drawn, inverse_root
from parley.tasks.dynamics.reservoir.terms import Reservoir


def reservoir(**settings):
    return Reservoir(**{"recording": "run", "samples": 50, "washout": 10, "nodes": 12} | settings)


def test_weights_states_and_their_turn_are_known_to_the_last_bit():
    features = Features.from_reservoir(reservoir(leak=0.7), 2)
    mean, turn = features.turn
    states = features.nodes.states(drawn("a test", 3, 40, 2))
    bits = hashlib.sha256(b"".join(part.tobytes() for part in (features.nodes.weights, states, mean, turn))).hexdigest()
    assert bits == "c7e90fa78b184548ea6267c71a12f9160067d71cc0dbeec1363310dd8f2ca319"


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_states_and_features_lie_within_one_whatever_drives_them(scale):
    features = Features.from_reservoir(reservoir(input_scale=scale, spectral_radius=0.999), 1)
    rng = np.random.default_rng(0)
    driven = rng.choice([-1.0, 1.0, 0.0, 1e-320, -1e-50], size=(5, 60, 1))
    for found in (features.nodes.states(driven), features.rows(driven)):
        assert np.isfinite(found).all()
        assert np.abs(found).max() <= 1


def test_what_a_state_began_with_is_forgotten_at_the_stated_rate():
    nodes = Nodes(reservoir(leak=0.5, spectral_radius=0.8), 1)
    rng = np.random.default_rng(1)
    before = rng.uniform(-1, 1, (2, 1, 12))
    gap = np.linalg.norm(before[0] - before[1])
    for _ in range(30):
        u = rng.uniform(-1, 1, (1, 1))
        before = np.stack([nodes._next(each, u) for each in before])
        after = np.linalg.norm(before[0] - before[1])
        assert after <= gap * (1 - 0.5 * (1 - 0.8)) + 1e-14
        gap = after


def test_a_recordings_features_are_the_same_to_the_bit_whatever_stands_beside_it():
    features, rng = Features.from_reservoir(reservoir(), 1), np.random.default_rng(2)
    own = rng.uniform(-1, 1, (1, 50, 1))
    alone = features.rows(own)[0]
    for others, samples in ((1, 50), (4, 50), (17, 50), (3, 7), (5, 333)):
        beside = rng.uniform(-1, 1, (others, samples, 1))
        np.testing.assert_array_equal(features.rows([*beside, *own])[-1], alone)


def test_made_up_inputs_move_every_turned_state_about_alike():
    features = Features.from_reservoir(reservoir(), 1)
    rows = np.stack(features.rows(np.random.default_rng(3).uniform(-1, 1, (40, 300, 1))))[:, 100:, :12].reshape(-1, 12)
    raw = features.nodes.states(np.random.default_rng(3).uniform(-1, 1, (40, 300, 1)))[:, 100:].reshape(-1, 12)
    turned, plain = (np.linalg.eigvalsh(np.cov(each.T)) for each in (rows, raw))
    assert turned[-1] < 1.2 * STATE_DEVIATION**2
    assert turned[-1] / turned[0] < plain[-1] / plain[0] / 10


def test_the_inverse_root_is_one():
    rng = np.random.default_rng(4)
    half = rng.normal(size=(9, 9))
    root = inverse_root(half @ half.T)
    np.testing.assert_allclose(root @ half @ half.T @ root.T, np.eye(9), atol=1e-9)
    assert np.array_equal(root, np.tril(root))
