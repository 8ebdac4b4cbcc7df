import contextlib
import math
from fractions import Fraction
from functools import partial

import mpmath
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, NeighboringRelation, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.errors import SettingError
from parley.privacy.accounting import METHODS, compose, make_series, multiplier_for, rounds_for, shared_record_epsilon
from parley.privacy.events import Event, GaussianEvent, GeometricEvent, LaplaceEvent, PureEvent, StableEvent
from parley.privacy.mechanisms.gaussian import gaussian_delta, gaussian_epsilon


def test_simple_composition_adds_up():
    events = [LaplaceEvent(10.0, count=5), PureEvent(4.0), GeometricEvent(2.0, count=2)]
    assert compose(events).high == pytest.approx(0.5 + 0.25 + 1.0)
    assert compose(events).method == "simple"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.decimals("0.001", "1000", places=3), st.integers(1, 10**6)), min_size=1, max_size=4))
def test_simple_composition_of_pure_noise_is_never_below_the_exact_sum(parts):
    """Read as the decimal that is printed, and off by no more than the last digit of a float. Sums of tenths stay what
    people write."""
    events = [LaplaceEvent(float(multiplier), count=count) for multiplier, count in parts]
    exact = sum(count / Fraction(str(float(multiplier))) for multiplier, count in parts)
    high = compose(events).high
    assert exact <= Fraction(repr(high)) <= exact * (1 + Fraction(1, 10**15))


def test_floats_that_would_lie_below_are_lifted():
    thirds = compose([LaplaceEvent(3.0)]).high
    assert Fraction(1 / 3) < Fraction(1, 3) < Fraction(thirds)
    assert compose([LaplaceEvent(10.0, count=3)]).high == 0.3
    for method in ("zcdp", "rdp", "pld", "advanced"):
        bound = compose([LaplaceEvent(10.0, count=30)], 1e-6, method)
        assert bound.high > bound.low
    assert shared_record_epsilon([0.1, 0.2, 0.4], shared=3) >= Fraction(7, 30)


def test_gaussian_releases_against_the_exact_answer_and_dp_accounting():
    events, delta = [GaussianEvent(20.0, count=100)], 1e-6
    exact = gaussian_epsilon(20.0 / 10, delta)
    for method in METHODS:
        bound = compose(events, delta, method)
        assert bound.high >= exact * (1 - 1e-9)
        assert bound.low <= exact * (1 + 1e-9)
        assert bound.adjacency == "replace-one"
    assert compose(events, delta, "pld").high == pytest.approx(exact, rel=1e-9)
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(20.0), 100))  # unsampled: a shift over a scale, as ours
    assert compose(events, delta, "rdp").high == pytest.approx(accountant.get_epsilon(delta), rel=0.01)


