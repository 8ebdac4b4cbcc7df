"""What the proofs in docs/proofs take for granted about arithmetic, as checks that run on the processor, kernels and
libraries at hand.

`python premises.py` runs them all: a test starts it with each BLAS kernel and without NumPy's own instructions.
"""

from fractions import Fraction

import numpy as np
from scipy.special import expit

UNIT = 2.0**-53
EXTREMES = np.array([0.0, -0.0, 1.0, -1e50, 1e50, 1e-50, 5e-324, 1e-310, 3.0, -700.0, 745.0, 1e160])
SHAPES = [(1, 1), (1, 9), (2, 3), (3, 50), (5, 17), (8, 8), (13, 100), (64, 10), (130, 33), (4096, 4)]  # rows, columns


def numbers(*shape, rng):
    """Of ordinary and extreme sizes."""
    plain = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)
    return np.where(rng.random(shape) < 0.1, rng.choice(EXTREMES, shape), plain)


def one_element(rng):
    """Premise F1: An array operation rounds each element as IEEE 754 prescribes, whatever the element's place and
    neighbours. The premise holds in every thread, for +, −, ×, ÷, √, comparison, clipping, rounding and splitting off a
    power of two.
    """
    a, b = (np.clip(numbers(300, rng=rng), -1e150, 1e150) for _ in range(2))
    b[np.abs(b) < 1e-100] = 1.0
    exact = {
        np.add: [float(Fraction(x) + Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)],
        np.subtract: [float(Fraction(x) - Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)],
        np.multiply: [float(Fraction(x) * Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)],
    }
    exact[np.divide] = [x / y for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    for operation, want in exact.items():
        for start in range(9):
            for stop in (start + 1, start + 2, start + 3, start + 7, start + 64, 299, 300):
                some = slice(start, stop)
                assert np.array_equal(operation(a[some], b[some]), want[some]), operation
                backwards = operation(a[some][::-1], b[some][::-1])[::-1]
                assert np.array_equal(backwards, want[some]), operation
    x = np.abs(a)
    for operation in (np.sqrt, np.rint, np.square, lambda v: np.clip(v, -2.0, 2.0), lambda v: np.frexp(v)[0]):
        whole = operation(x)
        assert all(
            np.array_equal(operation(x[start:stop]), whole[start:stop])
            for start in range(9)
            for stop in (start + 1, 77, 300)
        )


def rows_apart(rng):
    """Premise F2: In a matrix product or a sum along rows, of fixed shapes, each row's result depends on no other
    row. Other rows' values change no bit of a row's result. The arrays' order in memory is also fixed. F2 assumes
    nothing about other shapes.
    """
    sums = {
        "l1": lambda X: np.abs(X).sum(axis=1),
        "l2": lambda X: np.einsum("ij,ij->i", X, X),
        "max": lambda X: X.max(axis=1),
    }
    for rows, columns in SHAPES:
        for order in "CF":
            X = np.asarray(np.clip(numbers(rows, columns, rng=rng), -1e50, 1e50), order=order)
            for replicates in (1, 3):
                theta = 1e50 * rng.normal(size=(replicates, columns))
                products = {
                    "margins": lambda X, theta=theta: theta @ X.T,
                    "scores": lambda X, theta=theta[0]: X @ theta,
                }
                for name, function in (products | sums).items():
                    before = np.array(function(X)).reshape(-1, rows)
                    for place in {0, rows // 2, rows - 1}:
                        changed = X.copy(order=order)
                        changed[place] = rng.choice(EXTREMES[:-1], columns)
                        after = np.array(function(changed)).reshape(-1, rows)
                        rest = np.arange(rows) != place
                        assert np.array_equal(after[:, rest], before[:, rest]), (name, rows, columns, order, place)


def sums_in_any_order(rng):
    """Premise F3: A sum of n products is off by at most γ_n = nu/(1−nu) times the sum of the products' sizes. The
    premise holds for any order of addition, fused or not, and u is 2⁻⁵³.
    """
    for rows, columns in SHAPES[:-1]:
        factors, X = (
            rng.normal(size=(2, rows)),
            rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-8, 8, (rows, columns)),
        )
        found = factors @ X
        for r in range(2):
            for j in {0, columns // 2, columns - 1}:
                terms = [Fraction(s) * Fraction(x) for s, x in zip(factors[r].tolist(), X[:, j].tolist(), strict=True)]
                gamma = Fraction((rows + 1) * UNIT) / (1 - Fraction((rows + 1) * UNIT))
                assert abs(Fraction(float(found[r, j])) - sum(terms)) <= gamma * sum(map(abs, terms)), (rows, columns)


def exponentials(rng):
    """Premise F4: NumPy's exponential and SciPy's logistic function have relative errors of at most 16u. In arrays of
    one shape an element's result does not depend on other elements.
    """
    x = np.concatenate([rng.uniform(-700, 700, 200), rng.normal(0, 2, 200), [0.0, -0.0, 1e-300, -745.0, 709.0, -1e50]])
    wide = np.exp(np.longdouble(x))
    for function, want in ((np.exp, wide), (expit, wide / (1 + wide))):
        with np.errstate(all="ignore"):
            whole = function(x)
            near = np.isfinite(whole) & (np.float64(want) > 1e-300)
            assert np.all(np.abs(whole - want)[near] <= 16 * UNIT * np.abs(want)[near]), function
            for place in (0, 3, 7, 8, 200, len(x) - 1):
                for value in (0.0, -1e50, 1e50, 700.0, -745.0, 1e-320):
                    changed = x.copy()
                    changed[place] = value
                    rest = np.arange(len(x)) != place
                    assert np.array_equal(function(changed)[rest], whole[rest]), function


CHECKS = (one_element, rows_apart, sums_in_any_order, exponentials)

if __name__ == "__main__":
    for check in CHECKS:
        check(np.random.default_rng(0))
