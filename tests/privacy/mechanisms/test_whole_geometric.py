"""Geometric noise on counts that travel as shares: the counts come back whole, and the noise has the exact law."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from parley.errors import GuaranteeError, SettingError
from parley.privacy.accounting.releases import pure_epsilon
from parley.privacy.mechanisms import Bounded, FastNoise, SafeNoise
from parley.privacy.mechanisms.geometric import MAX_RECORDS, WholeGeometric, whole_counts


@pytest.mark.parametrize("records", [1, 3, 49, 10**6 + 3, 2**46 - 1])
def test_counts_come_back_from_their_shares(records):
    counts = np.unique(np.random.default_rng(1).integers(0, records + 1, 2000))
    assert whole_counts(counts / records, records).tolist() == counts.tolist()


@pytest.mark.parametrize(("noise", "draws"), [(FastNoise(3), 100_000), (SafeNoise(), 10_000)])
def test_released_shares_are_whole_counts_with_the_claimed_law(noise, draws):
    mechanism = WholeGeometric.calibrate(Fraction(1), 0.02, moved=2, records=100)
    assert pure_epsilon(mechanism.event) <= 1
    released = mechanism.release(Bounded(np.full(draws, 0.3), 0.02, "l1"), noise) * 100 - 30
    k = np.rint(released)
    np.testing.assert_allclose(released, k, atol=1e-9)
    places = np.arange(-10, 11)
    q = math.exp(-1 / mechanism.scale)
    pmf = (1 - q) / (1 + q) * q ** np.abs(places)
    seen = [*(np.sum(k == place) for place in places), np.sum(np.abs(k) > 10)]
    assert stats.chisquare(seen, draws * np.append(pmf, 1 - pmf.sum())).pvalue > 1e-6
    half = q**2  # the law of half the noise
    wrong = (1 - half) / (1 + half) * half ** np.abs(places)
    assert stats.chisquare(seen, draws * np.append(wrong, 1 - wrong.sum())).pvalue < 1e-12
    assert mechanism.variance == pytest.approx(2 * q / (1 - q) ** 2 / 100**2)
    assert np.abs(released / 100).max() < mechanism.tail(1e-9, draws)
    assert np.abs(released / 100).sum() < mechanism.norm_tail(1e-9, draws)


def test_no_outcome_is_more_than_e_to_the_epsilon_likelier_and_half_the_noise_is_too_little():
    mechanism = WholeGeometric.calibrate(Fraction(1, 3), 0.02, moved=2, records=100)
    unit, steps = mechanism.grid(5)
    assert unit * steps == pytest.approx(mechanism.noise_scale)
    assert 2 / steps <= 1 / 3 < 2 / (steps / 2)
    assert mechanism.rounding(5) == 0


def test_what_is_no_count_is_refused():
    mechanism = WholeGeometric.calibrate(Fraction(1), 0.01, moved=1, records=100)
    with pytest.raises(GuaranteeError, match="integer counts"):
        mechanism.release(Bounded(np.array([0.305]), 0.01, "l1"), FastNoise(0))
    with pytest.raises(GuaranteeError, match="calibrate the mechanism again"):
        mechanism.release(Bounded(np.array([0.3]), 0.02, "l1"), FastNoise(0))
    with pytest.raises(SettingError, match="the noise scale may each be at most"):
        WholeGeometric.calibrate(Fraction(1, 10**15), 0.01, 1, 100)
    with pytest.raises(SettingError, match="records"):
        WholeGeometric.calibrate(Fraction(1), 0.01, 1, MAX_RECORDS + 1)
