"""Attacks on what the storeys below promise: lower bounds on what leaks. Names are imported when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.audit.agreement import Audit, audit_terms
    from parley.audit.attacks.membership import Membership, infer_members
    from parley.audit.attacks.trained_model import ModelAudit, audit_model
    from parley.audit.distinguishing import Release, lower_bound, release_of
    from parley.audit.planted import OneRunVerdict, audit_one_run, one_run_bound
    from parley.audit.runs import Verdict, audit_owner

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

_NAMES_BY_MODULE = {
    "agreement": ("Audit", "audit_terms"),
    "attacks.membership": ("Membership", "infer_members"),
    "attacks.trained_model": ("ModelAudit", "audit_model"),
    "distinguishing": ("Release", "lower_bound", "release_of"),
    "planted": ("OneRunVerdict", "audit_one_run", "one_run_bound"),
    "runs": ("Verdict", "audit_owner"),
}
_MODULE_BY_NAME = {name: room for room, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name, or a module such as `parley.audit.runs`."""
    if name in _MODULE_BY_NAME:
        globals()[name] = value = getattr(import_module(f"{__name__}.{_MODULE_BY_NAME[name]}"), name)
        return value
    if not name.startswith("_"):
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
