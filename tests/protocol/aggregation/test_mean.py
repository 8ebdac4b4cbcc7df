import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.protocol.aggregation import EachOwnerNoise, weighted_mean
from parley.protocol.queries import Answer

OWNERS = st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 1e6)), min_size=1, max_size=8)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(-1e6, 1e6)), min_size=1, max_size=8))
def test_it_is_the_mean_over_all_records(parts):
    answers = [Answer("q", str(i), n, np.full((2, 3), v)) for i, (n, v) in enumerate(parts)]
    expected = sum(n * v for n, v in parts) / sum(n for n, _ in parts)
    np.testing.assert_allclose(weighted_mean(answers), expected, rtol=1e-9, atol=1e-6)


def by_hand(records, variances, chosen):
    """(n, v) of the owners at these places."""
    n = sum(records[i] for i in chosen)
    return n, sum((records[i] / n) ** 2 * variances[i] for i in chosen)


def mask(chosen, count):
    return np.isin(np.arange(count), list(chosen))


@pytest.mark.parametrize("chosen", [(0,), (0, 2), (1, 2), (0, 1, 2)])
def test_the_variance_of_a_coalition_is_that_of_its_weighted_mean(chosen):
    """20,000 means of noisy answers: their variance is v within 4.5 standard errors; with equal weights it would not
    be."""
    records, variances, draws = np.array([100, 300, 1000]), np.array([9.0, 4.0, 1.0]), 20_000
    rng = np.random.default_rng(0)
    noisy = [Answer("q", str(i), int(records[i]), rng.normal(0, np.sqrt(variances[i]), draws)) for i in chosen]
    measured, error = weighted_mean(noisy).var(), np.sqrt(2 / draws)
    expected = float(EachOwnerNoise(records, variances).variance(mask(chosen, 3)))
    assert measured == pytest.approx(expected, rel=4.5 * error)
    if len(chosen) > 1:
        unweighted = variances[list(chosen)].sum() / len(chosen) ** 2
        assert measured != pytest.approx(unweighted, rel=4.5 * error)


@settings(deadline=None)
@given(OWNERS)
def test_all_coalitions_at_once_are_each_one_by_hand(parts):
    records, variances = (np.array(column, dtype=float) for column in zip(*parts, strict=True))
    noise, count = EachOwnerNoise(records, variances), len(parts)
    coalitions = np.array(list(itertools.product((False, True), repeat=count)))
    expected = [by_hand(records, variances, np.flatnonzero(members)) for members in coalitions]
    np.testing.assert_allclose(noise.size(coalitions), [n for n, _ in expected])
    np.testing.assert_allclose(noise.variance(coalitions), [v for _, v in expected], rtol=1e-12, atol=1e-300)
    assert noise.variance(coalitions.reshape(2, -1, count)).shape == (2, len(coalitions) // 2)
    assert EachOwnerNoise(records, variances).all_together == pytest.approx(expected[-1][1], rel=1e-12)
    np.testing.assert_allclose(noise.shares(records.sum()).sum(), expected[-1][1], rtol=1e-12, atol=1e-300)


@settings(deadline=None)
@given(OWNERS, st.randoms(use_true_random=False))
def test_prefixes_are_the_first_owners_of_an_order(parts, random):
    records, variances = (np.array(column, dtype=float) for column in zip(*parts, strict=True))
    order = np.array(random.sample(range(len(parts)), len(parts)))
    n, v = EachOwnerNoise(records, variances).prefixes(order)
    for place in range(len(parts)):
        np.testing.assert_allclose(
            (n[place], v[place]), by_hand(records, variances, order[: place + 1]), rtol=1e-12, atol=1e-300
        )


@settings(deadline=None)
@given(OWNERS, st.randoms(use_true_random=False))
def test_a_coalition_with_and_without_each_owner(parts, random):
    """Every owner in turn leaves, or is in with answers of another variance; also where one owner's noise is nearly all
    there is."""
    records, variances = (np.array(column, dtype=float) for column in zip(*parts, strict=True))
    count, own = len(parts), np.array([random.choice([0.0, 1.0, 1e12]) for _ in parts])
    members = np.array([random.random() < 0.7 for _ in parts])
    noise = EachOwnerNoise(records, variances)
    (less, quieter), (more, louder) = noise.without_each(members), noise.with_each(members, own)
    for owner in range(count):
        others = set(np.flatnonzero(members)) - {owner}
        np.testing.assert_allclose(
            (less[owner], quieter[owner]), by_hand(records, variances, others), rtol=1e-12, atol=1e-300
        )
        there = np.where(np.arange(count) == owner, own, variances)
        np.testing.assert_allclose(
            (more[owner], louder[owner]), by_hand(records, there, others | {owner}), rtol=1e-12, atol=1e-300
        )


def test_many_coalitions_with_their_own_variances():
    """One row a coalition, each with noise of its own: the same as one by one."""
    rng = np.random.default_rng(1)
    records, members = rng.integers(1, 1000, 5).astype(float), rng.random((7, 5)) < 0.5
    variances, own = rng.random((7, 5)), rng.random((7, 5))
    n, v = EachOwnerNoise(records, variances).with_each(members, own)
    for row in range(7):
        one = EachOwnerNoise(records, variances[row])
        np.testing.assert_allclose((n[row], v[row]), one.with_each(members[row], own[row]), rtol=1e-13)
        np.testing.assert_allclose(
            EachOwnerNoise(records, variances).variance(members)[row], one.variance(members[row]), rtol=1e-13
        )
