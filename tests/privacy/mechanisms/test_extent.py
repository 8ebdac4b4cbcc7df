import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from parley.errors import GuaranteeError
from parley.privacy.mechanisms import Extent, FastNoise, Gaussian, Laplace, SafeNoise
from parley.privacy.mechanisms.exact_samplers import widened_scale

NOISES = [Laplace(2.0, 0.5), Gaussian(3.0, 0.5)]


@pytest.mark.parametrize("d", [1, 3, 40, 100_000])
@pytest.mark.parametrize("p", [1e-12, 1e-3])
def test_tails_are_those_of_the_laws(p, d):
    laplace, normal = NOISES
    drawn = 2.0 if d < 16 else widened_scale(2.0, 0.5, d)[0] * 2.0 ** widened_scale(2.0, 0.5, d)[1]
    assert d * math.exp(-laplace.tail(p, d) / drawn) == pytest.approx(p, rel=1e-6)
    assert stats.gamma(d).sf(laplace.norm_tail(p, d) / drawn) == pytest.approx(p, rel=1e-6)
    assert 2 * d * stats.norm.sf(normal.tail(p, d) / 3.0) == pytest.approx(p, rel=1e-6)
    assert stats.chi(d).sf(normal.norm_tail(p, d) / 3.0) == pytest.approx(p, rel=1e-6)


def test_noise_on_long_vectors_is_drawn_wider_and_its_tail_knows():
    """A sensitivity that is tiny beside the scale: rounding to the sampler's grid is then paid for by a scale well
    above the asked one."""
    tight = Laplace.calibrate(Fraction(1, 10**10), 1.0)
    d = 2000
    assert tight.tail(1e-12, d) > 1.1 * tight.scale * math.log(d / 1e-12)
    noise = np.concatenate([SafeNoise().laplace(np.zeros(d), tight.scale, tight.sensitivity) for _ in range(20)])
    # the mean size of Laplace noise is its scale, and so is its deviation
    assert np.abs(noise).mean() == pytest.approx(
        tight.tail(1e-3, d) / math.log(d / 1e-3), rel=5 / math.sqrt(noise.size)
    )


def share_outside(extent, released):
    return np.mean([not extent.holds(row) for row in released])


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("d", [1, 5])
def test_values_at_the_bound_are_refused_no_more_often_than_said(noise, d):
    """At a probability that can be counted. A mutant that allows for half of the noise refuses too many."""
    p, draws, fast = 0.02, 8000, FastNoise(7)
    value = np.zeros(d)
    value[0] = 10.0  # wholly in one coordinate: that one, and the norm, stand at the bound
    exact = Extent(-10.0, 10.0, 10.0, noise.norm)
    released = np.broadcast_to(value, (draws, d)).copy()
    released = (
        fast.laplace(released, noise.scale, 0.5) if isinstance(noise, Laplace) else fast.gaussian(released, noise.sigma)
    )
    error = 4 * math.sqrt(p / draws)
    assert share_outside(exact.noisy(noise, d, p), released) <= p + error
    mutant = Laplace(noise.scale / 2, 0.5) if isinstance(noise, Laplace) else Gaussian(noise.sigma / 2, 0.5)
    assert share_outside(exact.noisy(mutant, d, p), released) > p + error


def test_nothing_overflows_and_nothing_that_is_no_number_is_held():
    wide = Extent(-1e200, 1e200, 1e200, "l2").noisy(Gaussian(1.0, 1.0), 3, 1e-12)
    assert wide.holds(np.array([1e200, 0.0, 0.0]))
    assert not wide.holds(np.array([1e200, 1e200, 0.0]))
    assert not Extent(-1.0, 1.0, 1.0, "l1").holds(np.full(3, 1e308))
    assert not Extent(-1.0, 1.0, 1.0, "l1").holds(np.array([math.nan, 0.0]))
    tiny = Extent(-1e-200, 1e-200, 1e-200, "l2")
    assert tiny.holds(np.array([1e-200, 0.0]))
    assert not tiny.holds(np.array([1e-200, 1e-200]))


def test_an_extent_in_one_norm_is_no_use_for_noise_of_another():
    with pytest.raises(GuaranteeError, match="in L2"):
        Extent(-1.0, 1.0, 1.0, "l2").noisy(Laplace(1.0, 1.0), 3, 1e-12)