def test_laplace_releases_stay_above_the_exact_scalar_and_below_simple():
    events, delta = [LaplaceEvent(20.0, count=100)], 1e-5
    accountant = PLDAccountant(NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(SelfComposedDpEvent(LaplaceDpEvent(20.0), 100))
    scalar = accountant.get_epsilon(delta)
    bounds = {method: compose(events, delta, method).high for method in METHODS}
    assert scalar <= bounds["pld"] <= bounds["rdp"] <= bounds["zcdp"] <= bounds["advanced"] <= bounds["simple"] == 5.0
    assert compose(events, delta).method == "pld"


def test_advanced_composition_is_the_published_formula():
    e, k, d = 0.1, 200, 1e-6
    expected = k * e * math.tanh(e / 2) + math.sqrt(2 * k * e * e * math.log(1 / d))
    assert compose([LaplaceEvent(1 / e, count=k)], d, "advanced").high == pytest.approx(expected)


def test_different_releases_compose():
    events = [
        GaussianEvent(5.0, count=10),
        LaplaceEvent(10.0, count=3),
        GeometricEvent(10.0, sampling=0.1, count=30),
    ]
    bound = compose(events, 1e-6)
    alone = [compose([event], 1e-6).high for event in events]
    assert max(alone) <= bound.high <= sum(alone) * 1.5
    assert bound.low <= bound.estimate <= bound.high


@settings(max_examples=20, deadline=None)
@given(st.floats(1, 50), st.integers(1, 50), st.floats(0.01, 1), st.sampled_from([1e-4, 1e-6]))
def test_more_rounds_never_cost_less_and_no_rule_undercuts_the_exact_one(multiplier, count, sampling, delta):
    fewer = compose([GaussianEvent(multiplier, sampling=sampling, count=count)], delta).high
    more = compose([GaussianEvent(multiplier, sampling=sampling, count=2 * count)], delta).high
    assert fewer <= more * (1 + 1e-3)
    unsampled = gaussian_epsilon(multiplier / math.sqrt(count), delta)
    assert fewer <= unsampled * 1.01 + 1e-3
    for method in METHODS:
        if sampling == 1:
            assert compose([GaussianEvent(multiplier, count=count)], delta, method).high >= unsampled * (1 - 1e-9)


def test_no_rule_goes_below_the_exact_composition_of_scalar_laplace_noise():
    from noise_laws import LAPLACE

    from parley.privacy.accounting.pairs import Pair, from_curve

    scalar = from_curve(*Pair(LAPLACE, 0.5 / 20).curve(), 1e-4).self_compose(100).get_epsilon_for_delta(1e-5)
    for method in METHODS:
        bound = compose([LaplaceEvent(20.0, count=100)], 1e-5, method)
        assert bound.high >= scalar * (1 - 1e-3)
        assert bound.low == 0.0
    for count, epsilon in ((10**12, 1e-8), (10**10, 1e-7)):
        truth = 0.0272 if count == 10**12 else 0.027  # the Gaussian limit of so many tiny releases
        assert compose([LaplaceEvent(1 / epsilon, count=count)], 1e-5, "rdp").high >= truth * 0.99


@pytest.mark.parametrize(
    "wrong",
    [
        {"multiplier": -10.0},
        {"multiplier": float("nan")},
        {"multiplier": 1e-200},
        {"sampling": 2.0},
        {"sampling": float("nan")},
        {"sampling": 0.0},
        {"count": 0},
        {"count": 1.5},
        {"norm": "l2"},
    ],
)
def test_impossible_events_are_one_sentence(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        Event.from_dict({"mechanism": "laplace", "multiplier": 1.0, "norm": "l1"} | wrong)


def test_sampled_gaussian_oracle():
    bound = compose([GaussianEvent(0.5, sampling=0.01, count=1000)], 1e-5, "pld")
    assert bound.high == pytest.approx(2.84, rel=0.01)
    assert bound.low <= 2.8434 <= bound.high


def test_ten_thousand_sampled_releases_stay_sharp():
    """10.88 by dp-accounting at a grid of 1e-4 (replace-one, sigma = 1 for records clipped at 1)."""
    bound = compose([GaussianEvent(0.5, sampling=0.01, count=10_000)], 1e-5, "pld")
    assert bound.high == pytest.approx(10.8808, rel=2e-3)


def test_inverse_problems_end_on_the_private_side():
    ratio = multiplier_for(partial(GaussianEvent, count=100), 1.0, 1e-5)
    assert gaussian_delta(1.0, 10 / ratio) <= 1e-5
    assert gaussian_delta(1.0, 10 / (ratio * 0.9999)) > 1e-5
    rounds = rounds_for(GaussianEvent(40.0), 1.0, 1e-5)
    assert compose([GaussianEvent(40.0, count=rounds)], 1e-5).high <= 1.0
    assert compose([GaussianEvent(40.0, count=rounds + 1)], 1e-5).high > 1.0
    assert multiplier_for(partial(LaplaceEvent, count=10), 2.0) == pytest.approx(5.0, rel=2e-6)
    assert rounds_for(LaplaceEvent(10.0), 1.0, 0.0) == 10
    assert rounds_for(LaplaceEvent(0.5), 1.0, 0.0) == 0
    stable = multiplier_for(partial(StableEvent, alpha=1.9, norm="l2", count=4), 1.0, 1e-5)
    assert compose([StableEvent(stable, norm="l2", alpha=1.9, count=4)], 1e-5).high <= 1.0


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_series_spends_its_budget_round_by_round(mechanism):
    delta = Fraction(0) if mechanism == "laplace" else Fraction("1e-6")
    series = make_series(mechanism, Fraction(7, 10), delta, 30, sensitivity=0.2)
    for k in (1, 2, 10, 29):
        event = series.event.times(k)
        exact = compose([event], float(delta), "simple" if mechanism == "laplace" else "pld").high
        assert float(series.spent_after(k)) == pytest.approx(exact, rel=1e-6)
    assert series.spent_after(0) == 0
    assert series.spent_after(30) == Fraction(7, 10)
    assert series.spent_after(31) > Fraction(7, 10)
    shared = make_series(mechanism, Fraction(7, 10), delta, 30, 0.2, shared_records=2)
    for k in (1, 10, 30):  # all copies of a record together
        event = shared.event.times(k)
        one = compose([event], float(delta) / 2, "simple" if mechanism == "laplace" else "pld").high
        assert float(shared.spent_after(k)) >= 2 * one * (1 - 1e-6) - 1e-9
    assert shared.mechanism.event.multiplier > 1.9 * series.mechanism.event.multiplier


@pytest.mark.parametrize(
    ("events", "delta", "method", "message"),
    [
        ([], 1e-5, "best", "at least one"),
        ([GaussianEvent(1.0)], 0.0, "best", "no epsilon without a delta"),
        ([LaplaceEvent(1.0)], 0.0, "pld", "needs a delta"),
        ([LaplaceEvent(1.0)], float("nan"), "best", "delta = nan"),
        ([LaplaceEvent(1.0)], 1.5, "best", "delta = 1.5"),
        ([GaussianEvent(1.0, sampling=0.1)], 1e-5, "zcdp", "no amplification"),
    ],
)
def test_impossible_questions_are_one_sentence(events, delta, method, message):
    with pytest.raises(SettingError, match=message):
        compose(events, delta, method)


@pytest.mark.parametrize(
    "kind", [GaussianEvent, LaplaceEvent, GeometricEvent, partial(StableEvent, alpha=1.5, norm="l1")]
)
@pytest.mark.parametrize("count", [1, 967, 10**9])
def test_every_size_of_noise_has_a_finite_bound_or_a_sentence(kind, count):
    for multiplier in (1e-9, 1e-4, 1e-3, 1e-2, 1.0, 1e4, 1e15):
        for sampling in (1.0, 0.00517171, 1e-12):
            event = kind(multiplier, sampling, count)
            for method in ("best", "pld"):
                with contextlib.suppress(SettingError):
                    assert 0 <= compose([event], 1e-6, method).high < math.inf


def test_one_gaussian_release_is_never_called_cheaper_than_it_is():
    """Against 60 digits, at settings where the curve's own rounding would show."""
    for multiplier, delta in (
        (271.1724214512154, 0.0014657255847490677),
        (573.3606074862809, 0.0005215053204296051),
        (1.0, 1e-12),
    ):
        with mpmath.workdps(60):
            e, s = mpmath.mpf(gaussian_epsilon(multiplier, delta)), 1 / mpmath.mpf(multiplier)
            assert mpmath.ncdf(s / 2 - e / s) - mpmath.e**e * mpmath.ncdf(-s / 2 - e / s) <= delta
