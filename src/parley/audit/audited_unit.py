"""Whom audits are about: one person in a table."""

from parley.errors import TermsError
from parley.terms import Terms
from parley.terms.sections import OWNER


def require_audited_unit(terms: Terms) -> None:
    """Refuse terms that protect whole tables: audits replace one person's rows, and would call far too large an answer
    private. So are those by which nothing is released."""
    terms.require_release()
    if terms.privacy.unit == OWNER:
        raise TermsError(
            "privacy.unit: expected 'record': audits replace one person's rows, which shows next to nothing of a "
            "promise about an owner's whole table"
        )
