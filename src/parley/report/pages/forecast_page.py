"""Pages of a forecast, a negotiation and the demo, in the terminal's sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from parley.decisions.games.negotiate import CommonNegotiation, Negotiation
from parley.decisions.outlook.forecast import Forecast
from parley.decisions.planning.noise_terms import kind_of
from parley.decisions.planning.planner import Proposal
from parley.learning.outcome.guarantee import SIMULATION_NOTE
from parley.report.figures import curves, picture
from parley.report.figures.game_figures import negotiation_figure
from parley.report.figures.owner_gains import OwnerGain, owner_gains
from parley.report.figures.picture import Picture, svg
from parley.report.pages.page import Section, page
from parley.report.words import forecast as said
from parley.report.words import negotiation as agreed
from parley.report.words import noise as kinds
from parley.report.words import outlook as outlook_words
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
from parley.terms import Terms

PUBLIC_ONLY_NOTE = "The forecast uses only the terms and public knowledge. The forecast reads no private record."


def forecast_page(
    result: Forecast,
    noise: Mapping[str, Any],
    verdict: Sequence[str],
    proposal: Proposal | None = None,
    planned: Mapping[str, Any] | None = None,
) -> str:
    """Return a forecast's HTML page. `noise` and `planned`: JSON of the noise comparison and the plan; `verdict`: its
    lead."""
    terms, without = result.terms, said.better_without(result)
    baselines = said.baseline_line(result.worth, result.expected_cost)
    good = [*said.details(result), baselines, *said.verdict_lines(result)]
    whom = [said.assumption(result), *([] if without is None else [without])]
    drawn = picture.svg(fitness_figure(result)) if np.isfinite(result.path).all() else ""
    head, *would = verdict
    if (hint := outlook_words.inside_hint(result.outlook)) is not None:
        would.append(hint)
    whole, drawers = outlook_words.gain_rows(result.outlook), kinds.kind_rows(noise, terms.noise.paired)
    sections = [
        Section("Who gains?", would, whole, picture.svg(gains_figure(result)), outlook_words.GAIN_TITLE),
        Section(
            "What is each owner's test cost with each model?",
            whom,
            said.owner_rows(result),
            "",
            said.owner_title(result),
        ),
        Section("How good would the model be?", [said.headline(result), *good], figure=drawn),
        Section("Who should draw the noise?", _noise_lines(noise, terms), drawers, "", kinds.TITLE),
    ]
    if proposal is not None and planned is not None:
        advice = [said.plan_advice(proposal), said.plan_rests_on(proposal)]
        lines = [*advice, *said.unjudged_lines(proposal), *kinds.plan_beside(planned)]
        sections.append(
            Section("Can the budgets be spent better?", lines, said.plan_rows(proposal), "", said.PLAN_TITLE)
        )
    notes = [f"Note: {warning}." for warning in result.warnings]
    sections.append(Section("Assumptions", [*notes, PUBLIC_ONLY_NOTE, said.SCORING_HINT]))
    return page(f"Forecast: {terms.title or 'a joint model'}", head, sections, _footer(terms))


def fitness_figure(result: Forecast) -> Picture:
    """Draw expected relative fitness by round."""
    return curves.fitness_path(result.path[:, None], "Expected distance from the best model without privacy")


def gains_figure(result: Forecast) -> Picture:
    """Draw what joining would bring each owner."""
    gains = [OwnerGain(o.name, o.gain.mean, o.gain.low, o.gain.high, o.verdict) for o in result.owners]
    better = sum(gain.verdict == "join" for gain in gains)
    title = f"{better:,} of {len(gains):,} owners gain for sure"
    about = "lines: 90% intervals"
    return owner_gains(gains, title, "test cost that joining is expected to save, per row of the owner", about)


def _noise_lines(noise: Mapping[str, Any], terms: Terms) -> list[str]:
    kind = kind_of(terms)
    two = [kinds.two_hosts(len(terms.owners))] if kind == "two_hosts" else []
    return [kinds.decision(noise, kind), *two]


def _footer(terms: Terms) -> str:
    return f"Parley · terms {terms.hash}"


def negotiation_page(result: Negotiation) -> str:
    """Return the HTML page of a negotiation."""
    drawn = picture.svg(negotiation_figure(result))
    if result.deal.members.any():
        words = [*agreed.prices(result), agreed.checked(result)]
        sections = [
            Section("Who joins, and with which budget?", words, agreed.owner_rows(result), drawn, agreed.title(result))
        ]
    else:
        rows, title = agreed.wish_rows(result), agreed.wishes_title(result)
        sections = [Section("What would persuade owners to join?", agreed.moves(result), rows, drawn, title)]
    if isinstance(result, CommonNegotiation) and result.deal.members.any():
        content = result.to_json()
        rows, title = kinds.preference_rows(content), kinds.preferences_title(content)
        sections.append(Section("One budget for all owners", kinds.weakest_link(content), rows, "", title))
    if result.truthful is not None:
        words, rows = agreed.truthful_lines(result), agreed.truthful_rows(result)
        sections.append(Section("What if owners misstate their costs?", words, rows, "", agreed.TRUTHFUL))
    notes = [f"Note: {warning}." for warning in result.warnings]
    sections.append(Section("Assumptions", [*notes, agreed.INTERPOLATION_NOTE]))
    name = result.terms.title or "a joint model"
    return page(f"Negotiation: {name}", agreed.headline(result), sections, f"Parley · terms {result.terms.hash}")


def joined_page(shared: Chapter, separate: Chapter, large: Chapter, bargain: Sequence[str], picture: Figure) -> str:
    """Return the demo's HTML report."""
    terms, prices = shared.expected.terms, [owner.price for owner in shared.owners]
    sections = [
        Section(
            "Who gains, and by how much?",
            [verdict(shared, "shared noise"), verdict(separate, "each owner's own noise")],
            figure=svg(picture),
        ),
        Section(
            "What was the forecast before training?",
            [forecast_sentence(shared.expected, prices), assumption(shared.expected)],
            forecast_rows(shared.expected, prices),
        ),
        Section("What would persuade the large bank to join?", bargain),
        Section(
            "What was the result?",
            [
                on_held_out(shared),
                without_anybody(shared),
                "The table shows the error that each personal model saves, in % of the owner's error without joining.",
            ],
            outcome_rows(shared, separate),
        ),
        Section("Three large banks", [large_owners_sentence(large)]),
        Section(
            "What does this report not show?",
            [SIMULATION_NOTE, "All loans are synthetic: a random generator made the loans without any real data."],
        ),
    ]
    lead = "Should we train together, on what privacy terms, and with what result?"
    return page(terms.title, lead, sections, f"Parley · terms {terms.hash}")
