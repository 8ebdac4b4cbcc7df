"""An audit of a served owner as a page."""

from parley.audit.served.verdict import ServedVerdict
from parley.report.pages.page import Section, page
from parley.report.words.served_audit import LIMITS, TABLES, served_rows, served_sentences
from parley.terms import Terms


def served_page(verdict: ServedVerdict, terms: Terms) -> str:
    """The HTML page of such an audit."""
    sections = [
        Section("What was seen?", served_sentences(verdict)[1:], served_rows(verdict)),
        Section("Where does this end?", [TABLES, LIMITS, f"It took {verdict.seconds:.0f} seconds."]),
    ]
    title = f"Audit of {verdict.owner}, served: {terms.title or 'an agreement'}"
    return page(title, served_sentences(verdict)[0], sections, f"Parley · terms {terms.hash}")
