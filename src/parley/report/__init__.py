"""Figures, terminal tables and pages; `summary` and `figure` for notebooks. Names load on first use, because figures
are slow."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.report.drawings import figure
    from parley.report.summaries import summary

__all__ = ["figure", "summary"]

_MODULE_OF_NAME = {"figure": "drawings", "summary": "summaries"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'parley.report' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"parley.report.{_MODULE_OF_NAME[name]}"), name)
    return value
