"""The features of a basis: nearness to public points, waves, or polynomials of prepared columns."""

from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np

from parley.data import rowwise
from parley.data.rowwise import clip_to_grid
from parley.terms.keys import Basis
from parley.validate import Floats


def basis_features(
    columns: Floats, drawn: Floats, basis: Basis, ends: tuple[Floats, Floats], secret: bool = False
) -> Floats:
    """Return the terms' basis features [features, n] of columns [columns, n] within `ends`, if known."""
    if basis.kind == "polynomial" or basis.width is None:  # other kinds have one
        return polynomials(columns, drawn, *ends)
    return nearness(columns, drawn, basis.width, secret) if basis.kind is None else waves(columns, drawn)


def nearness(columns: Floats, points: Floats, width: float, secret: bool = False) -> Floats:
    """Return exp(-distance^2/(2 width^2)) of columns [columns, n] to points [points, columns]: [points, n], from 0 to
    1. `secret`: these rows were drawn in secret (`data.rowwise`).

    >>> nearness(np.array([[0.0, 1.0]]), np.array([[0.0]]), 1.0)
    array([[1.        , 0.60653066]])
    """
    scale = 2 * width**2
    far = np.stack([rowwise.halving_sum(np.square(columns - point[:, None])) for point in points])
    with np.errstate(under="ignore"):
        near = rowwise.exp(-(far / scale)) if secret else np.exp(-(far / scale))
    return clip_to_grid(near, 0.0, 1.0, near)


def waves(columns: Floats, drawn: Floats) -> Floats:
    """Return cos(w.x + b) of columns [columns, n], in [-1, 1]: [waves, n]; `drawn` [waves, columns + 1] holds w, then
    b.

    >>> waves(np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]]))
    array([[1.        , 0.54030231]])
    """
    values = rowwise.cosine(rowwise.products(columns.T, drawn[:, :-1]) + drawn[:, -1:])
    return clip_to_grid(values, -1.0, 1.0, values)


def degrees(columns: int, most: int) -> Floats:
    """Return each column's degree in each product of a total degree from 1 to `most` [products, columns].

    >>> degrees(2, 2).astype(int).tolist()
    [[1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """
    chosen = [which for d in range(1, most + 1) for which in combinations_with_replacement(range(columns), d)]
    return np.array([np.bincount(which, minlength=columns) for which in chosen], dtype=np.float64)


def polynomials(columns: Floats, powers: Floats, low: Floats, high: Floats) -> Floats:
    """Return products of Chebyshev polynomials of columns [columns, n], scaled to [-1, 1], by degrees: [products, n].

    Formal guarantee: each column is cut to its ends, each polynomial and each product to -1 and 1, by operations on
    single elements; the result for a row is a function of that row.

    >>> polynomials(np.array([[0.0, 3.0]]), np.array([[1.0], [2.0]]), np.array([-1.0]), np.array([1.0]))
    array([[ 0.,  1.],
           [-1.,  1.]])
    """
    ends = low[:, None], high[:, None]
    t = np.clip((np.clip(columns, *ends) - (ends[0] / 2 + ends[1] / 2)) / (ends[1] / 2 - ends[0] / 2), -1.0, 1.0)
    tower = [np.ones_like(t), t]
    whole = np.rint(powers).astype(np.intp)  # pinned numbers may be off by a rounding
    for _ in range(2, int(whole.max()) + 1):
        tower.append(np.clip(2 * t * tower[-1] - tower[-2], -1.0, 1.0))
    products = np.ones((len(powers), columns.shape[1]))
    for product, row in zip(products, whole, strict=True):
        for column in np.flatnonzero(row):
            product *= tower[row[column]][column]
    return clip_to_grid(products, -1.0, 1.0, products)


def product_names(labels: Sequence[str], powers: Floats) -> tuple[str, ...]:
    """Name products by their columns.

    >>> product_names(["age", "fico"], degrees(2, 2))[3:]
    ('T1(age) T1(fico)', 'T2(fico)')
    """
    rows = np.rint(powers).astype(int).tolist()
    return tuple(" ".join(f"T{d}({label})" for d, label in zip(row, labels, strict=True) if d) for row in rows)
