"""Releases about records that an owner draws in secret: calibration, what k of them cost, and dp_accounting beside
it.

Premise F8: Logarithms, exponentials and error functions in accountants have relative errors of at most 10⁻¹².
Accountants with larger errors state their own bounds. Parley rounds noise and costs up by the error bound.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from parley.errors import SettingError
from parley.privacy.accounting.compose import compose, renyi_epsilon
from parley.privacy.accounting.pairs import from_curve
from parley.privacy.accounting.sampled import base_epsilon, sampled_ratio
from parley.privacy.accounting.series import in_pieces, make_series
from parley.privacy.events import GaussianEvent
from parley.privacy.mechanisms import Bounded, FastNoise, GridGeometric, SafeNoise
from parley.privacy.mechanisms.gaussian import gaussian_ratio


def theirs(ratio: float, rate: float, count: int, delta: float) -> float:
    """dp_accounting's epsilon; its noise is measured in clips, of which a replacement moves two."""
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE, value_discretization_interval=5e-4)
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(2 * ratio)), count))
    return float(accountant.get_epsilon(delta))


@pytest.mark.parametrize(("epsilon", "delta", "count", "rate"), [(1.0, 1e-5, 60, 0.1), (3.0, 1e-5, 30, 0.05)])
def test_the_calibrated_noise_costs_what_dp_accounting_says(epsilon, delta, count, rate):
    ratio = sampled_ratio(epsilon, delta, count, rate)
    assert theirs(ratio, rate, count, delta) == pytest.approx(epsilon, rel=3e-3)
    assert theirs(ratio * 0.98, rate, count, delta) > epsilon  # noise a little smaller does not do
    unsampled = make_series("gaussian", Fraction(str(epsilon)), Fraction(str(delta)), count, 1.0).mechanism.sigma
    assert ratio < 0.7 * unsampled


def test_costs_rise_with_the_answers_stay_above_dp_accounting_and_end_at_exactly_epsilon():
    series = make_series("gaussian", Fraction(1), Fraction(1, 10**5), 60, 0.5, rate=0.1)
    spent = [series.spent_after(k) for k in range(61)]
    assert spent[0] == 0
    assert spent[60] == 1
    assert all(a <= b for a, b in itertools.pairwise(spent))
    for k in (1, 10, 30):
        assert float(spent[k]) >= theirs(series.event.multiplier, 0.1, k, 1e-5) * (1 - 1e-3)
    assert series.event.sampling == 0.1
    assert float(spent[1]) == pytest.approx(theirs(series.event.multiplier, 0.1, 1, 1e-5), rel=5e-3, abs=1e-4)


def test_the_ledger_of_drawn_answers_fills_slowly():
    """The mutant that takes Renyi divergences alone, with a few small orders, says that two answers of sixty cost
    everything."""
    series = make_series("gaussian", Fraction(1), Fraction(1, 10**5), 60, 0.5, rate=0.1)
    for k in (2, 4, 8, 16, 32):
        assert float(series.spent_after(k)) == pytest.approx(theirs(series.event.multiplier, 0.1, k, 1e-5), rel=5e-3)
    assert (
        series.spent_after(4) * (1 - Fraction(1, 10**4)) < series.spent_after(3) < series.spent_after(4)
    )  # by the next power of two
    assert renyi_epsilon([replace(series.event, count=2)], 1e-5) > 0.2


HOSTILE = [
    (1.0, 1e-5, 20_000, 1e-3),
    (1.0, 1e-5, 10**6, 1e-3),
    (1.0, 1e-5, 10**15, 1e-15),
    (1e-9, 1e-12, 10**6, 0.5),
    (1e6, 1e-5, 100, 0.01),
    (0.05, 1e-6, 1_000, 0.01),
    (300.0, 1e-7, 50, 0.5),
]


@pytest.mark.parametrize(("epsilon", "delta", "count", "rate"), HOSTILE)
def test_calibration_takes_bounded_work_and_never_more_noise_than_without_draws(
    monkeypatch, epsilon, delta, count, rate
):
    grids = []

    def counted(curve, largest, interval):
        grids.append(min(largest, 60.0) / interval)
        return from_curve(curve, largest, interval)

    monkeypatch.setattr("parley.privacy.accounting.sampled.from_curve", counted)
    ratio = sampled_ratio.__wrapped__(epsilon, delta, count, rate)
    assert len(grids) <= 40
    assert max(grids, default=0) <= 1.01e5
    assert ratio <= gaussian_ratio(epsilon, delta) * count**0.5 * 1.0002
    if count == 1_000:  # by a coarser grid
        assert compose([GaussianEvent(ratio, rate, count)], delta).high == pytest.approx(epsilon, rel=0.02)


