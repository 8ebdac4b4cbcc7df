"""An audit as a page, for a privacy officer."""

from parley.audit import Audit
from parley.report.figures.audit_figure import audit_figure
from parley.report.figures.picture import svg
from parley.report.pages.page import Section, page
from parley.report.words import audit as words
from parley.report.words.host_audit import HOSTS, host_rows
from parley.terms import Terms


def audit_page(audit: Audit, terms: Terms) -> str:
    """The HTML page of an audit."""
    first = audit.verdicts[0]
    sections = [
        Section("What was learned?", words.learned(audit), words.owner_rows(audit), svg(audit_figure(first))),
        *([Section("Without any chance", [words.EXACT], words.exact_rows(audit))] if audit.exact else []),
        *([Section("Searched for worse", words.searched(audit), words.search_rows(audit))] if audit.search else []),
        *([Section("What does a host see?", [HOSTS], host_rows(audit.hosts))] if audit.hosts else []),
        Section("What was tried?", words.tried(audit, terms)),
        Section("What does the guarantee say?", [words.promised(first)]),
        Section("Where does this end?", [words.NOT_TRIED, f"It took {audit.seconds:.0f} seconds."]),
    ]
    return page(
        f"Audit: {terms.title or 'an agreement'}", words.headline(audit), sections, f"Parley · terms {terms.hash}"
    )
