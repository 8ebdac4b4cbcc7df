import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import laplace, norm, trim_mean

from parley.privacy.mechanisms import Gaussian, Laplace
from parley.protocol.aggregation.robust import RULES, geometric_median, krum, noise_price, trimmed_mean, weighted_median

RNG = np.random.default_rng(0)
OWNERS = st.lists(st.tuples(st.integers(1, 9), st.floats(-1e6, 1e6)), min_size=3, max_size=8)


def repeated(parts):
    """Every owner's answer as often as it has records."""
    return np.concatenate([np.full(n, v) for n, v in parts])


@given(OWNERS)
def test_the_weighted_median_is_the_median_of_answers_that_are_repeated(parts):
    records, values = (np.array(column) for column in zip(*parts, strict=True))
    found = weighted_median(values[:, None].astype(float), records)
    np.testing.assert_allclose(found, np.median(repeated(parts)), rtol=1e-12, atol=1e-9)


@given(OWNERS)
def test_the_weighted_trimmed_mean_is_that_of_answers_that_are_repeated(parts):
    records, values = (np.array(column) for column in zip(*parts, strict=True))
    cut, total = int(records.max()), int(records.sum())
    if 2 * cut >= total:
        return
    found = trimmed_mean(values[:, None].astype(float), records, 1)
    expected = np.sort(repeated(parts))[cut : total - cut].mean()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize(("owners", "liars"), [(5, 1), (5, 2), (9, 3)])
def test_equal_owners_have_the_trimmed_mean_of_scipy(owners, liars):
    values = RNG.normal(size=(4, owners, 3))
    found = trimmed_mean(values, np.full(owners, 7), liars)
    np.testing.assert_allclose(found, trim_mean(values, liars / owners + 1e-9, axis=1), rtol=1e-12)


@pytest.mark.parametrize("weights", [[1, 1, 1, 1, 1], [5, 1, 2, 3, 1], [1, 9, 1, 1, 1]])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_no_point_is_nearer_to_all_answers_than_the_geometric_median(weights, size):
    values, weights = np.random.default_rng(size).standard_t(2, size=(3, 5, size)), np.array(weights)
    found = geometric_median(values, weights)

    def cost(point, each):
        return float(weights @ np.linalg.norm(values[each] - point, axis=1))

    for each in range(3):
        starts = [values[each].mean(axis=0), *values[each]]
        best = min(
            minimize(cost, s, (each,), "Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}).fun
            for s in starts
        )
        assert cost(found[each], each) <= best * (1 + 1e-7)


def test_the_geometric_median_stays_at_an_answer_that_weighs_half():
    values = np.array([[0.0, 0.0], [3.0, 4.0], [-1.0, 2.0]])
    np.testing.assert_allclose(geometric_median(values, np.array([2, 1, 1])), [0, 0], atol=1e-6)
    np.testing.assert_allclose(geometric_median(np.zeros((4, 3)), np.ones(4, dtype=int)), 0)


def krum_by_hand(values, liars):
    n = len(values)
    scores = [
        sum(sorted(float(np.sum((values[i] - values[j]) ** 2)) for j in range(n) if j != i)[: n - liars - 2])
        for i in range(n)
    ]
    return values[int(np.argmin(scores))]


def test_krum_is_what_its_definition_says():
    values = RNG.normal(size=(50, 7, 4))
    found = krum(values, np.arange(1, 8), 2)
    for each, expected in zip(found, values, strict=True):
        np.testing.assert_array_equal(each, krum_by_hand(expected, 2))


@pytest.mark.parametrize("rule", RULES)
def test_replicates_are_an_axis_and_constants_come_through(rule):
    values, records = RNG.normal(size=(2, 3, 5, 4)), np.array([3, 4, 5, 4, 3])
    together = RULES[rule](values, records, 1)
    assert together.shape == (2, 3, 4)
    for place in itertools.product(range(2), range(3)):
        np.testing.assert_allclose(RULES[rule](values[place], records, 1), together[place], rtol=1e-12)
    np.testing.assert_allclose(RULES[rule](np.full((5, 2), 2.5), records, 1), 2.5, rtol=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([r for r in RULES if r != "mean"]), st.floats(-1e12, 1e12), st.integers(0, 4))
def test_one_liar_among_five_moves_no_rule_out_of_the_honest_and_the_mean_anywhere(rule, lie, place):
    """Honest answers lie within 1 of one another; the bound of the geometric median at a share of 1/5 is 2.7 times as
    much."""
    values, records = np.random.default_rng(place).uniform(size=(5, 3)), np.full(5, 10)
    values[place] = lie
    moved = np.abs(RULES[rule](values, records, 1) - 0.5).max()
    assert moved <= (3.0 if rule == "geometric-median" else 0.5 + 1e-9)
    if abs(lie) > 100:
        assert np.abs(RULES["mean"](values, records, 1)).max() > 10


def median_variance(owners, law):
    """Of the median of so many equal draws, an odd number, by the density of the middle order statistic."""
    k = owners // 2
    share = np.exp(sum(np.log(np.arange(k + 1, owners + 1))) - sum(np.log(np.arange(1, k + 1))))

    def density(x):
        return share * (law.cdf(x) * law.sf(x)) ** k * law.pdf(x)

    return 2 * quad(lambda x: x**2 * density(x), 0, np.inf)[0]


@pytest.mark.parametrize("owners", [3, 5, 11])
@pytest.mark.parametrize(("noise", "law"), [(Gaussian(2.0, 1.0), norm), (Laplace(2.0, 1.0), laplace)])
def test_the_price_of_the_median_is_that_of_its_order_statistic(owners, noise, law):
    """Within 4.5 standard errors of a simulated variance (kurtosis up to 6); with another number of owners it would not
    be."""
    expected = owners * median_variance(owners, law) / law.var()
    found = noise_price(weighted_median, (noise,) * owners, (100,) * owners, 10, 1)
    assert found == pytest.approx(expected, rel=4.5 * np.sqrt(5 / 2e5))
    other = (owners + 2) * median_variance(owners + 2, law) / law.var()
    assert found != pytest.approx(other, rel=4.5 * np.sqrt(5 / 2e5)) or owners == 11


@pytest.mark.parametrize(("law", "price"), [(Gaussian(1.0, 1.0), 3.64), (Laplace(1.0, 1.0), 3.21)])
def test_beside_many_small_owners_the_median_is_the_large_one_noise_and_all(law, price):
    """49 records beside 51 owners with one: nearly 4, what half of the weight would have."""
    records = (49, *(1,) * 51)
    assert noise_price(weighted_median, (law,) * 52, records, 1, 1) == pytest.approx(price, rel=0.05)


def test_prices_of_the_other_rules():
    """The mean's is 1; of many equal owners the median's is pi/2 and Krum's nearly their number; trimming lies
    between."""
    laws, records = (Gaussian(1.0, 1.0),) * 15, (10,) * 15
    price = {rule: noise_price(RULES[rule], laws, records, 20, 3) for rule in RULES}
    assert price["mean"] == pytest.approx(1, rel=0.03)
    assert price["median"] == pytest.approx(np.pi / 2, rel=0.05)
    assert 1 < price["trimmed-mean"] < price["median"]
    assert 1 < price["geometric-median"] < 1.1  # in many coordinates all answers are equally far away
    assert 6 < price["krum"] < 15
