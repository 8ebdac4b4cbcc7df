import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.privacy.accounting.compose import REAL_ORDERS, WHOLE_ORDERS, sampled_divergence
from parley.privacy.accounting.releases import (
    fisher_information,
    pure_divergence,
    renyi_divergence,
    shift_divergence,
    stable_divergence,
)
from parley.privacy.events import GaussianEvent, StableEvent
from parley.privacy.mechanisms.stable_law import log_pdf

GRID = np.sinh(np.linspace(-17, 17, 300_001))


def integral(p_log, q_log, order):
    """ln int p^a q^(1 - a) / (a - 1), straight from the definition."""
    return math.log(float(np.trapezoid(np.exp(order * p_log + (1 - order) * q_log), GRID))) / (order - 1)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 1.9])
@pytest.mark.parametrize("order", [1.5, 3.0, 20.0])
def test_the_divergence_of_a_shift_is_its_integral(alpha, order):
    p, q = log_pdf(GRID - 0.8, alpha), log_pdf(GRID, alpha)
    assert shift_divergence(alpha, 0.8, np.array([order]))[0] == pytest.approx(integral(p, q, order), rel=1e-6)


def test_small_shifts_follow_the_fisher_information():
    assert fisher_information(2.0) == 0.5
    assert fisher_information(1.0) == pytest.approx(0.5, rel=1e-8)  # the Cauchy law, in closed form
    for order in (1.5, 4.0):
        small = shift_divergence(1.7, 1e-4, np.array([order]))[0] / 1e-8
        assert small == pytest.approx(order / 2 * fisher_information(1.7), rel=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([1.0, 1.5, 1.9, 1.999]), st.floats(0.2, 4), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_every_direction_is_covered(alpha, distance, direction):
    """The sum over coordinates of R_a(v_j), for mixed directions of L2 length `distance`, stays below the bound."""
    v = np.array(direction)
    if np.linalg.norm(v) < 1e-3:
        return
    v *= distance / np.linalg.norm(v)
    orders = np.array([1.3, 2.0, 8.0, 40.0])
    total = sum(shift_divergence(alpha, float(d), orders) for d in v if d > 1e-9)
    assert (total <= stable_divergence(alpha, distance, tuple(orders)) * (1 + 1e-9)).all()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_randomised_response_is_the_worst_pure_release(epsilon):
    a = np.array([1.1, 2.0, 10.0, 100.0])
    p = 1 / (1 + math.exp(-epsilon))
    exact = np.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
    np.testing.assert_allclose(pure_divergence(epsilon, a), exact, rtol=2e-9)
    tiny = pure_divergence(1e-8, a)
    np.testing.assert_allclose(tiny, a * 1e-16 / 2, rtol=1e-6)  # nothing cancels
    assert (pure_divergence(epsilon, a) <= np.minimum(epsilon, a * epsilon**2 / 2) + 1e-12).all()


@pytest.mark.parametrize(
    "event", [GaussianEvent(0.7), StableEvent(0.8, norm="l2", alpha=1.7), StableEvent(2.0, norm="l2", alpha=1.9)]
)
@pytest.mark.parametrize("sampling", [0.01, 0.1, 0.5])
def test_sampling_is_bounded_from_above_in_one_dimension(event, sampling):
    """Against the mixture pair integrated numerically: never below it, in either order of the pair."""
    normal = isinstance(event, GaussianEvent)
    alpha, scale = (2.0, event.multiplier / math.sqrt(2)) if normal else (event.alpha, event.multiplier)
    c = 0.5 / scale
    centre, up, down = (log_pdf(GRID - s * c, alpha) for s in (0, 1, -1))
    p = np.logaddexp(math.log1p(-sampling) + centre, math.log(sampling) + up)
    q = np.logaddexp(math.log1p(-sampling) + centre, math.log(sampling) + down)
    orders = np.array([2.0, 3.0, 5.0, 16.0])
    bound = sampled_divergence(replace(event, sampling=sampling), orders)
    for order, value in zip(orders, bound, strict=True):
        assert value >= integral(p, q, order) * (1 - 1e-6) - 1e-9
    assert (bound <= renyi_divergence(event, orders) * (1 + 1e-12)).all()


def test_sampling_half_as_often_leaks_less():
    events = [GaussianEvent(1.0, sampling=q) for q in (0.2, 0.1, 0.05, 0.01)]
    values = [sampled_divergence(event, WHOLE_ORDERS)[3] for event in events]
    assert (np.diff(values) < 0).all()
    assert (np.diff(REAL_ORDERS) > 0).all()
