"""Lower bounds hold and have power: mechanisms as they are stay below what they claim, with half their noise they do
not."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import parley.audit
from parley.audit.distinguishing import best_event, rates, release_of, trade_off
from parley.errors import GuaranteeError, SettingError
from parley.privacy.accounting.shared_calibration import Span, Spans, shared_law
from parley.privacy.mechanisms import Exponential, Gaussian, Geometric, GridGeometric, Laplace, Stable

ONE, DELTA = Fraction(1), 1e-5
SHARED = {
    law: shared_law(law, ONE, delta, 1, 1, Spans.from_spans([Span(100, 0.01, 1.0, 1.0)])).over(100, 0.01)
    for law, delta in (("laplace", Fraction(0)), ("gaussian", Fraction(str(DELTA))))
}
# mechanism, two neighbouring values, delta, and less than 200,000 draws proved with any of three seeds
CASES = {
    "laplace": (Laplace.calibrate(ONE, 1.0), [0.0], [1.0], 0.0, 0.9),
    "laplace, two numbers": (Laplace.calibrate(ONE, 1.0), [0.0, 0.0], [0.5, 0.5], 0.0, 0.6),
    "gaussian": (Gaussian.calibrate(ONE, DELTA, 1.0), [0.0, 0.0], [0.6, -0.8], DELTA, 0.4),
    "geometric": (Geometric.calibrate(ONE, 2), [3.0], [5.0], 0.0, 0.85),
    "grid": (GridGeometric.calibrate(ONE, 1.0), [0.0], [1.0], 0.0, 0.9),
    "stable": (Stable.calibrate(ONE, 1.0, 1.0), [0.0], [1.0], 0.0, 0.6),
    "one noise, laplace": (SHARED["laplace"], [0.0], [0.01], 0.0, 0.9),
    "one noise, gaussian": (SHARED["gaussian"], [0.0], [0.01], DELTA, 0.3),
}


@pytest.mark.parametrize("case", CASES)
def test_no_mechanism_is_shown_to_cost_more_than_it_claims_and_the_bound_is_not_empty(case):
    mechanism, a, b, delta, least = CASES[case]
    # 99 % for all cases together
    found = parley.audit.lower_bound(release_of(mechanism), a, b, 200_000, delta, 1 - 0.01 / len(CASES), seed=3)
    assert least < found <= 1


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("one noise")])
def test_half_the_noise_is_caught(case):
    mechanism, a, b, delta, _ = CASES[case]
    scale = "sigma" if isinstance(mechanism, Gaussian) else "scale"
    half = replace(mechanism, **{scale: getattr(mechanism, scale) / 2})
    assert parley.audit.lower_bound(release_of(half), a, b, 400_000, delta, seed=5) > 1


def test_a_choice_is_attacked_by_who_was_chosen():
    choice, rest = Exponential.calibrate(ONE, 1.0), [1.0] * 19
    a, b = [0.0, *rest], [1.0, *(0.0 for _ in rest)]
    found = parley.audit.lower_bound(release_of(choice), a, b, 8_000, seed=1)
    sharper = replace(choice, scale=choice.scale / 2)
    assert 0.6 < found <= 1 < parley.audit.lower_bound(release_of(sharper), a, b, 8_000, seed=1)


@pytest.mark.parametrize("case", ["laplace", "gaussian", "geometric", "grid"])
def test_the_exact_samplers_that_owners_release_with(case):
    mechanism, a, b, delta, _ = CASES[case]
    # exact samplers take no seed, so the bound may fail once in a thousand million times
    assert parley.audit.lower_bound(release_of(mechanism, safe=True), a, b, 300, delta, confidence=1 - 1e-9) <= 1
    with pytest.raises(GuaranteeError, match="only hosts can draw safe shared noise"):
        release_of(SHARED["laplace"], safe=True)


def test_the_bound_is_wrong_as_often_as_it_says_at_most():
    """Of 150 bounds at 90 % those above the exact 1 are at most 10 %, but for three standard errors."""

    def laplace(value, size, rng):
        return value + rng.laplace(size=(size, *value.shape))

    found = [parley.audit.lower_bound(laplace, 0.0, 1.0, 400, confidence=0.9, seed=s) for s in range(150)]
    assert np.mean(np.array(found) > 1) <= 0.1 + 3 * (0.1 * 0.9 / 150) ** 0.5


def test_chunks_change_neither_memory_nor_meaning(monkeypatch):
    sizes = []

    def counted(value, size, rng):
        sizes.append(size)
        return value + rng.laplace(size=(size, *value.shape))

    monkeypatch.setattr("parley.audit.distinguishing.NUMBERS_PER_CHUNK", 3000)
    assert 0.7 < parley.audit.lower_bound(counted, [0.0, 0.0], [1.0, 0.0], 10_000, seed=1) <= 1
    assert max(sizes) == 1500
    assert sum(sizes) == 40_000


def test_values_that_do_not_differ_prove_nothing_and_nonsense_is_refused():
    release = release_of(Laplace.calibrate(ONE, 1.0))
    assert parley.audit.lower_bound(release, [1.0], [1.0], 1000, seed=0) == 0
    for wrong in ({"draws": 0}, {"delta": 1.0}, {"confidence": 1.0}, {"b": [1.0, 2.0]}, {"a": [np.nan]}):
        with pytest.raises(SettingError):
            parley.audit.lower_bound(**{"release": release, "a": [0.0], "b": [1.0], "draws": 10, **wrong})
    with pytest.raises(SettingError, match="shape"):
        parley.audit.lower_bound(lambda value, size, rng: value, [0.0], [1.0], 10)


@given(st.integers(1, 2000), st.floats(0, 1), st.floats(1e-4, 0.4))
def test_rates_are_those_of_clopper_and_pearson(draws, share, miss):
    hits = round(share * draws)
    low, high = (float(end) for end in rates(hits, draws, miss))
    assert 0 <= low <= hits / draws <= high <= 1
    assert low == 0 or binom.sf(hits - 1, draws, low) == pytest.approx(miss, rel=1e-6)
    assert high == 1 or binom.cdf(hits, draws, high) == pytest.approx(miss, rel=1e-6)


def test_the_best_event_of_shifted_numbers_lies_in_a_tail_and_the_curve_ends_in_the_corners():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=5000), rng.normal(size=5000) + 2
    event = best_event(a, b, 0.0, 0.99)
    assert (event.above, event.of_b) in {(True, True), (False, False)}
    curve = np.array(trade_off(a, b))
    assert curve[0].tolist() == [1, 0]
    assert curve[-1].tolist() == [0, 1]
    assert (np.diff(curve[:, 0]) <= 0).all()
    assert (np.diff(curve[:, 1]) >= 0).all()
