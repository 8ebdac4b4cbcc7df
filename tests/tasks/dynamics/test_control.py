"""Feedback that minds the delay."""

from itertools import pairwise

import numpy as np
import pytest

from parley.errors import SettingError
from parley.tasks.dynamics import (
    DelayedQuadratic,
    Plant,
    PredictiveFeedback,
    closed_loop,
    linear_quadratic,
    pole_placement,
)
from parley_lab.papers.zawacki2024.delayed_control import runs

ROTOR = Plant.of([[0, 1.1], [-1.1, 0]], [[1, -1], [-1, 2]], 3.1, 2.0)


@pytest.mark.parametrize("delay", [0.0, 2.0, 2.5, 3.1, 5.9])
def test_with_the_true_delay_the_loop_is_that_of_the_plant_without_one(delay):
    plant = ROTOR.delayed(delay)
    A_d, B_d = plant.at_once()
    gain = pole_placement(A_d, B_d, [0.5, 0.3])
    assert np.sort(np.linalg.eigvals(A_d - B_d @ gain).real) == pytest.approx([0.3, 0.5])
    substeps = 20  # the input of sample k arrives at a multiple of a tenth
    states, _ = closed_loop(plant, PredictiveFeedback(plant, gain), [1, -1], 12, substeps)
    arrival = round(delay / plant.period * substeps)
    met = states[arrival::substeps]
    for now, then in pairwise(met):
        assert then == pytest.approx((A_d - B_d @ gain) @ now, abs=1e-9)


def test_the_truncated_controller_fails_at_one_and_a_half_periods():
    last = {
        run.delay: (np.linalg.norm(run.fractional[-1]), np.linalg.norm(run.truncated[-1]))
        for run in runs(horizon=60, substeps=1)
    }
    assert all(fractional < 1e-9 for fractional, _ in last.values())
    assert last[1.0][1] < 1e-9
    assert 1e-9 < last[1.25][1] < 0.1  # slower
    assert last[1.5][1] > 2  # grows from 1.41


def test_different_delays_are_planned_together():
    plant = ROTOR.delayed([0.5, 3.3])
    states, _ = closed_loop(plant, DelayedQuadratic.of(plant), [1, 1], 60)
    assert np.linalg.norm(states[-1]) < 1e-6
    with pytest.raises(SettingError, match="DelayedQuadratic"):
        PredictiveFeedback(plant, np.zeros((2, 2)))


def test_a_quadratic_plan_costs_no_more_than_predictive_feedback():
    plant = ROTOR
    cost = {}
    for controller in (DelayedQuadratic.of(plant), PredictiveFeedback(plant, linear_quadratic(*plant.at_once()))):
        states, inputs = closed_loop(plant, controller, [1, 1], 80)
        cost[type(controller).__name__] = (states**2).sum() + (inputs**2).sum()
    assert cost["DelayedQuadratic"] < cost["PredictiveFeedback"]


def test_what_no_input_moves_cannot_be_stabilised():
    with pytest.raises(SettingError, match="no gain"):
        linear_quadratic(np.diag([1.5, 0.5]), np.array([[0.0], [1.0]]))
