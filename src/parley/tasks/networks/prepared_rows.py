"""Rows as networks take them: float32 numbers within known ends, and the target.

Formal guarantee: a prepared row is a function of that row, the terms and the public sample (`data.preparation`), and
rounding to float32 keeps it one; replacing one record of the table replaces one row. A record without a target is
there, and adds nothing to any sum.
"""

from dataclasses import fields, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation, fit_preparation
from parley.data.encoding import Numbers
from parley.data.sources import Rows
from parley.errors import DataError
from parley.tasks.networks.terms import IMAGES
from parley.tasks.target_rows import TargetPreparation, TargetRows
from parley.terms import Terms
from parley.validate import Floats


class NetworkRows(TargetRows):
    """Records of float32 numbers; classes are their places."""

    called: ClassVar[str] = "records of a network"


class NetworkPreparation(TargetPreparation):
    """Columns scaled by what is public, and kept as float32."""

    made_of: ClassVar = NetworkRows
    no_target: ClassVar[float] = 0.0

    def cells(self, rows: Rows, name: str) -> NDArray[np.float32]:
        return float32_rows(self.matrix(rows, name))


def network_preparation(terms: Terms) -> tuple[NetworkPreparation, Design | None]:
    """The preparation that terms and a public sample fix: columns that neither scales lie between -1 and 1 within their
    bounds, pixels between 0 and 1."""
    plain, public = fit_preparation(terms)
    made = NetworkPreparation(**{each.name: getattr(plain, each.name) for each in fields(Preparation)})
    model = terms.model
    if model.public is not None:
        return made, public
    centre, scale, first = made.centre.copy(), made.scale.copy(), 0
    for encoding in made.encodings:
        low, high = made.low[first], made.high[first]
        said = encoding.column in model.centres or encoding.column in model.scales
        if isinstance(encoding, Numbers) and np.isfinite([low, high]).all() and not said:
            centre[first] = low if model.architecture in IMAGES else low / 2 + high / 2
            scale[first] = (high - low) / (1 if model.architecture in IMAGES else 2)
        first += len(encoding.labels)
    made = replace(made, centre=centre, scale=scale)
    if model.classifies:
        return made, None
    low, high = made.target_bounds
    return replace(made, target_centre=low / 2 + high / 2, target_scale=(high - low) / 2), None


def float32_rows(X: Floats) -> NDArray[np.float32]:
    """The same numbers as float32: what is beyond its range is infinite, and such a record counts 0."""
    with np.errstate(over="ignore"):
        return X.astype(np.float32)


def network_rows_of(rows: object) -> NetworkRows:
    """Rows that were prepared for a network."""
    if not isinstance(rows, NetworkRows):
        raise DataError("records: expected a table prepared by terms of networks")
    return rows
