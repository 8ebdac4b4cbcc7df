"""The noise of many owners in one draw has the law of its sum."""

import numpy as np
import pytest
from scipy import stats

from parley.privacy.mechanisms import Bounded, FastNoise, GridGeometric, SafeNoise, Stable

DRAWS = 20_000
LAWS = ("laplace", "gaussian", "stable", "geometric")
UNEQUAL = np.array([0.5, 0.5, 0.5, 0.2, 0.2, 1.3])


def drawn(noise: FastNoise, law: str, shape: tuple[int, ...]) -> np.ndarray:
    if law == "geometric":
        return noise.geometric(np.zeros(shape, dtype=np.int64), 3.0)
    settings = {"laplace": (3.0, 1.0), "gaussian": (3.0,), "stable": (1.5, 3.0)}[law]
    return getattr(noise, law)(np.zeros(shape), *settings)


def one_by_one(law: str, weights: np.ndarray, seed: int = 2) -> np.ndarray:
    return drawn(FastNoise(seed), law, (DRAWS, len(weights))) @ weights


def differs(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two samples are told apart at a level of one in ten thousand."""
    return stats.ks_2samp(one, other, method="asymp").pvalue < 1e-4


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "weights", [np.ones(1), np.ones(2), np.full(40, 1 / 40), UNEQUAL], ids=["one", "two", "forty", "unequal"]
)
def test_a_combined_draw_has_the_law_of_the_weighted_sum(law, weights):
    at_once = drawn(FastNoise(1).combined(weights), law, (DRAWS,))
    assert not differs(at_once, one_by_one(law, weights))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("wrong", [lambda w: w[:1], lambda w: np.array([w.sum()]), lambda w: w / np.sqrt(len(w))])
def test_forgotten_and_wrong_roots_are_noticed(law, wrong):
    """One owner's noise for all, N times one owner's instead of root N, and one root too many."""
    weights = np.ones(9)
    assert differs(drawn(FastNoise(1).combined(wrong(weights)), law, (DRAWS,)), one_by_one(law, weights))


def test_a_sum_of_few_laplace_numbers_is_not_taken_for_a_normal_one():
    weights = np.ones(2)
    normal = np.random.default_rng(0).normal(scale=np.sqrt(2 * 2) * 3.0, size=DRAWS)
    assert differs(normal, one_by_one("laplace", weights))


@pytest.mark.parametrize("owners", [1, 2, 30, 10_000])
def test_moments_are_those_of_the_sum(owners):
    """Variance 2 b^2 N and excess kurtosis 3/N of Laplace noise, variance N sigma^2 of normal, in standard errors."""
    count = 400_000
    laplace = FastNoise(5).combined(np.ones(owners)).laplace(np.zeros(count), 3.0, 1.0)
    squares = laplace**2 / (2 * 9.0 * owners)
    assert abs(squares.mean() - 1) < 4 * squares.std() / np.sqrt(count)
    fourth = squares**2
    assert abs(fourth.mean() - (3 + 3 / owners)) < 4 * fourth.std() / np.sqrt(count)
    normal = FastNoise(6).combined(np.ones(owners)).gaussian(np.zeros(count), 3.0)
    assert stats.kstest(normal / (3.0 * np.sqrt(owners)), "norm").pvalue > 1e-4


def test_one_owner_is_drawn_as_ever():
    """The same numbers, bit by bit: what a seed gave before it gives now."""
    for law in LAWS:
        np.testing.assert_array_equal(
            drawn(FastNoise(3).combined(np.ones(1)), law, (50,)), drawn(FastNoise(3), law, (50,))
        )
    rng = np.random.default_rng(3)
    np.testing.assert_array_equal(FastNoise(3).laplace(np.zeros(5), 2.0, 1.0), rng.laplace(scale=2.0, size=5))


def test_mechanisms_take_it_like_any_other():
    value, weights = np.full((DRAWS, 2), 7.25), np.full(25, 1 / 25)
    stable = Stable(1.5, 3.0, 1.0).release(Bounded(value, 1.0, "l1"), FastNoise(1).combined(weights))
    assert not differs(stable[:, 0] - 7.25, one_by_one("stable", weights))
    grid = GridGeometric(3.0, 1.0)
    unit, steps = grid.grid(2)
    mean = grid.release(Bounded(value, 1.0, "l1"), FastNoise(1).combined(weights))[:, 1] - 7.25
    each = FastNoise(4).geometric(np.zeros((DRAWS, 25), dtype=np.int64), float(steps)) @ weights * unit
    assert not differs(mean, each)


def test_what_leaves_an_owner_is_never_combined():
    assert not hasattr(SafeNoise(), "combined")
