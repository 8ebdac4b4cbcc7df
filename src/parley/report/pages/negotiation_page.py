"""A negotiation as a page, in the sentences of the terminal: who would join, with which budget, and what it costs."""

from parley.decisions.games.negotiate import CommonNegotiation, Negotiation
from parley.report.figures import picture
from parley.report.figures.negotiation_figure import negotiation_figure
from parley.report.pages.page import Section, page
from parley.report.words import negotiation as said
from parley.report.words import noise as kinds


def negotiation_page(result: Negotiation) -> str:
    """The HTML page of a negotiation."""
    drawn = picture.svg(negotiation_figure(result))
    if result.deal.members.any():
        words = [*said.prices(result), said.checked(result)]
        sections = [
            Section("Who joins, and with which budget?", words, said.owner_rows(result), drawn, said.title(result))
        ]
    else:
        rows, title = said.wish_rows(result), said.wishes_title(result)
        sections = [Section("What would move them?", said.moves(result), rows, drawn, title)]
    if isinstance(result, CommonNegotiation) and result.deal.members.any():
        content = result.to_json()
        rows, title = kinds.preference_rows(content), kinds.preferences_title(content)
        sections.append(Section("One budget for all", kinds.weakest_link(content), rows, "", title))
    notes = [f"Note: {warning}." for warning in result.warnings]
    sections.append(Section("What does this rest on?", [*notes, said.CAVEAT]))
    name = result.terms.title or "a joint model"
    return page(f"Negotiation: {name}", said.headline(result), sections, f"Parley · terms {result.terms.hash}")
