"""Private ratings: the law of the noise, what one rating can do, what is refused."""

import numpy as np
import pytest

from parley.errors import GuaranteeError, SettingError
from parley.privacy.mechanisms import FastNoise, SafeNoise
from parley.tasks.ratings.factorization import Factorization
from parley.tasks.ratings.rating_noise import (
    Claim,
    Scale,
    Thinning,
    bounded,
    claim,
    expected_ratings,
    hide,
    published_noise,
    published_scale,
    require_memory,
    unbounded,
)
from parley.tasks.ratings.table import Ratings, centre

SCALE, RULE = Scale(), Factorization()


def some(users=40, items=30, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    u, i = np.nonzero(rng.random((users, items)) < share)
    values = rng.integers(1, 6, len(u)).astype(float)
    return Ratings(
        u.astype(np.int32), i.astype(np.int32), values, tuple(map(str, range(users))), tuple(map(str, range(items)))
    )


class Recorder(FastNoise):
    """Fast noise that remembers what it was asked for."""

    def __init__(self, seed):
        super().__init__(seed)
        self.asked = []

    def laplace(self, value, scale, sensitivity):
        self.asked.append((value, scale, sensitivity))
        return super().laplace(value, scale, sensitivity)


def test_bounded_noise_is_as_large_as_the_range_demands():
    noise, ratings = Recorder(0), some(users=300, items=100)
    released = bounded(ratings, 0.5, SCALE, noise)
    (value, scale, sensitivity), *others = noise.asked
    assert not others
    assert np.array_equal(value, ratings.values)
    assert scale >= 4 / 0.5
    assert sensitivity == 4
    apart = np.abs(released.values - ratings.values)  # mean |L| = 8, deviation 8
    assert abs(apart.mean() - 8) < 4 * 8 / len(apart) ** 0.5


@pytest.mark.parametrize("value", [1e300, -1e300, 5.0000001, 0.0])
def test_a_rating_beyond_the_scale_moves_no_more_than_one_within(value):
    noise, ratings = Recorder(0), some()
    values = ratings.values.copy()
    values[3] = value
    bounded(ratings.with_values(values), 1.0, SCALE, noise)
    unbounded(ratings.with_values(values), np.arange(40), 1.0, SCALE, noise, np.random.default_rng(0))
    for cells, _, _ in noise.asked:
        assert cells.min() >= 1
        assert cells.max() <= 5


def test_unbounded_cells_move_by_at_most_the_range_when_a_rating_comes_goes_or_changes():
    """Over single removals, additions and replacements the cells that get noise differ by at most 4 in L1, and some
    do."""
    ratings, rng, worst = some(), np.random.default_rng(3), 0.0
    free = np.argwhere(np.bincount(ratings.users * 30 + ratings.items, minlength=1200).reshape(40, 30) == 0)

    def cells(r):
        noise = Recorder(0)
        unbounded(r, np.arange(40), 1.0, SCALE, noise, np.random.default_rng(0))
        return np.concatenate([value for value, _, _ in noise.asked]), noise.asked[0][1]

    before, scale = cells(ratings)
    assert scale >= 4
    for _ in range(200):
        j, (u, i) = rng.integers(len(ratings)), free[rng.integers(len(free))]
        moved = ratings.pick(np.arange(len(ratings)))
        kind = rng.integers(3)
        if kind == 0:
            moved = ratings.pick(np.delete(np.arange(len(ratings)), j))
        elif kind == 1:
            moved.values[j] = rng.choice([1.0, 5.0])
        else:
            moved.users[j], moved.items[j], moved.values[j] = u, i, rng.choice([1.0, 5.0])
        worst = max(worst, float(np.abs(cells(moved)[0] - before).sum()))
    assert worst == 4.0


def test_unbounded_makes_as_many_ratings_as_it_said():
    ratings = some(users=400, items=300, share=0.02)
    users = np.arange(400)
    for epsilon in (9.0, 1.0, 0.1):
        released = unbounded(ratings, users, epsilon, SCALE, FastNoise(1), np.random.default_rng(2))
        expected = expected_ratings(400, 300, 4 / epsilon, 2.0, Thinning())
        assert abs(len(released) - expected) < 5 * expected**0.5 + 0.5 * len(ratings)  # true ratings may all be kept
        assert np.abs(released.values - 3).min() > 0.6
        assert released.values.min() >= 1


def test_true_noise_serves_as_well():
    ratings = some(users=20, items=10)
    assert len(bounded(ratings, 1.0, SCALE, SafeNoise())) == len(ratings)
    assert len(unbounded(ratings, np.arange(20), 1.0, SCALE, SafeNoise(), np.random.default_rng(0))) > 0


def test_unbounded_that_would_blow_up_is_refused_before_it_starts():
    with pytest.raises(GuaranteeError, match=r"about \d{3},\d{3},\d{3} ratings .* and need \d\d\.\d GB"):
        require_memory(46_462, 16_395, published_scale(1.0, RULE, SCALE), 2.0, Thinning(), 2e9)
    noise = Recorder(0)
    with pytest.raises(GuaranteeError, match="GB of memory"):
        unbounded(some(), np.arange(40), 1.0, SCALE, noise, np.random.default_rng(0), memory=1e3)
    assert not noise.asked


def test_cells_rated_twice_and_strangers_are_refused():
    ratings = some()
    with pytest.raises(SettingError, match="twice"):
        unbounded(ratings.pick(np.array([0, 0])), np.arange(40), 1.0, SCALE, FastNoise(0), np.random.default_rng(0))
    with pytest.raises(SettingError, match="every user who has a rating"):
        unbounded(ratings, np.arange(10), 1.0, SCALE, FastNoise(0), np.random.default_rng(0))


def test_what_the_published_scale_really_gives():
    assert claim("bounded", 1.0, RULE, SCALE) == Claim(1.0, 1.0)
    assert claim("hide", 1.0, RULE, SCALE) == Claim(None, None)
    assert claim("bounded-published", 1.0, RULE, SCALE).real == pytest.approx(16 / 1.197)
    assert claim("unbounded-published", 1.0, RULE, SCALE).real == pytest.approx(36 / 1.197)


def test_a_rating_that_comes_or_goes_moves_residuals_by_at_most_four_and_a_half_ranges():
    """What stands behind the published unbounded noise's real epsilon; the search comes near it."""
    worst = 0.0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        ratings = some(int(rng.integers(4, 60)), int(rng.integers(4, 60)), rng.uniform(0.1, 1.0), seed)
        # the item's others high, the user's others low: then one rating moves both means far
        j = rng.integers(len(ratings))
        values = np.full(len(ratings), rng.choice([1.0, 2.0, 3.0, 4.0, 5.0]))
        values[ratings.items == ratings.items[j]] = rng.choice([1.0, 5.0])
        values[ratings.users == ratings.users[j]] = rng.choice([1.0, 5.0])
        values[j] = rng.choice([1.0, 5.0])
        with_it = ratings.with_values(values)
        rest = np.delete(np.arange(len(ratings)), j)
        apart = centre(with_it).residuals[rest] - centre(with_it.pick(rest)).residuals
        worst = max(worst, float(np.abs(apart).sum() + abs(centre(with_it).residuals[j])))
    assert 8 < worst <= 18


def test_hiding_drops_what_it_says():
    ratings = some()
    assert len(hide(ratings, 0.25, np.random.default_rng(0))) == len(ratings) - round(0.25 * len(ratings))
    for wrong in (1.0, -0.1, float("nan")):
        with pytest.raises(SettingError):
            hide(ratings, wrong, np.random.default_rng(0))


def test_published_noise_stays_in_its_range():
    ratings = some()
    residuals = ratings.with_values(centre(ratings).residuals)
    for users in (None, np.arange(40)):
        noisy = published_noise(residuals, users, 1.2, np.random.default_rng(0), Thinning())
        assert np.abs(noisy.values).max() <= 2
    assert len(noisy) > len(ratings)
