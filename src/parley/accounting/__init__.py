"""What noise costs, and what that means."""

from parley.accounting.budget import exact, per_round, shared_record_epsilon
from parley.accounting.compose import METHODS, Bound, compose, multiplier_for, rounds_for
from parley.accounting.series import Series, make_series, mechanism_norm, series_rho
from parley.accounting.stable_bounds import StableBound, stable_epsilon

__all__ = [
    "METHODS",
    "Bound",
    "Series",
    "StableBound",
    "compose",
    "exact",
    "make_series",
    "mechanism_norm",
    "multiplier_for",
    "per_round",
    "rounds_for",
    "series_rho",
    "shared_record_epsilon",
    "stable_epsilon",
]
