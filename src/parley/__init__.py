"""Parley: should we learn together, on what privacy terms, and what came out of it?"""

from parley import data
from parley.learning import JointModel, Result, alone, load_model, train
from parley.ledger import Ledger
from parley.owner import Owner
from parley.terms import Terms, load_terms
from parley.version import __version__

__all__ = [
    "JointModel",
    "Ledger",
    "Owner",
    "Result",
    "Terms",
    "__version__",
    "alone",
    "data",
    "load_model",
    "load_terms",
    "train",
]
