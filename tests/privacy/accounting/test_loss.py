"""Privacy loss distributions.

Premise F8.
"""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_laws import LAPLACE
from scipy import stats

from parley.errors import SettingError
from parley.privacy.accounting.pairs import Pair, delta_at, epsilon_at, from_curve, make_stable_law
from parley.privacy.accounting.releases import amplified, loss_distribution
from parley.privacy.events import GaussianEvent, LaplaceEvent, PureEvent
from parley.privacy.mechanisms.gaussian import gaussian_delta

EPSILON = np.array([0.0, 0.05, 0.3, 1.0, 2.0, 4.0])


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 5))
def test_the_gaussian_curve_is_the_closed_form(shift):
    curve, _ = Pair(make_stable_law(2.0), shift / 2).curve()
    exact = [gaussian_delta(e, shift / math.sqrt(2)) for e in EPSILON]
    np.testing.assert_allclose(curve(EPSILON), exact, atol=1e-14)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 5))
def test_the_laplace_curve_is_the_closed_form(shift):
    curve, largest = Pair(LAPLACE, shift / 2).curve()
    np.testing.assert_allclose(curve(EPSILON), np.maximum(0, -np.expm1((EPSILON - shift) / 2)), atol=1e-13)
    assert largest == pytest.approx(shift)


@pytest.mark.parametrize("alpha", [1.0, 1.4, 1.9, 1.999])
@pytest.mark.parametrize("sampling", [1.0, 0.2])
def test_the_stable_curve_is_the_hockey_stick_integral(alpha, sampling):
    pair = Pair(make_stable_law(alpha), 0.6, sampling)
    curve, largest = pair.curve()
    x = np.sinh(np.linspace(-16, 16, 400_001))
    law = pair.law.log_pdf
    p = (1 - sampling) * np.exp(law(x)) + sampling * np.exp(law(x - 0.6))
    q = (1 - sampling) * np.exp(law(x)) + sampling * np.exp(law(x + 0.6))
    for epsilon in (0.0, 0.1 * largest, 0.5 * largest, 0.9 * largest, 1.01 * largest):
        integral = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x)
        assert float(curve(np.array([epsilon]))[0]) == pytest.approx(float(integral), abs=1e-7)


@pytest.mark.parametrize("interval", [1e-3, 1e-4])
def test_one_release_is_reported_from_above_and_within_1e_4(interval):
    gaussian = loss_distribution(GaussianEvent(0.8), interval)
    laplace = from_curve(*Pair(LAPLACE, 0.5 / 1.3).curve(), interval)
    for epsilon in (0.1, 0.5, 0.7512, 2.0):
        exact = gaussian_delta(epsilon, 1.25)
        assert exact <= delta_at(gaussian, epsilon) <= exact + 1e-4
        exact = max(0.0, -math.expm1((epsilon - 1 / 1.3) / 2))
        assert exact <= delta_at(laplace, epsilon) <= exact + 1e-4


@pytest.mark.parametrize(("rate", "half"), [(0.5, 0.7), (0.1, 1.5), (0.02, 0.4)])
def test_opposite_moves_of_full_length_are_the_worst_that_a_drawn_record_and_its_replacement_can_make(rate, half):
    """delta by quadrature in two dimensions, for moves of any direction and length; parallel moves, the mutant, are far
    better hidden."""
    x, y = np.meshgrid(np.linspace(-9, 9, 401), np.linspace(-9, 9, 401))
    cell, rng = (18 / 400) ** 2, np.random.default_rng(2)

    def law(move):
        return np.exp(-((x - move[0]) ** 2 + (y - move[1]) ** 2) / 2) / (2 * math.pi) * cell

    def deltas(u, v):
        p, q = ((1 - rate) * law((0, 0)) + rate * law(move) for move in (u, v))
        return np.array([np.maximum(p - math.exp(e) * q, 0).sum() for e in epsilons])

    epsilons = [0.0, 0.05, 0.3, 1.0]
    curve, _ = Pair(make_stable_law(2.0), half * 2**0.5, rate).curve()  # its scale is the deviation over sqrt(2)
    worst = curve(np.array(epsilons))
    assert deltas((half, 0), (-half, 0)) == pytest.approx(worst, abs=1e-4)  # a sum over a grid
    for _ in range(40):
        angle, lengths = (
            rng.uniform(0, 2 * math.pi),
            half * np.maximum(rng.choice([1.0, 1.0, 0.5], 2), rng.uniform(0, 1, 2)),
        )
        found = deltas((lengths[0], 0), lengths[1] * np.array([math.cos(angle), math.sin(angle)]))
        assert (found <= worst + 1e-4).all()
    assert deltas((half, 0), (half / 2, 0))[0] < 0.5 * worst[0]


@pytest.mark.parametrize(("sampling", "sigma", "steps"), [(0.01, 1.0, 1000), (0.1, 3.0, 100), (1.0, 20.0, 500)])
def test_gaussian_releases_agree_with_dp_accounting(sampling, sigma, steps):
    """dp-accounting's replace-one pair has a sensitivity of 1 to each side; ours is the distance between the two."""
    ours = loss_distribution(GaussianEvent(sigma / 2, sampling=sampling), 1e-3).self_compose(steps)
    theirs = reference.from_gaussian_mechanism(
        sigma,
        sampling_prob=sampling,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
        value_discretization_interval=1e-3,
    ).self_compose(steps)
    assert ours.get_epsilon_for_delta(1e-5) == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=1e-3)


