"""Arithmetic of single rows: right, and the same to the bit whoever stands beside a row and wherever it stands.

Premise F1.
"""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from parley.data import Design, rowwise

RNG = np.random.default_rng(0)
WIDTHS = [1, 2, 3, 7, 8, 9, 16, 31, 100, 300]


def hard(rows, width, rng):
    """Numbers of all sizes, whose products with theta cancel."""
    X = rng.normal(size=(rows, width)) * 10.0 ** rng.integers(-50, 50, (rows, width))
    X[:, : width // 2] = X[:, width - width // 2 :]
    theta = rng.normal(size=(3, width)) * 10.0 ** rng.integers(-50, 50, width)
    theta[:, : width // 2] = -theta[:, width - width // 2 :]
    return X, theta


def companies(rows, rng):
    """Some of the rows, from one to all, in any order."""
    return [rng.permutation(rows)[:m] for m in (1, 2, 3, 4, 5, 7, 8, 13, 64, rows)]


def functions(theta):
    """Everything that is computed of rows, and what else is computed element by element, [..., n] of rows [n, p]."""
    return {
        "products": lambda X: rowwise.products(X, theta),
        "absolute sums": rowwise.absolute_sums,
        "square sums": rowwise.square_sums,
        "exponentials": lambda X: rowwise.exp(X.T),
        "logistic functions": lambda X: rowwise.logistic(X.T),
        "cosines": lambda X: rowwise.cosine(X.T),
    }


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_has_one_result_whoever_stands_beside_it(width, order):
    X, theta = hard(200, width, RNG)
    for name, function in functions(theta).items():
        whole = function(X)
        for some in companies(200, RNG):
            beside = np.empty((len(some) + 1, width), order=order)[1:]  # starts at another address
            beside[:] = X[some]
            np.testing.assert_array_equal(function(beside), whole[..., some], err_msg=name)


def test_products_of_matrices_do_not_have_it():
    """The mutant: on every kernel seen so far some width tells a row that is alone from one in company."""
    told = False
    for width in WIDTHS:
        X, theta = hard(40, width, RNG)
        told = told or any(not np.array_equal(theta @ X[:m].T, (theta @ X.T)[:, :m]) for m in range(1, 40))
    assert told


def test_long_tables_are_computed_in_pieces_of_one_result():
    X, theta = hard(3 * rowwise.BATCH_NUMBERS // 100 + 5, 100, RNG)
    assert np.array_equal(rowwise.products(X, theta)[:, ::7], rowwise.products(X[::7], theta))
    assert rowwise.products(X[:0], theta).shape == (3, 0)
    assert np.array_equal(rowwise.products(np.empty((4, 0)), np.empty((2, 0))), np.zeros((2, 4)))


def test_products_are_off_by_a_few_roundings_of_their_terms():
    X, theta = RNG.normal(size=(50, 100)), RNG.normal(size=(4, 100))
    wide = np.longdouble(theta) @ np.longdouble(X).T
    assert np.abs(rowwise.products(X, theta) - wide).max() <= 10 * 2.0**-53 * (np.abs(theta) @ np.abs(X).T).max()


def test_exponentials_are_within_a_few_units_of_rounding():
    x = np.concatenate(
        [RNG.uniform(-700, 700, 500), RNG.normal(0, 1, 500), np.arange(-400, 400) * np.log(2) / 2, [0.0, 1e-300]]
    )
    with localcontext() as context:
        context.prec = 40
        exact = [Decimal(value).exp() for value in x.tolist()]
        off = max(abs(Decimal(got) / true - 1) for got, true in zip(rowwise.exp(x).tolist(), exact, strict=True))
        both = zip(rowwise.logistic(x).tolist(), exact, strict=True)
        logistic_off = max(abs(Decimal(got) * (1 + 1 / true) - 1) for got, true in both)
    assert max(off, logistic_off) < 4 * 2.0**-53
    ends = np.array([-1e107, -701.0, 701.0, 1e107])
    assert np.array_equal(rowwise.exp(ends), rowwise.exp(np.clip(ends, -700, 700)))
    assert np.array_equal(rowwise.logistic(ends[2:]), [1.0, 1.0])
    assert 0 < rowwise.logistic(ends[:1])[0] < 1e-300


def test_logistic_functions_stay_between_0_and_1():
    x = RNG.normal(0, 30, 100_000)
    assert (rowwise.logistic(x) <= 1).all()
    assert (rowwise.logistic(x) > 0).all()


def test_what_is_drawn_in_secret_stays_secret_in_every_piece():
    design = Design(RNG.normal(size=(9_000, 3)), np.ones(9_000), np.ones(9_000))
    drawn = design.drawn(np.arange(0, 9_000, 2))
    assert not design.secret
    assert not any(piece.secret for piece in design.batch(np.arange(0, 9_000, 2)).pieces)
    assert drawn.secret
    assert drawn.studied is None
    assert all(piece.secret for piece in [*drawn.pieces, drawn.empty(), drawn.where(drawn.y > 0), drawn.cut(slice(3))])
    assert design.drawn(np.arange(9_000)).secret
