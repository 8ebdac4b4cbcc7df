"""Which plant is it, and how late do its inputs arrive? Identification from samples, and feedback that minds the delay.

Names are looked up when they are first used: terms and tables need the layout of a regression, and no library of
signals for it.
"""

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
