"""What owners that lie can do, as a page."""

from parley.audit.attacks.damage import Damage
from parley.report.pages.page import Section, page
from parley.report.words.poisoning import LEAD, rule_rows, sentences
from parley.terms import Terms


def poisoning_page(found: Damage, terms: Terms) -> str:
    """The HTML page of what liars can do."""
    moved, undetectable, named, *learner = sentences(found)
    sections = [
        Section("How far do lies move a round?", [moved], rule_rows(found)),
        Section("What is noticed, and what is not?", [undetectable, named]),
        *([Section("And a learner that lies?", learner)] if learner else []),
    ]
    return page(f"Owners that lie: {terms.title or 'an agreement'}", LEAD, sections, f"Parley · terms {terms.hash}")
