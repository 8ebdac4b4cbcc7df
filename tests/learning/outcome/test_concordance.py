import numpy as np
import pytest

from parley.learning.outcome.metrics import concordance


def brute_force(time, happened, risk):
    right = pairs = 0.0
    for i in range(len(time)):
        for j in range(len(time)):
            later = time[j] > time[i] or (time[j] == time[i] and not happened[j])
            if happened[i] and i != j and later:
                pairs += 1
                right += 1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0
    return right / pairs if pairs else None


@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_share_of_comparable_pairs(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    time, happened = rng.integers(0, 6, n).astype(float), rng.random(n) < 0.6
    risk = rng.integers(0, 5, n).astype(float) if seed % 2 else rng.normal(size=n)
    found, expected = concordance(time, happened, risk), brute_force(time, happened, risk)
    assert found == (None if expected is None else pytest.approx(expected))


def test_without_pairs_there_is_none():
    assert concordance(np.array([1.0, 2.0]), np.array([False, False]), np.array([1.0, 2.0])) is None
    assert concordance(np.array([1.0, 1.0]), np.array([True, True]), np.array([1.0, 2.0])) is None
