import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.errors import SettingError
from parley.privacy.accounting.meaning import (
    approximate_posterior,
    belief_bound,
    epsilon_for_belief,
    error_tradeoff,
    least_total_error,
    min_entropy_leakage,
    posterior_bounds,
)

epsilons, priors = st.floats(0, 20), st.floats(0.001, 0.999)


def test_the_textbook_posterior():
    low, high = posterior_bounds(1.0, 0.5)
    assert (round(low, 2), round(high, 2)) == (0.27, 0.73)


@given(epsilons, priors)
def test_posterior_bounds_are_the_published_formula_and_contain_the_prior(epsilon, prior):
    low, high = posterior_bounds(epsilon, prior)
    e = math.exp(epsilon)
    assert low == pytest.approx(prior / (e + (1 - e) * prior), rel=1e-9)
    assert high == pytest.approx(e * prior / (1 + (e - 1) * prior), rel=1e-9)
    assert low <= prior + 1e-12
    assert prior <= high + 1e-12


@given(epsilons, priors)
def test_randomised_response_reaches_the_posterior_bound(epsilon, prior):
    p = 1 / (1 + math.exp(-epsilon))
    after = prior * p / (prior * p + (1 - prior) * (1 - p))
    assert after == pytest.approx(posterior_bounds(epsilon, prior)[1], rel=1e-9)


@given(epsilons, st.floats(0, 0.1), st.floats(0, 1))
def test_no_attack_lies_below_the_error_curve(epsilon, delta, rate):
    miss = float(error_tradeoff(epsilon, delta, rate))
    assert math.exp(epsilon) * rate + miss >= 1 - delta - 1e-9
    assert rate + miss >= least_total_error(epsilon, delta) - 1e-9
    assert 0 <= miss <= 1


def test_the_error_curve_touches_its_least_sum():
    epsilon = 1.3
    x = np.linspace(0, 1, 100_001)
    total = x + error_tradeoff(epsilon, 0.0, x)
    assert total.min() == pytest.approx(least_total_error(epsilon), rel=1e-4)
    assert least_total_error(0.0) == 1.0


def test_with_delta_the_bounds_are_wider_and_may_fail_rarely():
    low, high, failure = approximate_posterior(1.0, 1e-6, 0.5)
    assert (low, high) == posterior_bounds(2.0, 0.5)
    assert failure == pytest.approx(2e-6 / (1 - math.exp(-1)))


@given(epsilons, st.integers(1, 5), st.integers(2, 50))
def test_min_entropy_leakage_is_the_published_formula_and_at_most_everything(epsilon, individuals, values):
    bits = min_entropy_leakage(epsilon, individuals, values)
    e = math.exp(epsilon)
    assert bits == pytest.approx(individuals * math.log2(values * e / (values - 1 + e)), abs=1e-9)
    assert 0 <= bits <= individuals * math.log2(values) + 1e-12


@given(st.floats(0.01, 10), st.integers(2, 1000), st.floats(0.1, 10), st.floats(0.1, 10))
def test_the_belief_bound_and_the_epsilon_it_permits_invert_each_other(epsilon, people, difference, sensitivity):
    belief = belief_bound(epsilon, people, difference, sensitivity)
    if belief < 1 - 1e-9:
        assert epsilon_for_belief(belief, people, difference, sensitivity) == pytest.approx(epsilon, rel=1e-5)
    assert belief >= 1 / people


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: posterior_bounds(1.0, 0.0), "prior = 0"),
        (lambda: posterior_bounds(float("nan"), 0.5), "epsilon = nan"),
        (lambda: error_tradeoff(1.0, 0.0, 1.5), "false_positive"),
        (lambda: epsilon_for_belief(0.1, 5), "blind guess"),
        (lambda: min_entropy_leakage(1.0, 1, 1), "values = 1"),
    ],
)
def test_impossible_questions_are_one_sentence(call, message):
    with pytest.raises(SettingError, match=message):
        call()
