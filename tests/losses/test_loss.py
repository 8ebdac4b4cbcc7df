"""Formulas of losses: derivatives are those of the loss, bounds hold and are reached, and every record is computed on
its own."""

import numpy as np
import pytest

from parley.data import Design
from parley.losses.class_loss import EachClass, Multinomial
from parley.losses.loss import Hinge, Logistic, Squared

ONE = [Hinge(), Hinge(smoothing=0.3), Logistic(), Squared()]
SEVERAL = [Multinomial(), EachClass(Logistic(), own=1.0, other=-1.0), EachClass(Squared(), own=1.0, other=0.0)]


def margins(loss, n=400, reach=4.0):
    rng = np.random.default_rng(0)
    y = rng.normal(size=n).clip(-2, 2) if isinstance(loss, Squared) else rng.choice([-1.0, 1.0], n)
    return rng.uniform(-reach, reach, n), y


@pytest.mark.parametrize("loss", ONE, ids=repr)
def test_gradient_and_hessian_are_the_derivatives(loss):
    (raw, y), h = margins(loss), 1e-6
    numeric = (loss.loss(raw + h, y) - loss.loss(raw - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(raw.copy(), y), numeric, atol=1e-6)
    curvature = (loss.gradient(raw + h, y) - loss.gradient(raw - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.hessian(raw, y), curvature, atol=1e-6)


@pytest.mark.parametrize("loss", ONE, ids=repr)
def test_no_derivative_exceeds_the_largest_and_one_comes_close(loss):
    raw, y = margins(loss, 100_000)
    largest = loss.largest_derivative(4.0, 2.0)
    assert 0.9 * largest < np.abs(loss.gradient(raw.copy(), y)).max() <= largest
    if loss.smooth:
        assert 0.99 * loss.largest_curvature < loss.hessian(raw, y).max() <= loss.largest_curvature


@pytest.mark.parametrize("loss", SEVERAL, ids=repr)
def test_gradient_and_hessian_of_several_classes_are_the_derivatives(loss):
    rng, h = np.random.default_rng(1), 1e-6
    raw, y = rng.normal(size=(3, 50)), rng.integers(0, 3, 50).astype(float)
    hessian = np.zeros((3, 3, 50))
    for c, d, curvature in loss.hessian(raw, y):
        hessian[c, d] = hessian[d, c] = curvature
    for c in range(3):
        away = h * (np.arange(3) == c)[:, None]
        numeric = (loss.loss(raw + away, y) - loss.loss(raw - away, y)) / (2 * h)
        np.testing.assert_allclose(loss.gradient(raw.copy(), y)[c], numeric, atol=1e-6)
        np.testing.assert_allclose(
            hessian[c], (loss.gradient(raw + away, y) - loss.gradient(raw - away, y)) / (2 * h), atol=1e-6
        )
    assert np.linalg.eigvalsh(np.moveaxis(hessian, -1, 0)).max() <= loss.largest_curvature * (1 + 1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("loss", SEVERAL, ids=repr)
def test_no_gradient_over_classes_exceeds_the_largest_and_one_comes_close(loss, norm):
    corners = 12.0 * np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1)
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    sizes = [np.linalg.norm(loss.gradient(corners.copy(), np.full(8, y)), order, axis=0).max() for y in (0.0, 1.0, 2.0)]
    largest = loss.largest_derivative(norm, 3, 12.0)
    assert 0.9 * largest < max(sizes) <= largest


@pytest.mark.parametrize("loss", [*ONE, *SEVERAL], ids=repr)
def test_of_rows_drawn_in_secret_each_is_computed_on_its_own(loss):
    """The same bits whoever stands beside it: with the table's own functions, not with NumPy's."""
    rng = np.random.default_rng(2)
    rows = Design(rng.normal(size=(37, 5)), rng.integers(0, 2, 37).astype(float), np.ones(37), secret=True)
    theta = rng.normal(size=(3, 5) if loss in SEVERAL else (1, 5)) * 1e3

    def derivatives(block):
        raw = block.margins(theta) if loss in SEVERAL else block.margins(theta)[0]
        return loss.gradient(raw, block.y, block)

    together = derivatives(rows)
    for place in range(37):
        np.testing.assert_array_equal(derivatives(rows.cut(slice(place, place + 1)))[..., 0], together[..., place])
