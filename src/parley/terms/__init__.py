"""The terms: the one file that people write, checked, with a hash that all parties compute alike."""

from parley.terms.agreement import FORMAT, Terms, load_terms
from parley.terms.file import write_terms
from parley.terms.model import Model
from parley.terms.sections import (
    PARTY,
    Fingerprint,
    Host,
    Learning,
    OwnerTerms,
    Privacy,
    PrivacyCost,
    held_out_records,
    training_records,
)

__all__ = [
    "FORMAT",
    "PARTY",
    "Fingerprint",
    "Host",
    "Learning",
    "Model",
    "OwnerTerms",
    "Privacy",
    "PrivacyCost",
    "Terms",
    "held_out_records",
    "load_terms",
    "training_records",
    "write_terms",
]
