"""What noise costs, and what that means."""

from parley.privacy.accounting.compose import METHODS, Bound, compose, multiplier_for, rounds_for
from parley.privacy.accounting.series import (
    Series,
    exact,
    in_pieces,
    make_series,
    mechanism_norm,
    per_round,
    series_rho,
    shared_record_epsilon,
)
from parley.privacy.accounting.shared_calibration import SharedLaw, Span, Spans, bits_delta, most_epsilon, shared_law
from parley.privacy.accounting.stable_bounds import StableBound, stable_epsilon

__all__ = [
    "METHODS",
    "Bound",
    "Series",
    "SharedLaw",
    "Span",
    "Spans",
    "StableBound",
    "bits_delta",
    "compose",
    "exact",
    "in_pieces",
    "make_series",
    "mechanism_norm",
    "most_epsilon",
    "multiplier_for",
    "per_round",
    "rounds_for",
    "series_rho",
    "shared_law",
    "shared_record_epsilon",
    "stable_epsilon",
]
