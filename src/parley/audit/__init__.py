"""Attacks on what the storeys below promise: what can be shown to leak, at least."""

from parley.audit.agreement import Audit, audit_terms
from parley.audit.black_box import Release, lower_bound
from parley.audit.releases import release_of
from parley.audit.runs import audit_owner
from parley.audit.verdict import Verdict

__all__ = ["Audit", "Release", "Verdict", "audit_owner", "audit_terms", "lower_bound", "release_of"]