def test_calibration_for_many_rounds_is_that_of_the_fine_grid():
    ratio = sampled_ratio(2.0, 1e-6, 3_000, 0.01)
    assert compose([GaussianEvent(ratio, 0.01, 3_000)], 1e-6, "pld").high == pytest.approx(2.0, rel=2e-3)


def cost(b_up, b_down, q):
    """The largest ln P/Q where without the record the density is f, with it up to e^b_up f, with its replacement down
    to e^-b_down f."""
    return math.log(((1 - q) + q * math.exp(b_up)) / ((1 - q) + q * math.exp(-b_down)))


@pytest.mark.parametrize("rate", [0.5, 0.2, 1e-3])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 3.0, 100.0])
def test_pure_noise_is_amplified_in_closed_form(rate, epsilon):
    base = base_epsilon(Fraction(str(epsilon)), rate)
    half = float(base) / 2
    assert cost(half, half, rate) == pytest.approx(epsilon, rel=1e-6)
    assert base > base_epsilon(Fraction(str(epsilon)), rate, Fraction(1)) >= Fraction(str(epsilon))
    assert base_epsilon(Fraction(1, 10), 1.0) == Fraction(1, 10)
    assert base_epsilon(Fraction(10**4), 0.5) == 10**4


def test_a_series_of_pure_noise_adds_up():
    series = make_series("laplace", Fraction(1), Fraction(0), 10, 1.0, rate=0.2, coordinates=3)
    assert series.mechanism.scale == pytest.approx(float(1 / base_epsilon(Fraction(1, 10), 0.2)), rel=1e-9)
    assert [series.spent_after(k) for k in (3, 10)] == [Fraction(3, 10), 1]
    blind = make_series("laplace", Fraction(1), Fraction(0), 10, 1.0, rate=0.2)  # nothing known of the grid
    assert math.log1p(0.2 * math.expm1(1 / blind.mechanism.scale)) == pytest.approx(0.1, rel=1e-9)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize(("epsilon", "rate"), [(0.1, 0.3), (1.0, 0.05), (4.0, 0.5)])
def test_no_pair_of_drawn_geometric_laws_is_told_apart_better_than_epsilon(epsilon, rate):
    """Exact hockey sticks over all whole moves within half the way, in one dimension; noise a little smaller fails."""
    half, base = 6, float(base_epsilon(Fraction(str(epsilon)), rate))
    x = np.arange(-400, 401)

    def worst(scale):
        law = lambda centre: np.exp(-np.abs(x - centre) / scale) * math.tanh(0.5 / scale)  # noqa: E731
        mixed = {move: (1 - rate) * law(0) + rate * law(move) for move in range(-half, half + 1)}
        return max(hockey_stick(p, q, epsilon) for p, q in itertools.product(mixed.values(), repeat=2))

    assert worst(2 * half / base) < 1e-15
    assert worst(2 * half / (base * 1.001)) > 1e-8


@pytest.mark.parametrize("rate", [0.5, 0.05])
def test_noise_on_a_grid_pays_for_the_grid_on_half_the_way_too(rate):
    """Every coordinate of a value moves by half the way, and rounding takes each a whole unit further: by exact
    fractions."""
    size, sensitivity = 300, 300 * 4096.04 / 4096
    mechanism = make_series(
        "geometric", Fraction(1), Fraction(0), 1, sensitivity, rate=rate, coordinates=size
    ).mechanism
    half = Fraction(sensitivity) / 2 / size

    def spent(noise):
        unit, steps = noise.grid(size)
        # where on the grid the value lies without the record, in units
        at = [Fraction(place, 1000) for place in range(1001)]
        moved = half / Fraction(unit)
        up, down = max((round(a + moved) - round(a), round(a) - round(a - moved)) for a in at)
        return cost(float(Fraction(up * size, steps)), float(Fraction(down * size, steps)), rate)

    assert 0.999 < spent(mechanism) <= 1
    mutant = GridGeometric.calibrate(base_epsilon(Fraction(1), rate), sensitivity)  # as if half the way cost half
    assert spent(mutant) > 1


@pytest.mark.parametrize("base", [0.3, 2.0])
def test_no_triple_of_laws_is_amplified_less_than_the_closed_form_says(base):
    """f without the record, g with it, h with its replacement, on three outcomes, each within half of f: by brute
    force."""
    rng, q = np.random.default_rng(0), 0.3
    half, worst = base / 2, 0.0

    def other(f):
        place, factor = rng.integers(3), math.exp(half * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)]))
        law = f * (1 - f[place] * factor) / (1 - f[place])
        law[place] = f[place] * factor
        return law

    for _ in range(3_000):
        f = rng.dirichlet([0.2, 1, 1]) + 1e-6
        f /= f.sum()
        g, h = other(f), other(f)
        if min(g.min(), h.min()) <= 0 or max(np.abs(np.log(g / f)).max(), np.abs(np.log(h / f)).max()) > half + 1e-12:
            continue
        worst = max(worst, float(np.log(((1 - q) * f + q * g) / ((1 - q) * f + q * h)).max()))
    assert 0.99 * cost(half, half, q) < worst <= cost(half, half, q) + 1e-12 < math.log1p(q * math.expm1(base))


