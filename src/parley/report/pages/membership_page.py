"""An audit of a model as a page, for its owner's privacy officer to sign."""

from parley.audit.attacks.trained_model import ModelAudit
from parley.report.figures.membership_figure import own_figure
from parley.report.figures.picture import svg
from parley.report.pages.page import Section, page
from parley.report.words import membership as words


def membership_page(audit: ModelAudit) -> str:
    """The HTML page of a model's audit, with a place to sign."""
    found = audit.membership
    drawn = svg(own_figure(audit))
    sections = [
        Section("What was learned?", words.learned(audit), words.attack_rows(found), drawn),
        Section("And of this very model?", words.of_this_model(audit), words.model_rows(audit)),
        Section("What was tried?", words.tried(audit)),
        Section("What does the guarantee say?", [words.promised(found)]),
        Section("Where does this end?", [words.NOT_TRIED, f"It took {audit.seconds:.0f} seconds.", words.OWN_EYES]),
        Section("Read by", ["Name, date, signature: ______________________________"]),
    ]
    title = f"Audit of a model: {audit.target}"
    return page(title, words.headline(audit), sections, f"Parley · {audit.kind} · terms {audit.terms_hash}")
