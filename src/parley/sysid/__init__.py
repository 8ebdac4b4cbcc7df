"""Which plant is it, and how late do its inputs arrive? Identification from samples, and feedback that minds the delay."""

from parley.sysid.control import Controller, DelayedQuadratic, PredictiveFeedback, closed_loop, linear_quadratic, pole_placement
from parley.sysid.decomposition import DMD, DMDc
from parley.sysid.delayed_dmd import DelayedDMD
from parley.sysid.plant import Plant

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
