"""Gaussian noise in exact arithmetic.

Premise F6: Arithmetic with whole numbers and fractions is exact. The premise covers Python's integers, NumPy's 64-bit
integers, doubles converted to fractions, and counts below 2⁵³.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from parley.errors import SettingError
from parley.privacy.mechanisms import SafeNoise, exact_samplers
from parley.privacy.mechanisms.exact_samplers import (
    _PEAK_SHARES,
    _STRIP_OF,
    _STRIP_WEIGHTS,
    DENSITY_HEIGHT,
    GRID_BITS,
    STRIP_COUNT,
    SeededWords,
    _decide_by_floats,
    _decide_exactly,
    add_gaussian,
    exp_bounds,
    near_normal,
    rounded_normal,
)


@pytest.fixture
def seeded(monkeypatch):
    """The sampler on words of a seeded generator: seeded(7) starts it anew."""

    def start(seed):
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(
            exact_samplers,
            "random_words",
            lambda size: rng.integers(0, 2**64 - 1, size, dtype=np.uint64, endpoint=True),
        )

    start(0)
    return start


def draws(steps, offset, size=1_000_000):
    return rounded_normal(steps, np.full(size, offset), lambda place: Fraction(offset))


def fit(observed, steps, offset):
    """p-value of chi-square against the masses of the cells [k - 1/2, k + 1/2) of steps N + offset."""
    reach = max(3, math.ceil(4 * steps))
    k = np.arange(-reach, reach + 1)
    edges = np.concatenate([[-np.inf], k[:-1] + 0.5, [np.inf]])
    expected = np.diff(stats.norm.cdf((edges - offset) / steps)) * len(observed)
    counts = np.bincount(np.clip(observed, -reach, reach) + reach, minlength=len(k))
    return stats.chisquare(counts, expected).pvalue


@pytest.mark.parametrize(("steps", "offset"), [(1.0, 0.0), (1.0, 0.3), (3.3, -0.5), (20.0, 0.123)])
def test_the_law_is_the_normal_law_rounded_after_the_noise(seeded, steps, offset):
    """Chi-square on a million draws against the exact masses; a sigma one percent off and a value rounded first are
    rejected."""
    sample = draws(steps, offset)
    assert fit(sample, steps, offset) > 1e-6
    assert fit(sample, 1.01 * steps, offset) < 1e-12
    assert fit(draws(1.01 * steps, offset, 2_000_000), steps, offset) < 1e-12
    if steps == 1 and offset:
        assert fit(sample, steps, 0.0) < 1e-12


def test_fine_grids_tails_and_independence(seeded):
    """A million draws as they are released: 200 bins of equal mass, both tails, neighbours, signs and low bits."""
    noisy = add_gaussian(np.full(1_000_000, 0.3), 2.0)
    z = (noisy - 0.3) / 2
    n = len(z)

    def bins(sample):
        return stats.chisquare(np.histogram(stats.norm.cdf(sample), bins=200, range=(0, 1))[0]).pvalue

    assert bins(z) > 1e-6
    assert bins(1.01 * z) < 1e-12
    for tail in (z, -z):
        for beyond in (3, 4, 4.5, 5):
            assert stats.binomtest(int((tail > beyond).sum()), n, stats.norm.sf(beyond)).pvalue > 1e-6
    assert stats.binomtest(int((1.05 * z > 3).sum()), n, stats.norm.sf(3)).pvalue < 1e-12
    for lag in (1, 2, exact_samplers.BATCH_NUMBERS):
        assert abs(z[:-lag] @ z[lag:]) < 5 * math.sqrt(n)
        assert abs((z[:-lag] ** 2 - 1) @ (z[lag:] ** 2 - 1)) < 5 * 2 * math.sqrt(n)
    units = np.rint(noisy * 2.0 ** (GRID_BITS - 2)).astype(np.int64)
    assert stats.chisquare(np.bincount(units & 15, minlength=16)).pvalue > 1e-6


def test_a_sampler_without_its_rejection_is_found_out(seeded, monkeypatch):
    def keeps_all(*arguments):
        nearest, kept, doubtful = _decide_by_floats(*arguments)
        return nearest, np.ones_like(kept), np.zeros_like(doubtful)

    monkeypatch.setattr(exact_samplers, "_decide_by_floats", keeps_all)
    assert fit(draws(3.3, 0.0), 3.3, 0.0) < 1e-12


def test_the_tail_is_the_tail_of_the_normal_law(seeded):
    """Proposals of the last slot, settled exactly: what is kept is normal beyond 4.5, and as many as it should be."""
    rng = np.random.default_rng(1)
    u, x = rng.integers(0, 2**47, 3000), rng.integers(0, 2**64 - 1, 3000, dtype=np.uint64)
    kept = [
        _decide_exactly(int(a) << 17 | 0xFFFF, int(b), Fraction(2**31), Fraction(0)) for a, b in zip(u, x, strict=True)
    ]
    z = np.array([k / 2**31 for k in kept if k is not None])
    law = lambda x: 1 - stats.norm.sf(x) / stats.norm.sf(4.5)  # noqa: E731
    assert z.min() >= 4.5
    assert stats.kstest(z, law).pvalue > 1e-6
    assert stats.kstest(z * 1.01, law).pvalue < 1e-3
    share = DENSITY_HEIGHT * 8 * math.sqrt(math.pi / 2) * 2 * stats.norm.sf(4.5)
    assert abs(len(z) - 3000 * share) < 5 * math.sqrt(3000 * share * (1 - share))


def exact_margin(strip, x, u):
    """u e^y - A e^(-(j/8)^2/2)/w_j to 60 digits: kept if negative."""
    x, u = mpmath.mpf(int(x)) / 2**64, mpmath.mpf(int(u)) / 2**47
    peak = DENSITY_HEIGHT * mpmath.exp(-(mpmath.mpf(int(strip)) ** 2) / 128) / _STRIP_WEIGHTS[strip]
    return u * mpmath.exp(x * (2 * int(strip) + x) / 128) - peak


def test_the_filter_never_decides_wrongly_near_a_decision():
    """Uniform numbers within 2^-38 of the acceptance bound in every strip: decided as 60 digits say, or left to exact
    arithmetic."""
    rng = np.random.default_rng(2)
    strips = np.repeat(np.arange(STRIP_COUNT), 20)
    slots = np.searchsorted(_STRIP_OF, strips)
    x = rng.integers(0, 2**64 - 1, len(strips), dtype=np.uint64)
    x[::20] = 0
    x[1::20] = 2**64 - 1
    with mpmath.workdps(60):
        shares = [mpmath.mpf(int(a)) / 2**64 for a in x]
        bound = [
            -exact_margin(j, a, 0) / mpmath.exp(share * (2 * int(j) + share) / 128)
            for j, a, share in zip(strips, x, shares, strict=True)
        ]
        u = np.array([min(int(b * 2**47), 2**47 - 600) for b in bound]) + rng.integers(-500, 500, len(strips))
        first = (u.astype(np.uint64) << np.uint64(17)) | slots.astype(np.uint64)
        _, kept, doubtful = _decide_by_floats(first, x, 0.01, np.zeros(len(x)))
        truth = np.array([float(exact_margin(j, a, b)) for j, a, b in zip(strips, x, u, strict=True)])
    assert ((truth < 0) == kept)[~doubtful].all()
    assert (np.abs(truth[~doubtful]) > 2.0**-41).all()  # further away than all errors together
    assert (np.abs(truth[doubtful]) < 2.0**-39).all()
    assert 100 < doubtful.sum() < 600


def between_polynomials():
    """Proposals between the coarse polynomial and e^y: kept by the coarse one alone."""
    strips = np.repeat(np.arange(1, STRIP_COUNT), 8)
    x = np.linspace(0.5, 1.0, 9)[1:]
    y = np.array([a * (2 * j + a) / 128 for j, a in zip(strips, np.tile(x, STRIP_COUNT - 1), strict=True)])
    coarse = 1 + y + y**2 / 2 + y**3 / 6
    u = _PEAK_SHARES[strips] * (0.5 / coarse + 0.5 / np.exp(y))
    whole = (np.minimum(u, 1 - 2.0**-47) * 2**47).astype(np.uint64)
    first = (whole << np.uint64(17)) | np.searchsorted(_STRIP_OF, strips).astype(np.uint64)
    second = np.minimum(np.tile(x, STRIP_COUNT - 1) * 2.0**64, 2.0**64 - 2**12).astype(np.uint64)
    return first, second


@pytest.mark.parametrize("doubt", [exact_samplers.COARSE_DOUBT, 2.0**-40])
def test_what_the_coarse_filter_would_keep_wrongly_is_refused(monkeypatch, doubt):
    """A mutant: a margin that is too small keeps what e^y refuses."""
    monkeypatch.setattr(exact_samplers, "COARSE_DOUBT", doubt)
    first, second = between_polynomials()
    _, kept, doubtful = _decide_by_floats(first, second, 0.01, np.zeros(len(first)))
    truth = np.array(
        [
            _decide_exactly(int(a), int(b), Fraction(1, 100), Fraction(0)) is not None
            for a, b in zip(first, second, strict=True)
        ]
    )
    agree = (kept == truth)[~doubtful].all()
    assert agree == (doubt == 2.0**-6)


def test_long_vectors_are_drawn_in_batches_and_no_word_twice():
    size = 8 * exact_samplers.BATCH_NUMBERS
    drawn = draws(2.0**31, 0.0, size)
    z = drawn / 2.0**31
    assert abs(z.mean()) < 5 / math.sqrt(size)
    assert abs(z.var() - 1) < 5 * math.sqrt(2 / size)
    assert len(np.unique(drawn)) > size - 20  # about one pair is equal by chance
    assert stats.kstest(z, "norm").pvalue > 1e-6


def test_filter_and_exact_arithmetic_agree():
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 2**64 - 1, (2, 1500), dtype=np.uint64)
    offsets = rng.uniform(-0.5, 0.5, 1500)
    for steps in (0.7, 3.3, 2.0**32 - 1):
        nearest, kept, doubtful = _decide_by_floats(first, second, steps, offsets)
        assert doubtful.mean() < 0.01
        for i in np.flatnonzero(~doubtful):
            settled = _decide_exactly(int(first[i]), int(second[i]), Fraction(steps), Fraction(float(offsets[i])))
            assert settled == (int(nearest[i]) if kept[i] else None)


def test_what_the_first_digits_leave_open_is_decided_by_further_ones(monkeypatch):
    """A place just below a cell's edge at 64 digits: the next digits say on which side it lies. Likewise the
    acceptance."""
    words = iter(())
    monkeypatch.setattr(
        exact_samplers, "random_words", lambda size: np.array([next(words) for _ in range(size)], dtype=np.uint64)
    )
    half = 2**63  # x = 1/2 in strip 0: z = 1/16, and 8 steps make it 1/2
    words = iter([0, 0])  # digits of u, of x
    assert _decide_exactly(0, half - 1, Fraction(8), Fraction(1, 2**68)) == 0
    words = iter([0, 2**64 - 1])
    assert _decide_exactly(0, half - 1, Fraction(8), Fraction(1, 2**68)) == 1
    assert next(words, None) is None
    with mpmath.workdps(60):
        bound = mpmath.exp(-mpmath.mpf(1) / 512) * DENSITY_HEIGHT * 2**47 / _STRIP_WEIGHTS[0]
        below, rest = int(bound), int((bound - int(bound)) * 2**64)
    for digits, result in ((rest - 1, 0), (rest + 2, None)):
        words = iter([digits, 0])
        assert _decide_exactly(below << 17, half, Fraction(1), Fraction(0)) == result


def test_proposals_cover_the_density_and_their_weights_add_up():
    assert len(_STRIP_OF) == 2**16
    assert sum(_STRIP_WEIGHTS) + (_STRIP_OF == STRIP_COUNT).sum() == 2**16
    assert (_STRIP_OF == STRIP_COUNT).sum() == 1
    assert np.bincount(_STRIP_OF).tolist()[:-1] == _STRIP_WEIGHTS
    with mpmath.workdps(60):
        for j, weight in enumerate(_STRIP_WEIGHTS):
            peak = DENSITY_HEIGHT * mpmath.exp(-(mpmath.mpf(j) ** 2) / 128)
            assert 0.4 * weight < peak <= weight
            assert abs(_PEAK_SHARES[j] - peak / weight) < 2.0**-52
        quotient = [
            DENSITY_HEIGHT * mpmath.exp(-(mpmath.mpf(STRIP_COUNT + i) ** 2) / 128) * 2 ** (i + 1) for i in range(60)
        ]
    assert max(quotient) == quotient[8] < 0.87


@settings(deadline=None)
@given(st.fractions(0, 40), st.integers(8, 200))
def test_bounds_of_the_exponential_hold(x, bits):
    low, high = exp_bounds(x, bits)
    with mpmath.workdps(100):
        truth = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator <= truth <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low <= Fraction(200, 2**bits) * high


def test_the_result_is_a_function_of_the_sum(seeded):
    """The same noise on values of the grid gives the same steps from them; between, the nearest multiple of g to the
    exact sum."""
    sigma, unit = 2.0, 2.0 ** (2 - GRID_BITS)

    def noisy(value):
        seeded(5)
        return add_gaussian(np.full(2000, value), sigma)

    at_zero = noisy(0.0)
    for multiple in (1.0, -3.0, 2.0**33):
        np.testing.assert_array_equal(noisy(multiple * unit) - multiple * unit, at_zero)
    apart = [np.rint((noisy(fraction * unit) - at_zero) / unit).mean() for fraction in (0.25, 0.5, 0.75)]
    np.testing.assert_allclose(apart, [0.25, 0.5, 0.75], atol=5 * 0.5 / math.sqrt(2000))
    np.testing.assert_array_equal(noisy(1e30), np.full(2000, 1e30))
    far = np.array([float(Fraction(2**60) + Fraction(float(n))) for n in at_zero])
    np.testing.assert_array_equal(noisy(2.0**60), far)
    seeded(6)
    tiny = add_gaussian(np.full(1000, -0.0), 5e-324)
    seeded(6)
    assert add_gaussian(np.zeros(1000), 5e-324).tobytes() == tiny.tobytes()  # the sign of a zero tells nothing
    assert (tiny == 0).sum() > 300


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(st.floats(5e-324, 1e280), st.floats(-323, 280).map(lambda e: 10.0**e)),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4),
)
def test_any_value_with_any_sigma_is_finite_on_the_grid_and_near(sigma, values):
    value = np.array(values).reshape(1, -1)
    noisy = add_gaussian(value, sigma)
    assert noisy.shape == value.shape
    assert np.isfinite(noisy).all()
    grid = Fraction(2) ** max(math.frexp(sigma)[1] - GRID_BITS, -1074)
    for before, after in zip(value[0], noisy[0], strict=True):
        moved = abs(Fraction(float(after)) - Fraction(float(before)))
        assert moved <= 12 * Fraction(sigma) + 12 * grid + abs(Fraction(float(before))) / 2**52
        assert (Fraction(float(after)) / grid).denominator == 1


def test_extremes_are_refused_in_one_sentence():
    for sigma in (1e290, math.inf, math.nan, 0.0, -1.0):
        with pytest.raises(SettingError, match="sigma"):
            add_gaussian(np.zeros(3), sigma)
    for value in (math.nan, math.inf):
        with pytest.raises(SettingError, match="found NaN or infinity"):
            add_gaussian(np.array([value]), 1.0)
    assert add_gaussian(np.empty((0, 3)), 1.0).shape == (0, 3)


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_released_noise_of_every_length_is_this_one(size):
    noisy = SafeNoise().gaussian(np.linspace(-1, 1, size), 3.0)
    units = noisy * 2.0 ** (GRID_BITS - 2)
    assert (units == np.rint(units)).all()


def test_exact_arithmetic_is_rarely_needed(seeded, monkeypatch):
    calls = []
    monkeypatch.setattr(
        exact_samplers, "_decide_exactly", lambda *arguments: calls.append(1) or _decide_exactly(*arguments)
    )
    draws(2.0**32 - 1, 0.2, 200_000)
    assert 0 < len(calls) < 40


def test_floats_near_normal_numbers_follow_the_normal_law():
    drawn = near_normal(200_000, SeededWords(b"n" * 32))
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert stats.kstest(drawn * 1.03, "norm").pvalue < 1e-3
    assert np.array_equal(drawn, near_normal(200_000, SeededWords(b"n" * 32)))
    assert not np.array_equal(drawn[:9], near_normal(9, SeededWords(b"m" * 32)))


def test_floats_are_as_near_to_normal_numbers_as_said():
    """Proposals are settled to 300 binary digits of the same words, and of further ones that a long enough look would
    draw."""
    held = SeededWords(b"k" * 32)
    words = held(2 * 4000)
    first, second = words.reshape(2, -1)
    fresh = SeededWords(b"l" * 32)
    served = iter([words])
    drawn = near_normal(4000, lambda size: next(served, None) if size == 8000 else fresh(size))
    _, kept, doubtful = _decide_by_floats(first, second, 2.0**-20, np.zeros(4000))
    sure = kept & ~doubtful
    assert sure.sum() > 3500
    for i in np.flatnonzero(sure)[:500]:
        digits = SeededWords(bytes(32))
        exact = _decide_exactly(int(first[i]), int(second[i]), Fraction(2**300), Fraction(0), digits)
        away = abs(Fraction(float(drawn[i])) - Fraction(exact, 2**300))
        assert away <= Fraction(1, 2**66) + abs(Fraction(exact, 2**300)) / 2**51
    coarse = drawn[sure][:500].astype(np.float32)  # what half the digits would be
    assert np.abs(coarse - drawn[sure][:500]).max() > 2.0**-40
