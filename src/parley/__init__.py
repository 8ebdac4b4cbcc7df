"""Parley: should we train together, on what privacy terms, and with what result?

Names are imported on first use, so a relay that only carries messages loads no statistics libraries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from parley.version import __version__

if TYPE_CHECKING:
    from parley import data, report
    from parley.decisions.from_files.terms_from_files import draft_terms
    from parley.decisions.games import Negotiation
    from parley.decisions.games.negotiate import negotiate
    from parley.decisions.outlook.coalition import best_coalition
    from parley.decisions.outlook.forecast import Forecast, forecast, outlook
    from parley.decisions.planning.planner import Proposal, plan
    from parley.learning.outcome import JointModel, Result, alone, load_model, refine, score
    from parley.learning.train import train
    from parley.owner.ledger import Ledger
    from parley.owner.owner import Owner
    from parley.terms import Terms, load_terms

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
    "draft_terms",
    "forecast",
    "load_model",
    "load_terms",
    "negotiate",
    "outlook",
    "plan",
    "refine",
    "report",
    "score",
    "train",
]

_NAMES_BY_MODULE = {
    "parley.decisions.outlook.coalition": ("best_coalition",),
    "parley.decisions.outlook.forecast": ("Forecast", "forecast", "outlook"),
    "parley.decisions.planning.planner": ("Proposal", "plan"),
    "parley.decisions.from_files.terms_from_files": ("draft_terms",),
    "parley.decisions.games": ("Negotiation", "negotiate"),
    "parley.learning.train": ("train",),
    "parley.learning.outcome": ("JointModel", "Result", "alone", "load_model", "refine", "score"),
    "parley.owner.ledger": ("Ledger",),
    "parley.owner.owner": ("Owner",),
    "parley.terms": ("Terms", "load_terms"),
}
_MODULE_OF_NAME = {name: room for room, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> Any:
    """Return a public name, or a subpackage such as `parley.data`."""
    if name in _MODULE_OF_NAME:
        globals()[name] = value = getattr(import_module(_MODULE_OF_NAME[name]), name)
        return value
    if not name.startswith("_"):
        try:
            return import_module(f"parley.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"parley.{name}":
                raise
    raise AttributeError(f"module 'parley' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
