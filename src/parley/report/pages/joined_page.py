"""The demo's page: who was to gain, what moves the large one, what came out."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from parley.learning.outcome.guarantee import SIMULATION
from parley.report.figures.picture import svg
from parley.report.pages.page import Section, page
from parley.report.words.forecast import assumption
from parley.report.words.joined import (
    Chapter,
    forecast_rows,
    forecast_sentence,
    large_owners_sentence,
    on_held_out,
    outcome_rows,
    verdict,
    without_anybody,
)


def joined_page(one: Chapter, own: Chapter, large: Chapter, bargain: Sequence[str], picture: Figure) -> str:
    """The demo's HTML report as text."""
    terms, prices = one.expected.terms, [owner.price for owner in one.owners]
    sections = [
        Section(
            "Who gains, and by how much?",
            [verdict(one, "one noise"), verdict(own, "each owner's own noise")],
            figure=svg(picture),
        ),
        Section(
            "Before any data moved",
            [forecast_sentence(one.expected, prices), assumption(one.expected)],
            forecast_rows(one.expected, prices),
        ),
        Section("What moves the large one?", bargain),
        Section(
            "What came out of it?",
            [
                on_held_out(one),
                without_anybody(one),
                "Errors saved, in shares of the error alone. Every model is an owner's own: personal, or alone.",
            ],
            outcome_rows(one, own),
        ),
        Section("Three large banks", [large_owners_sentence(large)]),
        Section(
            "What this is not",
            [SIMULATION, "All loans are synthetic. They are made by a random generator from nobody's data."],
        ),
    ]
    lead = "Should we learn together, on what privacy terms, and what came out of it?"
    return page(terms.title, lead, sections, f"Parley · terms {terms.hash}")
