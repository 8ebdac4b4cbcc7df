"""Attacks on what the storeys below promise: what can be shown to leak, at least."""

from parley.audit.agreement import Audit, audit_terms
from parley.audit.attacks.membership import Membership, infer_members
from parley.audit.attacks.trained_model import ModelAudit, audit_model
from parley.audit.black_box import Release, lower_bound
from parley.audit.one_run import one_run_bound
from parley.audit.planted_runs import OneRunVerdict, audit_one_run
from parley.audit.releases import release_of
from parley.audit.runs import audit_owner
from parley.audit.verdict import Verdict

__all__ = [
    "Audit",
    "Membership",
    "ModelAudit",
    "OneRunVerdict",
    "Release",
    "Verdict",
    "audit_model",
    "audit_one_run",
    "audit_owner",
    "audit_terms",
    "infer_members",
    "lower_bound",
    "one_run_bound",
    "release_of",
]