@settings(max_examples=15, deadline=None)
@given(st.floats(1, 10), st.integers(1, 100), st.integers(0, 3000))
def test_composed_gaussians_are_reported_from_above(multiplier, count, place):
    distribution = loss_distribution(GaussianEvent(multiplier), 1e-3).self_compose(count)
    epsilon = place * 1e-3
    assert gaussian_delta(epsilon, math.sqrt(count) / multiplier) <= delta_at(distribution, epsilon)


def test_a_delta_below_the_numerical_error_is_refused():
    distribution = loss_distribution(GaussianEvent(1.0), 1e-3)
    assert epsilon_at(distribution, 1e-6) > 0
    with pytest.raises(SettingError, match="error in delta is 1e-12"):
        epsilon_at(distribution, 1e-12)
    with pytest.raises(SettingError, match="error in delta is 2e-10"):
        epsilon_at(distribution, 1e-9, compositions=10**6)


@pytest.mark.parametrize(("epsilon", "count"), [(0.02, 10_000), (0.02, 30_000)])
def test_randomised_response_composed_is_reported_from_above(epsilon, count):
    """Against the exact binomial sum at several eps."""
    distribution = loss_distribution(PureEvent(1 / epsilon), 1e-3).self_compose(count)
    k = np.arange(count + 1)
    log_p = stats.binom.logpmf(k, count, 1 / (1 + math.exp(-epsilon)))
    loss = epsilon * (2 * k - count)
    for asked in (0.0, 2.0, 10.0):
        exact = float(np.sum(np.exp(log_p[loss > asked]) * -np.expm1(asked - loss[loss > asked])))
        assert min(exact, 1.0) <= delta_at(distribution, asked, count)


@pytest.mark.parametrize("half_shift", [0.05, 0.5, 9.1, 92.0, 901.0, 5e4])
def test_the_cauchy_curve_is_found_for_shifts_of_any_size(half_shift):
    """P(A) - e^eps Q(A) over the interval where the loss exceeds eps, in closed form."""
    curve, largest = Pair(make_stable_law(1.0), half_shift).curve()
    peak = 2 * math.asinh(half_shift)
    assert largest == pytest.approx(peak, rel=1e-9)
    for share in (0.05, 0.5, 0.99, 0.9999):
        with mpmath.workdps(40):
            c, e = mpmath.mpf(half_shift), mpmath.e ** (mpmath.mpf(share) * 2 * mpmath.asinh(half_shift))
            # (1 + (x + c)^2)/(1 + (x - c)^2) = e: a quadratic in x
            half, last = c * (1 + e) / (e - 1), 1 + c**2
            low, high = half - mpmath.sqrt(half**2 - last), half + mpmath.sqrt(half**2 - last)
            mass = [(mpmath.atan(high - s) - mpmath.atan(low - s)) / mpmath.pi for s in (c, -c)]
            exact = float(mass[0] - e * mass[1])
        reported = float(curve(np.array([share * peak]))[0])
        assert reported == pytest.approx(exact, abs=1e-10, rel=1e-9)
        assert reported >= exact - 1e-13


def test_amplification_by_sampling():
    assert amplified(1.0, 1.0) == 1.0
    assert amplified(1.0, 0.1) == pytest.approx(math.log(1 + 0.1 * (math.e - 1)))
    assert amplified(1000.0, 0.5) == pytest.approx(1000 + math.log(0.5))


def test_a_pure_vector_release_is_covered_whatever_its_direction():
    """Laplace noise on m coordinates, the difference spread over them: never above the randomised response that stands
    in for it."""
    stand_in = loss_distribution(LaplaceEvent(1.0), 1e-3)
    for m in (1, 2, 5, 20):
        spread = from_curve(*Pair(LAPLACE, 0.5 / m).curve(), 1e-4).self_compose(m)
        for epsilon in (0.0, 0.2, 0.5, 0.9):
            assert spread.get_delta_for_epsilon(epsilon) <= stand_in.get_delta_for_epsilon(epsilon) + 1e-12


def test_mutants_with_half_the_noise_exceed_the_reported_delta():
    for alpha in (1.5, 1.9, 2.0):
        honest, largest = Pair(make_stable_law(alpha), 0.25).curve()
        mutant, _ = Pair(make_stable_law(alpha), 0.5).curve()
        epsilon = np.array([0.5 * min(largest, 1.0)])
        assert mutant(epsilon)[0] > 1.5 * honest(epsilon)[0]


def test_composition_of_simulated_losses_matches():
    """10,000 sums of 20 simulated stable losses against the composed distribution, at several eps, in standard
    errors."""
    pair = Pair(make_stable_law(1.8), 0.2)
    curve, largest = pair.curve()
    composed = from_curve(curve, largest, 1e-3).self_compose(20)
    from parley.privacy.mechanisms.stable_law import sample

    x = sample(1.8, 1.0, (40_000, 20), np.random.default_rng(1)) + 0.2
    loss = pair.loss(x.ravel()).reshape(x.shape).sum(axis=1)
    for epsilon in (0.2, 0.8, 1.5):
        estimate = np.maximum(0, -np.expm1(epsilon - loss))
        error = estimate.std() / 200
        assert abs(estimate.mean() - composed.get_delta_for_epsilon(epsilon)) < 4.5 * error + 1e-4
    assert stats.kurtosis(loss) < 5
