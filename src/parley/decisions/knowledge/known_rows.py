"""Rows that stand for the owners' before anybody was asked: of a public table, of the terms' own public sample, or
drawn by what was released of the columns."""

from functools import partial

import pandas as pd

from parley.data import Preparation
from parley.data.fitting import PUBLIC, read_public
from parley.decisions.knowledge.assumed import AssumedSample
from parley.decisions.knowledge.grown_sample import GrownSample
from parley.decisions.knowledge.sources import Sample, Source
from parley.errors import DataError
from parley.protocol.setup import Setup
from parley.validate import Floats


def known_rows(setup: Setup, example: pd.DataFrame | None) -> Source:
    """The rows of this table, else of the terms' public sample, else those that released scales and names allow."""
    model, plain = setup.terms.model, setup.preparation.unturned
    turned = plain is not setup.preparation
    if example is not None:
        rows = setup.preparation.design(example, "pilot").targeted()
        before = partial(_targeted_columns, plain, example) if turned else None
        return Sample(rows.for_studies(), unturned=before)
    if setup.public is not None and model.public is not None:
        again = partial(_public_columns, plain) if turned else None
        return (Sample if model.trees is None else GrownSample)(setup.public.for_studies(), unturned=again)
    if model.scales or (model.categories and model.coding == "one-hot"):
        return AssumedSample.of(setup)
    raise DataError(
        "a forecast needs public knowledge: model.public in the terms, a pilot table, released scales (parley scales), "
        "released moments or stated assumptions"
    )


def _targeted_columns(plain: Preparation, example: pd.DataFrame) -> Floats:
    """The columns of a table's rows that have a target, before a rotation, a basis or leaves."""
    return plain.design(example, "pilot").targeted().X


def _public_columns(plain: Preparation) -> Floats:
    """The same of the terms' public sample."""
    return plain.matrix(read_public(plain.model), PUBLIC)
