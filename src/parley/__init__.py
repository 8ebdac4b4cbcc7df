"""Parley: should we learn together, on what privacy terms, and what came out of it?"""

from parley import data
from parley.forecasting import Forecast, Proposal, best_coalition, forecast, plan
from parley.games import Negotiation, negotiate
from parley.learning import JointModel, Result, alone, load_model, train
from parley.ledger import Ledger
from parley.owner import Owner
from parley.terms import Terms, load_terms
from parley.version import __version__

__all__ = [
    "Forecast",
    "JointModel",
    "Ledger",
    "Negotiation",
    "Owner",
    "Proposal",
    "Result",
    "Terms",
    "__version__",
    "alone",
    "best_coalition",
    "data",
    "forecast",
    "load_model",
    "load_terms",
    "negotiate",
    "plan",
    "train",
]
