"""Identification of plants with delayed inputs, and feedback for them; names are imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.tasks.dynamics.delayed_dmd import DMD, DelayedDMD, DMDc
    from parley.tasks.dynamics.plant import (
        Controller,
        DelayedQuadratic,
        Plant,
        PredictiveFeedback,
        closed_loop,
        linear_quadratic,
        pole_placement,
    )

__all__ = [
    "DMD",
    "Controller",
    "DMDc",
    "DelayedDMD",
    "DelayedQuadratic",
    "Plant",
    "PredictiveFeedback",
    "closed_loop",
    "linear_quadratic",
    "pole_placement",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'delayed_dmd' if 'DMD' in name else 'plant'}"), name)
