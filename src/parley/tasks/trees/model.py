"""Boosted trees as a fitted model: predicts from raw columns, is saved as JSON, and says what each column adds."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data import Preparation, read_table
from parley.data.encoding import Numbers, Places
from parley.data.transforms import INVERSES
from parley.learning.outcome.model import JointLogisticClassifier, JointModel, JointRegressor
from parley.tasks.trees.placed_rows import place_cells, place_numbers
from parley.tasks.trees.structure import Structure, make_structure
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class ShapeFunction:
    """What one column adds to a prediction: by steps between `cuts` in its own units, and by names (others and gaps
    among them)."""

    column: str
    cuts: Floats  # the ends of the steps, one more than there are; empty for a column of names
    steps: Floats
    names: tuple[str, ...]
    of_names: Floats


class BoostedModel(JointModel):
    """What regressors and classifiers of trees share: scores are sums of leaf values."""

    def _take_coefficients(self, split: int) -> None:
        """None: leaves are no coefficients. The level is `intercept_`."""
        self.intercept_ = float(self.theta_[0])

    @cached_property
    def structure_(self) -> Structure:
        """The trees that the leaf values belong to."""
        return make_structure(self.preparation_)

    def _scores(self, X: Any) -> Floats:
        self._require_theta()
        return self.structure_.scores(self._rows(X), self.theta_)

    def _rows(self, X: Any) -> NDArray[np.uint16]:  # type: ignore[override]
        if isinstance(X, pd.DataFrame):
            return place_cells(self.preparation_, read_table(X), "table")
        raw = self._positional(X)
        coded = [e.coded(values) for e, values in zip(self.preparation_.encodings, raw.T, strict=True)]
        return place_numbers(self.preparation_, coded, len(raw))

    def shapes(self) -> tuple[ShapeFunction, ...]:
        """What every column adds by itself, in the order of the features; what pairs add beside it is not in it."""
        self._require_theta()
        found, first = list[ShapeFunction](), 0
        for column, encoding in enumerate(self.preparation_.encodings):
            values = self.theta_[self.structure_.leaves[1 + column].values]
            ends = float(self.preparation_.low[first]), float(self.preparation_.high[first])
            found.append(_shape(encoding, values, ends, self.preparation_))
            first += len(encoding.labels)
        return tuple(found)


class BoostedRegressor(BoostedModel, JointRegressor):
    """Trees that predict a number."""


class BoostedClassifier(BoostedModel, JointLogisticClassifier):
    """Trees that predict one of two classes, with probabilities."""


def boosted_model(preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> JointModel:
    """The fitted model of these leaf values [P]."""
    kind = BoostedClassifier if preparation.model.classifies else BoostedRegressor
    return kind()._take(preparation, theta, terms_hash, released)


def _shape(encoding: Any, values: Floats, ends: tuple[float, float], preparation: Preparation) -> ShapeFunction:
    gaps = ("missing",) if encoding.fills else ()
    if isinstance(encoding, Places):
        return ShapeFunction(encoding.column, np.empty(0), np.empty(0), (*encoding.names, "others", *gaps), values)
    steps = preparation.model.bins or 0
    cuts = np.linspace(*ends, steps + 1)
    if isinstance(encoding, Numbers) and encoding.transform is not None:
        cuts = INVERSES[encoding.transform](cuts)
    return ShapeFunction(encoding.column, cuts, values[:steps], gaps, values[steps:])
