"""Whether noise is of the claimed law: exact intervals, false alarms at the stated rate, and little of it is enough to
see a wrong one."""

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from parley.audit.served import noise_law
from parley.audit.served.noise_law import FALSE_ALARM, difference_cdf, judge_noise, sum_cdf
from parley.errors import TermsError
from parley.privacy.mechanisms import Bounded, Gaussian, GridGeometric, Laplace, SafeNoise, Stable

MECHANISMS = {
    "laplace": Laplace(2.0, 1.0),
    "gaussian": Gaussian(3.0, 1.0),
    "geometric": GridGeometric(2.0, 1.0),
}


def differences(mechanism, pairs, size, rng):
    if isinstance(mechanism, Gaussian):
        drawn = rng.normal(scale=3.0, size=(2, pairs, size))
    else:
        drawn = rng.laplace(scale=2.0, size=(2, pairs, size))
    return drawn[1] - drawn[0]


def test_the_laws_of_differences_and_of_their_sums_are_those_of_draws():
    rng = np.random.default_rng(0)
    drawn = np.abs(np.subtract(*rng.laplace(size=(2, 4000, 5))))
    assert kstest(drawn[:, 0] * rng.choice([-1, 1], 4000), difference_cdf).pvalue > 1e-3
    assert kstest(drawn.sum(axis=1), lambda at: np.array([sum_cdf(each, 5) for each in at])).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_honest_noise_is_called_another_as_seldom_as_is_said(kind):
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(150):
        alarms += not judge_noise(differences(MECHANISMS[kind], 3, 4, rng), MECHANISMS[kind]).holds
    assert binomtest(alarms, 150, FALSE_ALARM, "greater").pvalue > 1e-3


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noise_below_what_is_said_to_be_noticed_is(kind):
    rng, mechanism = np.random.default_rng(3), MECHANISMS[kind]
    noticed = judge_noise(differences(mechanism, 20, 4, rng), mechanism).noticed
    assert 0.4 < noticed < 0.8
    assert all(judge_noise(noticed * differences(mechanism, 20, 4, rng), mechanism).too_small for _ in range(100))


@pytest.mark.parametrize("kind", MECHANISMS)
def test_released_noise_is_of_its_law_and_half_of_it_is_seen_at_once(kind, monkeypatch):
    monkeypatch.setattr(noise_law, "FALSE_ALARM", 1e-9)  # these samplers have no seed
    mechanism, noise = MECHANISMS[kind], SafeNoise()
    bounded = Bounded(np.zeros(50), 1.0, mechanism.norm)
    seen = np.array([mechanism.release(bounded, noise) - mechanism.release(bounded, noise) for _ in range(10)])
    verdict = judge_noise(seen, mechanism)
    assert verdict.holds
    assert verdict.numbers == 500
    assert verdict.lowest < verdict.scale < verdict.highest < 2 * verdict.lowest
    halved = judge_noise(seen / 2, mechanism)
    assert halved.too_small
    assert halved.to_json()["holds"] is False
    assert not judge_noise(2 * seen, mechanism).holds
    assert not judge_noise(2 * seen, mechanism).too_small


def test_noise_of_another_law_and_of_an_unknown_one():
    rng = np.random.default_rng(2)
    seen = np.sign(rng.normal(size=(40, 10))) * 3.0  # of the same mean size
    verdict = judge_noise(seen, MECHANISMS["laplace"])
    assert verdict.lowest < verdict.scale < verdict.highest
    assert not verdict.shaped
    with pytest.raises(TermsError, match="mechanism"):
        judge_noise(seen, Stable(1.0, 1.0, 1.0))
