import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import BOUNDS, make_terms, regression_table

from parley.data import Design, fit_preparation
from parley.data.design import summation_slack
from parley.losses import LeastSquaresClasses, RecordBound
from parley.losses.moments import mean_moments, moments_bound, moments_length, moments_sensitivity, unpack_moments

ORDER = {"l1": 1, "l2": 2}


def random_design(n, p, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return Design(rng.normal(0, scale, (n, p)), rng.normal(0, scale, n), np.ones(n))


def packed(z, norm):
    """The literal definition: the upper triangle of z z', off-diagonals times sqrt 2 in L2."""
    i, j = np.triu_indices(len(z))
    return np.outer(z, z)[i, j] * np.where((i == j) | (norm == "l1"), 1.0, math.sqrt(2))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_clipping_equals_the_per_record_definition(norm):
    design, bound = random_design(50, 3, 1), RecordBound(4.0, norm, clips=True)
    rows = [packed(np.append(x, y), norm) for x, y in zip(design.X, design.y, strict=True)]
    sizes = np.array([np.linalg.norm(row, ORDER[norm]) for row in rows])
    assert 0.1 < (sizes > 4.0).mean() < 0.9
    expected = np.mean([row * min(1, 4.0 / size) for row, size in zip(rows, sizes, strict=True)], axis=0)
    value = mean_moments(design, bound)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert value.shape == (moments_length(3),)


def test_unpacking_gives_the_matrix_back():
    design = random_design(40, 2, 3)
    z = np.column_stack([design.X, design.y])
    for norm in ("l1", "l2"):
        value = mean_moments(design, RecordBound(1e6, norm, clips=True))
        np.testing.assert_allclose(unpack_moments(np.stack([value, 2 * value]), 2, norm)[0], z.T @ z / 40, rtol=1e-12)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["l1", "l2"]),
    st.integers(1, 5),
    st.integers(1, 3),
    st.floats(0.01, 50),
    st.integers(0, 10**6),
    st.floats(0.1, 1e3),
)
def test_no_person_moves_the_moments_further_than_their_sensitivity(norm, p, k, clip, seed, scale):
    """Replace k rows by others, adversarial ones included."""
    n, rng = 7, np.random.default_rng(seed)
    before = random_design(n, p, seed, scale)
    X, y = before.X.copy(), before.y.copy()
    X[:k], y[:k] = rng.normal(0, scale, (k, p)), rng.normal(0, scale, k)
    if seed % 2:
        X[:k, : p // 2], y[:k] = 0.0, 0.0  # orthogonal to nothing but far away
    bound = RecordBound(clip, norm, clips=True)
    one, other = mean_moments(before, bound), mean_moments(Design(X, y, np.ones(n)), bound)
    assert np.linalg.norm(one - other, ORDER[norm]) <= moments_sensitivity(
        bound, n, summation_slack(len(before), before.width), k
    )


def test_the_sensitivity_is_reached():
    """In L2 two orthogonal records at the clip are sqrt 2 clips apart, in L1 two; half of it would be caught."""
    for norm, reach in (("l1", 2.0), ("l2", math.sqrt(2))):
        bound = RecordBound(1.0, norm, clips=True)
        one, other = (Design(np.array([row]), np.zeros(1), np.ones(1)) for row in ([5.0, 0.0], [0.0, 5.0]))
        apart = np.linalg.norm(mean_moments(one, bound) - mean_moments(other, bound), ORDER[norm])
        assert apart == pytest.approx(reach, rel=1e-9)
        assert apart <= moments_sensitivity(bound, 1, summation_slack(len(one), one.width)) < 1.0001 * apart


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_record_of_any_class_moves_the_moments_further_than_their_sensitivity(norm):
    """One row of one, replaced by one of another class: over sizes from 1e-50 to 1e50, and at the corners, where the
    bound is reached."""
    outcomes = LeastSquaresClasses().outcomes(SimpleNamespace(classes=("a", "b", "c")))
    rng, worst, bound = np.random.default_rng(0), 0.0, RecordBound(2.0, norm, clips=True)
    limit = moments_sensitivity(bound, 1, summation_slack(1, 4))
    for _ in range(600):
        X = rng.choice([-1.0, 0.0, 1.0], (2, 2)) * 10.0 ** rng.choice([0.0, rng.uniform(-50, 50)], (2, 2))
        places = rng.integers(0, 3, 2).astype(float)
        one, other = (
            mean_moments(Design(X[k : k + 1], places[k : k + 1], np.ones(1)), bound, outcomes) for k in (0, 1)
        )
        assert one.shape == (moments_length(2, 3),)
        worst = max(worst, float(np.linalg.norm(one - other, ORDER[norm])))
    assert 0.9 * limit < worst <= limit
    far = [mean_moments(Design(np.array([[5.0, 0.0]]), np.array([c]), np.ones(1)), bound, outcomes) for c in (0.0, 1.0)]
    assert np.linalg.norm(far[0] - far[1], ORDER[norm]) <= limit


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_bounds_of_the_columns_imply_a_bound(norm):
    terms = make_terms(
        10,
        model__bounds=BOUNDS,
        privacy__clip=None,
        learning__algorithm="sufficient-statistics",
        learning__horizon=1,
        learning__step=None,
    )
    preparation, _ = fit_preparation(terms, regression_table(10))
    bound = moments_bound(preparation, terms.privacy.clip, norm)
    corner = packed(np.array([1.0, 1.0, 1.0, 3.0]), norm)
    assert not bound.clips
    assert bound.value == pytest.approx(np.linalg.norm(corner, ORDER[norm]), rel=1e-9)
