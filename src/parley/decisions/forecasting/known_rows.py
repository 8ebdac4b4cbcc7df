"""Rows that stand for the owners' before anybody was asked: of a public table, of the terms' own public sample, or
drawn by what was released of the columns."""

from collections.abc import Set
from functools import partial
from pathlib import Path

import pandas as pd

from parley.data import Preparation, read_table
from parley.data.targets import listed_classes, with_target
from parley.decisions.forecasting.assumed import AssumedSample
from parley.decisions.forecasting.cross_fit import GrownSample
from parley.decisions.forecasting.sources import Sample, Source
from parley.errors import DataError
from parley.learning.outcome.boosting import unturned
from parley.protocol.setup import Setup
from parley.validate import Floats


def known_rows(setup: Setup, example: pd.DataFrame | None) -> Source:
    """The rows of this table, else of the terms' public sample, else those that released scales and names allow."""
    model = setup.terms.model
    plain = unturned(setup.preparation)
    turned, listed = plain is not setup.preparation, listed_classes(model)
    if example is not None:
        rows = with_target(example, model.outcome_columns, listed, "pilot")
        before = partial(plain.matrix, rows, "pilot") if turned else None
        return Sample(setup.preparation.design(rows, "pilot").for_studies(), unturned=before)
    if setup.public is not None and model.public is not None:
        again = partial(_columns_again, plain, Path(model.public), listed) if turned else None
        return (Sample if model.trees is None else GrownSample)(setup.public.for_studies(), unturned=again)
    if model.scales or (model.categories and model.coding == "one-hot"):
        return AssumedSample.of(setup)
    raise DataError(
        "a forecast needs public knowledge: model.public in the terms, a pilot table, released scales (parley scales), "
        "released moments or stated assumptions"
    )


def _columns_again(plain: Preparation, path: Path, listed: Set[str]) -> Floats:
    """The columns of a public sample's rows that have a target, before a rotation, a basis or leaves."""
    return plain.matrix(with_target(read_table(path), plain.model.outcome_columns, listed, "pilot"), "pilot")
