"""What bounds one record, and the clip that enforces it."""

import numpy as np
import pytest

from parley.data import Design
from parley.losses import RecordBound
from parley.losses.loss import clip, derivative_limit, tightest
from parley.validate import SMALLEST


def test_sensitivity_grows_with_the_records_of_a_person():
    bound = RecordBound(2.0, "l1", clips=True)
    assert bound.sensitivity(100, 0.0) == pytest.approx(0.04)
    assert bound.sensitivity(100, 0.0, records_per_person=3) == pytest.approx(0.12)


def test_the_smaller_of_clip_and_bounds_counts_and_nothing_bounds_nothing():
    assert tightest(2.0, 3.0, "l2") == RecordBound(2.0, "l2", clips=True)
    assert tightest(3.0, 2.0, "l2") == RecordBound(2.0, "l2", clips=False)
    assert tightest(None, np.inf, "l1") is None


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_a_derivative_at_its_limit_times_the_row_measures_at_most_the_bound(norm):
    """Rows of any size, rounding included; a row that is zero has a finite limit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 7)) * 10.0 ** rng.integers(-40, 40, (2000, 1))
    X[0] = 0.0
    design, bound = Design(X, np.zeros(2000), np.ones(2000)), RecordBound(0.3, norm, clips=True)
    limit = derivative_limit(design, bound)
    sizes = np.linalg.norm(limit[:, None] * X, {"l1": 1, "l2": 2, "linf": np.inf}[norm], axis=1)
    assert np.isfinite(limit).all()
    assert limit[0] <= bound.value / SMALLEST
    assert 0.3 * (1 - 1e-14) < sizes[1:].max() <= 0.3


def test_clipping_is_that_of_numpy_to_the_bit_at_every_magnitude():
    sizes = np.array([0.0, 5e-324, 1e-107, 0.5, 1.0, np.nextafter(1.0, 2.0), 1e100, 1e160, np.inf])
    values = np.concatenate([sizes, -sizes, [np.nan]])
    limit, derivatives = np.repeat(sizes, len(values)), np.tile(values, len(sizes))
    for shape in ((-1,), (1, -1)):
        clipped = derivatives.reshape(shape).copy()
        clip(clipped, limit)
        expected, some = np.clip(derivatives, -limit, limit), limit > 0
        assert clipped.reshape(-1)[some].tobytes() == expected[some].tobytes()
        assert np.array_equal(clipped.reshape(-1), expected, equal_nan=True)  # within 0 is 0, of either sign
        assert ((np.abs(clipped) <= limit) | np.isnan(derivatives)).all()
