"""Randomised response: its exact cost, its exact law, and shares without bias."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from parley.errors import GuaranteeError, SettingError
from parley.privacy.accounting.releases import pure_epsilon
from parley.privacy.mechanisms import Bounded, FastNoise, SafeNoise
from parley.privacy.mechanisms.exact_samplers import SeededWords
from parley.privacy.mechanisms.randomised_response import WORD_COUNT, RandomisedResponse, draw_uniform

COUNTS = np.array([70, 20, 10])


def response(epsilon=Fraction(1), cells=3, records=100, per_person=1):
    return RandomisedResponse.calibrate(epsilon, cells, records, per_person, 0.02)


def test_the_coins_of_the_textbook_cost_ln_three():
    assert RandomisedResponse(2**63, 2, 10, 1, 0.2).odds == 3


@pytest.mark.parametrize("truth", [np.full(9, 7), np.array([0, -1]), np.array([0.0, 1.0]), np.array([[0, 1]])])
def test_what_is_no_place_of_a_name_is_not_answered(truth):
    with pytest.raises(SettingError, match="from 0 to 2"):
        response().answer(truth)
    assert response().answer(np.zeros(0, dtype=np.int64)).shape == (0,)


@pytest.mark.parametrize("epsilon", [Fraction(3 * 10**6), Fraction(10**300)])
def test_a_budget_beyond_all_decimals_leaves_one_word_for_chance(epsilon):
    noise = response(epsilon, cells=100_001)
    assert noise.truthful == WORD_COUNT - 1
    assert math.log(noise.odds) < epsilon


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 10), Fraction(1), Fraction(10), Fraction(40)])
@pytest.mark.parametrize("cells", [2, 3, 1000])
def test_a_person_costs_what_was_asked_for_to_the_last_word(epsilon, cells):
    """e^eps lies between the odds and those of one more truthful word, but for the 2^-50 that is left."""
    made = response(epsilon, cells, per_person=2)
    promised = float(epsilon) / 2
    cost = math.log1p(float(made.odds - 1))
    assert cost <= promised
    more = RandomisedResponse(made.truthful + 1, cells, 100, 2, 0.02) if made.truthful < WORD_COUNT - 1 else None
    assert more is None or math.log1p(float(more.odds - 1)) >= promised * (1 - 2**-48)
    assert 2 * cost <= pure_epsilon(made.event) <= float(epsilon)


def test_answers_have_the_law_that_is_claimed_and_a_mutant_has_not():
    made, truth = response(), np.repeat(np.arange(3), [20_000] * 3)
    found = made.answer(truth, SeededWords(b"a" * 32)).reshape(3, -1)
    seen = np.array([np.bincount(row, minlength=3) for row in found])
    w = made.share
    expected = 20_000 * (w * np.eye(3) + (1 - w) / 3)
    assert stats.chisquare(seen, expected, axis=1).pvalue.min() > 1e-4
    shifted = 20_000 * (1.2 * w * np.eye(3) + (1 - 1.2 * w) / 3)
    assert stats.chisquare(seen, shifted, axis=1).pvalue.min() < 1e-4


def test_words_beyond_the_last_multiple_are_drawn_again():
    drawn = iter([np.array([WORD_COUNT - 1, 5], dtype=np.uint64), np.array([7], dtype=np.uint64)])
    assert draw_uniform(3, 2, lambda size: next(drawn)).tolist() == [2, 1]
    assert draw_uniform(4, 1, lambda size: np.array([WORD_COUNT - 1], dtype=np.uint64)).tolist() == [3]


def test_shares_are_without_bias_and_stay_within_their_tail():
    made, noise = response(), FastNoise(2)
    many = np.broadcast_to(COUNTS / 100, (4000, 3))
    shares = made.release(Bounded(many, 0.02, "l1"), noise)
    assert np.abs(shares.mean(axis=0) - COUNTS / 100).max() < 4 * made.noise_scale / 4000**0.5
    assert (shares.var(axis=0) <= made.variance * 1.1).all()
    assert np.abs(shares - COUNTS / 100).max() < made.tail(1e-9, 3)
    assert made.norm_tail(1e-9, 3) == 3 * made.tail(1e-9, 3)
    assert made.rounding(3) == 0


def test_a_single_share_has_two_answers():
    made = RandomisedResponse.calibrate(Fraction(2), 2, 1000, 1, 0.001)
    found = made.release(Bounded(np.array([0.3]), 0.001, "l1"), SafeNoise())
    assert found.shape == (1,)
    assert abs(found[0] - 0.3) < made.tail(1e-9, 1)


def test_what_is_no_share_of_all_records_is_refused():
    for value in ([0.5, 0.4, 0.2], [1.5, -0.5, 0.0], [0.5, 0.5], [0.333, 0.333, 0.334]):
        with pytest.raises(GuaranteeError):
            response().release(Bounded(np.array(value), 0.02, "l1"), FastNoise(0))
    with pytest.raises(SettingError, match="too small"):
        response(Fraction(1, 10**30))