@pytest.mark.parametrize("noise", [FastNoise(3), SafeNoise()], ids=["fast", "safe"])
def test_geometric_noise_on_a_grid_has_its_scale_and_whole_units(noise):
    mechanism = GridGeometric.calibrate(Fraction(1, 4), 0.02)
    value = np.linspace(-1, 1, 20_000)
    released = mechanism.release(Bounded(value, 0.02, "l1"), noise)
    unit, steps = mechanism.grid(20_000)
    assert np.array_equal(released / unit, np.rint(released / unit))
    error = released - value
    assert np.abs(error).mean() == pytest.approx(0.08, rel=4 / np.sqrt(20_000))
    assert error.var() == pytest.approx(mechanism.variance, rel=4 * np.sqrt(5 / 20_000))
    assert np.abs(error).max() <= mechanism.tail(1e-9, 20_000)
    # What the noise covers: the sensitivity and a unit for every coordinate, by exact fractions.
    assert (Fraction(0.02) / Fraction(unit) + 20_000) / steps <= Fraction(1, 4)
    assert (Fraction(0.02) / Fraction(unit) + 20_000) / steps > Fraction(1, 4) * Fraction(999, 1000)


def test_short_vectors_too_and_values_beyond_the_grid_stay_finite():
    mechanism = GridGeometric.calibrate(Fraction(1), 1e-30)
    released = mechanism.release(Bounded(np.array([1e200, 0.0]), 1e-30, "l1"), SafeNoise())
    assert np.isfinite(released).all()


def test_the_ledger_rises_by_more_than_last_digits_within_a_power_of_two():
    """Another machine's last digits must not make the next answer cheaper than the last: a ledger would refuse it."""
    series = make_series("gaussian", Fraction(1), Fraction(1, 10**5), 60, 0.5, rate=0.1)
    spent = [float(series.spent_after(k)) for k in range(1, 60)]
    assert all(b > a * (1 + 1e-7) for a, b in itertools.pairwise(spent) if b < 1)


def test_the_grid_adds_two_parts_in_2_to_the_12_of_variance_at_most():
    for sensitivity in (0.5, 0.5000001, 0.75, 1.0 - 1e-12):
        mechanism = GridGeometric.calibrate(Fraction(1, 10), sensitivity)
        unit, steps = mechanism.grid(1)
        q = math.exp(-1 / steps)
        drawn = 2 * q / math.expm1(-1 / steps) ** 2 * unit**2
        assert 2**-12 < drawn / mechanism.variance - 1 < 2 * (2**-12 + 1 / steps) * (1 + 1e-3)


@pytest.mark.parametrize(
    ("mechanism", "advice"), [("geometric", "laplace noise"), ("laplace", "fewer epochs or coordinates")]
)
def test_rows_in_too_many_batches_are_refused_with_what_helps(mechanism, advice):
    size, pieces = (20, 10_000) if mechanism == "geometric" else (10_000, 10**9)
    with pytest.raises(SettingError, match=rf"smaller records_per_person, or {advice}"):
        in_pieces(mechanism, Fraction(1, 100), Fraction(0), 7, 0.1, 1, size, pieces)


@pytest.mark.parametrize("mechanism", ["laplace", "geometric", "gaussian"])
def test_a_release_in_pieces_pays_for_the_grid_of_each(mechanism):
    delta, size, pieces, count = Fraction(1, 10**6) if mechanism == "gaussian" else Fraction(0), 500, 4, 7
    series = in_pieces(mechanism, Fraction(1), delta, count, 0.1, 1, size, pieces)
    noise = series.mechanism
    width = noise.rounding(size)
    if mechanism == "gaussian":
        assert (width, noise.sensitivity) == (0.0, 0.1)
        return
    assert width > 0
    assert noise.sensitivity >= 0.1 + (pieces - 1) * width
    scale = Fraction(noise.scale) * (1 + Fraction(width) / Fraction(noise.sensitivity))  # as drawn
    assert (Fraction(0.1) + pieces * Fraction(width)) / scale <= Fraction(1, count)
    plain = make_series(mechanism, Fraction(1), delta, count, 0.1).mechanism  # the mutant that pays for one
    if mechanism == "geometric":
        assert (Fraction(0.1) + pieces * Fraction(width)) / (
            Fraction(plain.scale) + Fraction(width) * count
        ) > Fraction(1, count)
