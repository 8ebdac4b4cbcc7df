"""What is made of noisy counts afterwards."""

import numpy as np
import pytest

from parley.errors import SettingError
from parley.privacy.mechanisms import FastNoise
from parley.tasks.statistics.counts.run import (
    MAX_ENUMERATED,
    binomial_prior,
    geometric_law,
    normal_law,
    remapped,
)


def plain(scale, reach):
    q = np.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1))


def test_the_law_of_a_sum_of_geometric_numbers():
    one, three = geometric_law([3.0]), geometric_law([1.0, 3.0, 3.0])
    np.testing.assert_allclose(one.chances, plain(3.0, one.reach), atol=1e-15)
    reach = three.reach
    summed = np.convolve(np.convolve(plain(1.0, reach), plain(3.0, reach)), plain(3.0, reach))
    np.testing.assert_allclose(
        three.chances, summed[len(summed) // 2 - reach : len(summed) // 2 + reach + 1], atol=1e-14
    )
    k = np.arange(-reach, reach + 1)
    within = three.chances[np.abs(k) <= three.half_width()].sum()
    assert within >= 0.95 > three.chances[np.abs(k) < three.half_width()].sum()
    assert geometric_law([float(MAX_ENUMERATED)]) is None
    assert normal_law(float(MAX_ENUMERATED)) is None


def test_a_law_that_hardly_moves_has_no_width():
    assert geometric_law([0.05]).half_width() == 0
    assert normal_law(2.0).chances.sum() == pytest.approx(1.0)


def test_without_beliefs_the_likeliest_count_is_the_one_cut_to_what_is_possible():
    law = geometric_law([4.0])
    for answer in (-7.0, 0.0, 12.0, 20.0, 31.0, 1e6):
        assert remapped(answer, 20, law, rule="likeliest") == min(max(answer, 0.0), 20.0)


def test_guesses_by_a_belief_are_nearer_than_what_was_reported():
    """Errors of 400 counts with a known law: each rule is the best by its own measure, and far better than none."""
    rng, records, law = np.random.default_rng(5), 40, geometric_law([10.0])
    truth = rng.binomial(records, 0.1, 400)
    answers = FastNoise(6).geometric(truth, 10.0)
    known = binomial_prior(records, 0.1)
    error = {
        rule: np.abs([remapped(z, records, law, known, rule) for z in answers] - truth)
        for rule in ("median", "mean", "likeliest")
    }
    cut = np.abs(np.clip(answers, 0, records) - truth)
    assert error["median"].mean() < cut.mean() / 3
    assert error["median"].mean() <= error["mean"].mean() + 3 * error["mean"].std() / 400**0.5
    assert (error["mean"] ** 2).mean() <= (error["median"] ** 2).mean() + 3 * (error["median"] ** 2).std() / 400**0.5
    assert (error["likeliest"] == 0).mean() >= (cut == 0).mean()


def test_an_answer_that_no_belief_explains_is_only_cut():
    assert remapped(30.0, 30, geometric_law([0.1]), lambda counts: 0.0 * counts) == 30.0
    with pytest.raises(SettingError, match="between 0 and 1"):
        binomial_prior(10, 1.0)


def test_the_median_is_right_less_often_than_the_cut_number_and_errs_less_far():
    """Exact means over all counts of 5 records at eps = 0.5; docs/counts.md warns of it."""
    law, counts = geometric_law([2.0]), np.arange(6)
    answers = np.arange(-law.reach, law.reach + 6)
    chance = np.array(
        [[law.chances[z - y + law.reach] if abs(z - y) <= law.reach else 0.0 for z in answers] for y in counts]
    )
    right, far = {}, {}
    for rule in ("median", "likeliest"):
        guesses = np.array([remapped(float(z), 5, law, rule=rule) for z in answers])
        away = np.abs(guesses - counts[:, None])
        right[rule], far[rule] = (chance * (away == 0)).sum() / 6, (chance * away).sum() / 6
    assert (round(right["likeliest"], 3), round(right["median"], 3)) == (0.371, 0.289)
    assert far["median"] < far["likeliest"]
