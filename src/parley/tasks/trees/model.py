"""Boosted trees as a fitted model: predicts from raw columns, is saved as JSON, and says what each column adds."""

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data import Preparation, read_table
from parley.data.encoding import Encoding, Places
from parley.learning.outcome.model import JointLogisticClassifier, JointModel, JointRegressor
from parley.learning.outcome.shapes import ShapeFunction, Shapes, band_words, middle, own_units
from parley.tasks.trees.placed_rows import place_cells, place_numbers
from parley.tasks.trees.structure import Structure, make_structure
from parley.validate import Floats


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

    def shapes(self, runs: Floats | None = None) -> Shapes:
        """What every column adds by itself, in the order of the features; what pairs add beside it is not in it."""
        self._require_theta()
        found, first = list[ShapeFunction](), 0
        for column, encoding in enumerate(self.preparation_.encodings):
            place = self.structure_.leaves[1 + column].values
            ends = float(self.preparation_.low[first]), float(self.preparation_.high[first])
            band = None if runs is None or len(runs) < 2 else middle(runs[:, place])
            found.append(_shape(encoding, self.theta_[place], band, ends, self.preparation_.model.bins or 0))
            first += len(encoding.labels)
        return Shapes(np.asarray(self.theta_[0]), tuple(found), about=band_words(runs))


class BoostedRegressor(BoostedModel, JointRegressor):
    """Trees that predict a number."""


class BoostedClassifier(BoostedModel, JointLogisticClassifier):
    """Trees that predict one of two classes, with probabilities."""


def boosted_model(preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> JointModel:
    """The fitted model of these leaf values [P]."""
    kind = BoostedClassifier if preparation.model.classifies else BoostedRegressor
    return kind()._take(preparation, theta, terms_hash, released)


def _shape(
    encoding: Encoding, values: Floats, band: Floats | None, ends: tuple[float, float], steps: int
) -> ShapeFunction:
    gaps = ("missing",) if encoding.fills else ()
    if isinstance(encoding, Places):
        cuts, names = np.empty(0), (*encoding.names, "others", *gaps)
    else:
        cuts, names = own_units(encoding, np.linspace(*ends, steps + 1)), gaps
    return ShapeFunction(encoding.column, cuts, names, values, np.full(len(values), 1 / len(values)), band)
