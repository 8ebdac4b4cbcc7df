"""Attacks on what the storeys below promise: what can be shown to leak, at least."""

from parley.audit.black_box import Release, lower_bound
from parley.audit.releases import release_of

__all__ = ["Release", "lower_bound", "release_of"]
