"""What a basis makes of prepared columns: how near a row is to public points, or waves of it."""

import numpy as np

from parley.data import rowwise
from parley.data.rounding import settle
from parley.validate import Floats


def nearness(columns: Floats, points: Floats, width: float, secret: bool = False) -> Floats:
    """exp(-distance^2/(2 width^2)) of columns [columns, n] to points [points, columns]: [points, n], from 0 to 1.

    `secret`: which rows these are was drawn in secret (`data.rowwise`).

    >>> nearness(np.array([[0.0, 1.0]]), np.array([[0.0]]), 1.0)
    array([[1.        , 0.60653066]])
    """
    scale = 2 * width**2
    far = np.stack([rowwise.folded(np.square(columns - point[:, None])) for point in points])
    with np.errstate(under="ignore"):
        found = rowwise.exp(-(far / scale)) if secret else np.exp(-(far / scale))
    return settle(found, 0.0, 1.0, found)


def waves(columns: Floats, drawn: Floats) -> Floats:
    """cos(w.x + b) of columns [columns, n], w and b last being a row of `drawn` [waves, columns + 1]: [waves, n], from
    -1 to 1.

    >>> waves(np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]]))
    array([[1.        , 0.54030231]])
    """
    found = rowwise.cosine(rowwise.products(columns.T, drawn[:, :-1]) + drawn[:, -1:])
    return settle(found, -1.0, 1.0, found)
