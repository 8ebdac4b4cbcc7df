"""Tables: reading, checking, bounding, coding, splitting, and an embedded synthetic loan book."""

from parley.data.design import Design, Summable
from parley.data.fitting import chosen_features, fit_preparation, listed_features
from parley.data.preparation import Preparation
from parley.data.sources import read_table
from parley.data.split import split_by_column, split_consecutive, split_dirichlet
from parley.data.synthetic_loans import synthetic_lending

__all__ = [
    "Design",
    "Preparation",
    "Summable",
    "chosen_features",
    "fit_preparation",
    "listed_features",
    "read_table",
    "split_by_column",
    "split_consecutive",
    "split_dirichlet",
    "synthetic_lending",
]
