"""Whether noise comes again: independent noise is blamed as seldom as is said, and one repeat is enough to be seen."""

import numpy as np
import pytest

from parley.audit.served.noise_law import FALSE_ALARM, TEST_COUNT, find_repeats
from parley.privacy.mechanisms import Bounded, FastNoise, Gaussian, GridGeometric, Laplace, SafeNoise

MECHANISMS = {
    "laplace": Laplace(2.0, 1.0),
    "gaussian": Gaussian(3.0, 1.0),
    "geometric": GridGeometric(2.0, 1.0),
}


def released(mechanism, answers, size):
    """With the samplers that owners release with; of noise on a coarse grid, with a seed."""
    bounded = Bounded(np.zeros(size), 1.0, mechanism.norm)
    source = FastNoise(1) if isinstance(mechanism, GridGeometric) else SafeNoise()
    return np.array([mechanism.release(bounded, source) for _ in range(answers)])


@pytest.mark.parametrize("kind", MECHANISMS)
def test_released_noise_does_not_come_again_and_one_answer_that_does_is_seen(kind):
    noise = released(MECHANISMS[kind], 40, 4)
    sound = find_repeats(noise, MECHANISMS[kind], 1.0)
    assert (sound.answers, sound.of_answers, sound.of_numbers) == (0, 40, 160)
    assert sound.p_value > 1e-9
    for sign in (1, -1):
        again = noise.copy()
        again[31] = sign * again[7]
        found = find_repeats(again, MECHANISMS[kind], 1.0)
        assert found.answers == 1
        assert not found.holds
        assert found.to_json()["holds"] is False


def test_what_is_added_to_noise_hides_no_repeat_but_more_than_roundings():
    noise = np.random.default_rng(0).laplace(scale=2.0, size=(20, 3))
    again = np.concatenate([noise, noise + 1e-13])
    assert find_repeats(again, MECHANISMS["laplace"], 1.0).answers == 20
    assert find_repeats(again + np.repeat([[0.0], [1e-3]], 20, axis=0), MECHANISMS["laplace"], 1.0).holds


def test_independent_noise_is_blamed_as_seldom_as_is_said():
    """On a grid so coarse that numbers come again by chance: 400 studies, and the bound on how often they do."""
    mechanism, rng, size = MECHANISMS["geometric"], np.random.default_rng(1), 1
    unit, steps = mechanism.grid(size)
    found = []
    for _ in range(400):
        drawn = np.subtract(*rng.geometric(-np.expm1(-1 / steps), size=(2, 60, size))) * unit
        found.append(find_repeats(drawn, mechanism, 0.0))
    numbers, p = np.array([each.numbers for each in found]), np.array([each.p_value for each in found])
    most = 60 * 59 * 2 * unit / (steps * unit)
    assert most / 6 < numbers.mean() < most  # the bound is no more than a few times too high
    for level in (0.01, 0.1, 0.3):
        assert np.mean(p <= level) <= level + 3 * np.sqrt(level * (1 - level) / 400)
    assert all(each.holds == (each.p_value >= FALSE_ALARM / TEST_COUNT) for each in found)


def test_a_repeat_is_seen_among_many():
    rng = np.random.default_rng(2)
    noise = rng.normal(scale=3.0, size=(4000, 50))
    assert find_repeats(noise, MECHANISMS["gaussian"], 1.0).holds
    noise[3999] = noise[0]
    assert not find_repeats(noise, MECHANISMS["gaussian"], 1.0).holds
