"""Rows as networks take them: float32 numbers within known ends, and the target.

Formal guarantee: a prepared row is a function of that row, the terms and the public sample (`data.preparation`), and
rounding to float32 keeps it one; replacing one record of the table replaces one row. A record without a target is
there, and adds nothing to any sum.
"""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation, fit_preparation
from parley.data.encoding import Numbers
from parley.data.parts import counted_rows, how_many, parts_of
from parley.data.preparation import require_records
from parley.data.sources import Rows, Table, open_table
from parley.data.sources.rows import chosen_rows
from parley.data.table import require_columns
from parley.data.targets import has_target
from parley.errors import DataError
from parley.tasks.networks.images import IMAGES
from parley.tasks.whole_table import WholeTable
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class NetworkRows(WholeTable):
    """Records: rows [n, ...], targets [n] (classes as their places), and which of them have one [n]."""

    called: ClassVar[str] = "records of a network"

    X: NDArray[np.float32]
    y: Floats
    present: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def width(self) -> int:
        return int(np.prod(self.X.shape[1:]))

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> "NetworkRows":
        """Some of the records."""
        return NetworkRows(self.X[chosen], self.y[chosen], self.present[chosen])


class NetworkPreparation(Preparation):
    """Columns scaled by what is public, and kept as float32."""

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[NetworkRows, NetworkRows]:
        """(training, held-out) records; which are held out follows from their places in the table."""
        source, columns = open_table(table), [*self.features, self.model.target]
        require_columns(source.example, columns, name)
        kept = counted_rows(source, terms.privacy, name)
        require_records(terms, name, how_many(source, kept))
        parts = [
            self._part(rows, name if not start else f"{name}, counted from row {start + 1} on")
            for start, rows in parts_of(source, columns, kept)
        ]
        whole = NetworkRows(*(np.concatenate([getattr(part, key) for part in parts]) for key in ("X", "y", "present")))
        train = self.trained_on(len(whole))
        return whole.where(train), whole.where(~train)

    def _part(self, rows: Rows, name: str) -> NetworkRows:
        present = has_target(rows, self.model, name)
        y = np.zeros(len(present))
        if present.all():
            y = self.target(rows, name)
        elif present.any():
            y[present] = self.target(chosen_rows(rows, present), f"{name}, of the rows with a target")
        return NetworkRows(float32_rows(self.matrix(rows, name)), y, present)


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
