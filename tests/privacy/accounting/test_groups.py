"""What several records together are promised by a release that is (eps, delta)-DP for one."""

import math

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from parley.privacy.accounting.meaning import gaussian_group_delta, group_delta
from parley.privacy.mechanisms.gaussian import gaussian_ratio


def apart(epsilon, shift):
    """The integral of (p - e^eps q)+ of two normal laws this far apart, by quadrature."""
    low = epsilon / shift + shift / 2
    return quad(lambda x: norm.pdf(x - shift) - math.exp(epsilon) * norm.pdf(x), low, low + 40, epsabs=1e-16)[0]


@pytest.mark.parametrize(
    ("epsilon", "records", "expected"), [(3.0, 2, 7.7e-6), (3.0, 5, 6.3e-4), (3.0, 10, 0.063), (1.0, 10, 4.8e-4)]
)
def test_delta_of_several_records_grows_as_normal_laws_say(epsilon, records, expected):
    shift = 1 / gaussian_ratio(epsilon, 1e-6)
    said = gaussian_group_delta(epsilon, shift, records)
    assert said == pytest.approx(expected, rel=0.01)
    assert said >= apart(records * epsilon, records * shift) * (1 - 1e-7)
    assert 1e-6 < said <= group_delta(epsilon, 1e-6, records)


def test_the_bound_of_any_noise_is_reached_by_a_chain_of_steps():
    """Of each step e^eps q + delta."""
    reached = 0.0
    for records in range(1, 6):
        reached = math.exp(0.7) * reached + 1e-5
        assert group_delta(0.7, 1e-5, records) == pytest.approx(reached, rel=1e-11)


def test_one_record_is_promised_what_it_was_and_many_nothing():
    assert group_delta(2.0, 1e-6, 1) == pytest.approx(1e-6, rel=1e-11)
    assert gaussian_group_delta(2.0, 1 / gaussian_ratio(2.0, 1e-6), 1) == pytest.approx(1e-6, rel=1e-8)
    assert group_delta(2.0, 1e-6, 12) == 1
    assert group_delta(2.0, 1e-6, 10**9) == 1
