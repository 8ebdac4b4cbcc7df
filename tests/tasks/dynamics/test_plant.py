"""A plant with delayed inputs against an integrator that knows no matrix exponential."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from parley.errors import SettingError
from parley.tasks.dynamics import Plant
from parley_lab.papers.zawacki2024.delayed_control import PERIOD, ROTOR


def integrated(plant: Plant, start, inputs, moment: float):
    """x(moment) by Runge-Kutta over every stretch in which no input changes."""

    def input_at(t: float, i: int) -> float:
        k = int(np.floor((t - plant.delays[i]) / plant.period))
        return inputs[k, i] if 0 <= k < len(inputs) else 0.0

    jumps = {0.0, moment} | {d + k * plant.period for d in plant.delays for k in range(len(inputs) + 1)}
    edges = sorted(t for t in jumps if 0 <= t <= moment)
    state = np.asarray(start, dtype=float)
    for a, b in pairwise(edges):
        held = np.array([input_at((a + b) / 2, i) for i in range(len(plant.delays))])
        solved = solve_ivp(lambda t, x, u=held: plant.A @ x + plant.B @ u, (a, b), state, rtol=1e-11, atol=1e-12)
        state = solved.y[:, -1]
    return state


@pytest.mark.parametrize("delay", [0.0, 0.3, 1.0, 2.0, [0.4, 1.7], [1.0, 0.0]])
def test_the_simulation_is_exact_between_samples_too(delay):
    plant = Plant.of([[-0.2, 1.0], [-1.5, -0.1]], [[1.0, 0.5], [0.0, 1.0]], delay, 1.0)
    inputs = np.random.default_rng(1).normal(size=(5, 2))
    states = plant.simulate([1.0, -1.0], inputs, substeps=4)
    for at in (1, 3, 7, 10, 17, 20):
        assert states[at] == pytest.approx(integrated(plant, [1.0, -1.0], inputs, at / 4), abs=1e-8)
    sampled = plant.simulate([1.0, -1.0], inputs)
    assert sampled == pytest.approx(states[::4], abs=1e-12)


def test_published_blocks():
    A_d, B_d = ROTOR.at_once()
    assert A_d == pytest.approx(np.array([[-0.589, 0.809], [-0.809, -0.589]]), abs=6e-4)
    assert B_d == pytest.approx(np.array([[-0.709, 2.153], [-2.179, 2.914]]), abs=6e-4)
    upper_right = ROTOR.delayed(1.5 * PERIOD).sampled(2)[1][0, -1]
    assert upper_right == pytest.approx(1.97, abs=5e-3)  # printed as 1.70


def test_a_singular_plant_needs_no_inverse():
    integrator = Plant.of([[0.0]], [[1.0]], 0.25, 1.0)
    assert integrator.sampled()[1] == pytest.approx(np.array([[0.75, 0.25]]))


@pytest.mark.parametrize(
    ("A", "B", "delay", "period"),
    [
        ([[1, 2]], [[1]], 0, 1),
        ([[1]], [[1]], -1, 1),
        ([[1]], [[1]], float("nan"), 1),
        ([[1]], [[1]], 0, 0),
        ([[np.inf]], [[1]], 0, 1),
    ],
)
def test_impossible_plants_are_refused(A, B, delay, period):
    with pytest.raises(SettingError):
        Plant.of(A, B, delay, period)
