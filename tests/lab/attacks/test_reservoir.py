"""An owner's series from the sums that it sends for an echo-state network: all of it without noise, nothing with."""

import numpy as np
import pytest

from parley.errors import SettingError
from parley.privacy.mechanisms import FastNoise
from parley_lab.attacks.reconstruction import descend, minimise, read_off, search
from parley_lab.attacks.reservoir import Reservoir, Sums, noisy_sums, private_sums, read_out, sums_sensitivity

SERIES = 5 * np.sin(np.arange(1, 21) ** 2 / 60)


def test_a_reservoir_is_as_asked_for_and_its_states_stay_within_one():
    reservoir = Reservoir.make(3)
    assert np.abs(np.linalg.eigvals(reservoir.W)).max() == pytest.approx(0.9)
    assert (reservoir.W == 0).mean() == pytest.approx(0.8, abs=5 * (0.8 * 0.2 / 1e4) ** 0.5)
    rows = reservoir.rows(1e3 * np.random.default_rng(0).normal(size=50))
    assert np.abs(rows[:, 2:]).max() <= 1 + 1e-15
    assert np.allclose(reservoir.next_rows(rows[3, 2:], np.array([rows[4, 1]])), rows[4])


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_is_that_of_finite_differences(seed):
    rng = np.random.default_rng(seed)
    reservoir, sent = Reservoir.make(seed, nodes=30), Reservoir.make(seed, nodes=30).sums(SERIES)
    u, small = 3 * rng.normal(size=len(SERIES)), 1e-5
    _, gradient = reservoir.misfit(u, sent)
    moved = [
        reservoir.misfit(u + small * way, sent)[0] - reservoir.misfit(u - small * way, sent)[0] for way in np.eye(20)
    ]
    assert np.abs(np.array(moved) / (2 * small) - gradient).max() < 1e-7 * np.abs(gradient).max()
    A, B = reservoir.sums(u).A - sent.A, reservoir.sums(u).B - sent.B
    assert reservoir.misfit(u, sent)[0] == pytest.approx(A @ A + (np.triu(B) ** 2).sum())


def test_the_read_out_of_sums_is_that_of_all_rows_together():
    reservoir, rng = Reservoir.make(0, nodes=20), np.random.default_rng(1)
    owners = [rng.normal(size=40) for _ in range(3)]
    rows, targets = np.concatenate([reservoir.rows(u) for u in owners]), np.concatenate([u[1:] for u in owners])
    together = np.linalg.solve(rows.T @ rows + 3 * 0.1 * np.eye(22), rows.T @ targets)
    assert np.allclose(read_out([reservoir.sums(u) for u in owners], 0.1), together)


@pytest.mark.parametrize("seed", range(2))
def test_without_noise_the_series_is_read_off(seed):
    reservoir = Reservoir.make(seed)
    sent = reservoir.sums(SERIES)
    assert np.mean((read_off(reservoir, sent, 20, 5.0) - SERIES) ** 2) < 1e-12
    found = search(reservoir, sent, 20, 5.0, starts=1)
    assert found.error(SERIES) < 1e-12
    assert found.misfit < 1e-12


def test_descents_find_it_where_no_other_minimum_is_in_the_way():
    reservoir = Reservoir.make(0)
    sent = reservoir.sums(SERIES)
    near = SERIES + 0.3 * np.random.default_rng(0).normal(size=20)
    assert minimise(reservoir, sent, near).error(SERIES) < 1e-2
    assert search(reservoir, sent, 20, 5.0, starts=1, reads=False).misfit > 1  # it is, from zero
    with pytest.raises(SettingError):
        search(reservoir, sent, 20, 5.0, starts=0)


def test_the_printed_descent_is_as_printed():
    reservoir = Reservoir.make(1, nodes=20)
    sent, u0 = reservoir.sums(SERIES), np.zeros(20)
    u1 = u0 - 1e-8 * reservoir.misfit(u0, sent)[1]
    u2 = u1 - 1e-8 * reservoir.misfit(u1, sent)[1] - 0.1 * (u1 - u0)
    found = descend(reservoir, sent, u0, 2)
    assert np.allclose(found.path, [u0, u1, u2])
    assert np.allclose(found.u, u2)
    faster = descend(reservoir, sent, u0, 200, 1e-5, 0.9)
    assert faster.misfit < reservoir.misfit(u0, sent)[0] / 10


def test_with_noise_it_is_not_recovered():
    """Guessing zero has an error of 10; of ten reservoirs none came below 9.9 (figure 6.7)."""
    reservoir = Reservoir.make(0)
    sent = private_sums(reservoir, SERIES[None], 5.0, 1.0, 1e-5, FastNoise(0))
    assert search(reservoir, sent, 20, 5.0, starts=3).error(SERIES) > 5


def test_noise_of_an_epsilon_that_hides_nobody_leaves_the_sums():
    reservoir = Reservoir.make(0, nodes=10)
    many = np.random.default_rng(0).uniform(-6, 6, size=(400, 8))
    released = private_sums(reservoir, many, 5.0, 1e6, 1e-5, FastNoise(0))
    exact = [reservoir.sums(u) for u in np.clip(many, -5, 5)]
    assert np.abs(released.A - np.mean([each.A for each in exact], axis=0)).max() < 1e-2
    assert np.abs(released.B - np.mean([each.B for each in exact], axis=0)).max() < 1e-2
    with pytest.raises(SettingError):
        private_sums(reservoir, SERIES, 5.0, 1.0, 1e-5, FastNoise(0))


def packed(reservoir, u):
    """What is released of one series, before noise, at a reach of 1."""
    Z = reservoir.rows(u)
    rows = np.column_stack([u[1:], Z])
    i, j = np.triu_indices(rows.shape[1])
    return np.where(i == j, 1.0, np.sqrt(2)) * (rows.T @ rows / len(rows))[i, j]


def farthest(reservoir, samples, rng):
    """The farthest pair of series within the reach that hill climbing over their numbers finds."""
    best, far = rng.choice([-1.0, 0.0, 1.0], size=(2, samples)), 0.0
    for _ in range(500):
        tried = best.copy()
        place = rng.integers(2), rng.integers(samples)
        tried[place] = rng.choice([-1.0, 0.0, 1.0, 5e-324, rng.uniform(-1, 1)])
        apart = float(np.linalg.norm(packed(reservoir, tried[0]) - packed(reservoir, tried[1])))
        if apart >= far:
            best, far = tried, apart
    return far


def test_no_pair_of_series_is_farther_apart_than_the_sensitivity():
    nodes, samples = 6, 7
    width, found = nodes + 3, []
    for seed in (4, 7, 9):
        rng = np.random.default_rng(seed)
        loud = Reservoir(
            10.0 ** rng.integers(-1, 3) * rng.normal(size=(nodes, nodes)), 1e3 * rng.normal(size=nodes), 1.0
        )
        found.append(farthest(loud, samples, rng))
    assert max(found) <= sums_sensitivity(width, 1, samples)
    assert max(found) > 0.7 * sums_sensitivity(width, 1, samples)
    assert max(found) > sums_sensitivity(width, 1, samples) / np.sqrt(2)  # the mutant that forgets a second series


def test_noise_of_a_ratio_has_it():
    sent = Sums(np.ones(200), np.ones((200, 200)))
    noisy = noisy_sums(sent, 0.25, np.random.default_rng(0))
    assert np.mean((noisy.B - sent.B) ** 2) == pytest.approx(4, rel=0.05)
    assert np.array_equal(noisy.B, noisy.B.T)
