"""Rows that stand for the owners' before anybody was asked: of a public table, of the terms' own public sample, or
drawn by what was released of the columns."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from parley.data import read_table
from parley.data.targets import listed_classes, with_target
from parley.decisions.forecasting.assumed import AssumedSample
from parley.decisions.forecasting.cross_fit import GrownSample
from parley.decisions.forecasting.sources import Sample, Source
from parley.errors import DataError
from parley.learning.outcome.boosting import unturned
from parley.protocol.setup import Setup
from parley.terms import Model
from parley.validate import Floats


def known_rows(setup: Setup, example: pd.DataFrame | None) -> Source:
    """The rows of this table, else of the terms' public sample, else those that released scales and names allow."""
    model = setup.terms.model
    if example is not None:
        rows = _with_target(example, model)
        return Sample(setup.preparation.design(rows, "pilot").for_studies(), unturned=_before(setup, lambda: rows))
    if setup.public is not None and model.public is not None:
        path = Path(model.public)
        again = _before(setup, lambda: _with_target(read_table(path), model))
        return (Sample if model.trees is None else GrownSample)(setup.public.for_studies(), unturned=again)
    if model.scales or (model.categories and model.coding == "one-hot"):
        return AssumedSample.of(setup)
    raise DataError(
        "a forecast needs public knowledge: model.public in the terms, a pilot table, released scales (parley scales), "
        "released moments or stated assumptions"
    )


def _with_target(table: pd.DataFrame, model: Model) -> pd.DataFrame:
    return with_target(table, model.outcome_columns, listed_classes(model), "pilot")


def _before(setup: Setup, rows: Callable[[], pd.DataFrame]) -> Callable[[], Floats] | None:
    """How these rows' columns before a rotation, a basis or leaves are worked out; None where there are none."""
    plain = unturned(setup.preparation)
    return None if plain is setup.preparation else lambda: plain.matrix(rows(), "pilot")
