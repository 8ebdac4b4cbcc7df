"""A forecast as a page, in the sentences of the terminal: how good the model would be, for whom, with whose noise."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parley.decisions.outlook.forecast import Forecast
from parley.decisions.planning.noise_terms import kind_of
from parley.decisions.planning.planner import Proposal
from parley.report.figures import curves, picture
from parley.report.figures.owner_gains import OwnerGain, owner_gains
from parley.report.figures.picture import Picture
from parley.report.pages.page import Section, page
from parley.report.words import forecast as said
from parley.report.words import noise as kinds
from parley.report.words import outlook as outlook_words
from parley.terms import Terms

PUBLIC = "Computed from public knowledge, the terms and a pilot sample: no private record was looked at."


def forecast_page(
    result: Forecast,
    noise: Mapping[str, Any],
    verdict: Sequence[str],
    proposal: Proposal | None = None,
    planned: Mapping[str, Any] | None = None,
) -> str:
    """The HTML page of a forecast; `noise` and `planned` are the JSON of a comparison of noise and of the plan,
    `verdict` the sentences that it begins with."""
    terms, without = result.terms, said.better_without(result)
    baselines = said.baseline_line(result.worth, result.expected_cost)
    good = [*said.details(result), baselines, *said.verdict_lines(result)]
    whom = [said.assumption(result), *([] if without is None else [without])]
    drawn = picture.svg(fitness_figure(result)) if np.isfinite(result.path).all() else ""
    head, *would = verdict
    whole = outlook_words.gain_rows(result.outlook)
    sections = [
        Section("Who gains?", would, whole, picture.svg(gains_figure(result)), outlook_words.TITLE),
        Section("What does each model cost owners?", whom, said.owner_rows(result), "", said.owner_title(result)),
        Section("How good would the model be?", [said.headline(result), *good], figure=drawn),
        Section(
            "Where should the noise be drawn?", _noise_lines(noise, terms), kinds.kind_rows(noise), "", kinds.TITLE
        ),
    ]
    if proposal is not None and planned is not None:
        advice = [said.plan_advice(proposal), said.plan_rests_on(proposal)]
        lines = [*advice, *said.unjudged_lines(proposal), *kinds.plan_beside(planned)]
        sections.append(Section("Could the budgets be spent better?", lines, said.plan_rows(proposal), "", said.PLAN))
    notes = [f"Note: {warning}." for warning in result.warnings]
    sections.append(Section("What does this rest on?", [*notes, PUBLIC, said.CAVEAT]))
    return page(f"Forecast: {terms.title or 'a joint model'}", head, sections, _footer(terms))


def fitness_figure(result: Forecast) -> Picture:
    """Expected relative fitness by round."""
    return curves.fitness_path(result.path[:, None], "Expected distance from the model without privacy")


def gains_figure(result: Forecast) -> Picture:
    """What joining would bring each owner."""
    gains = [OwnerGain(o.name, o.gain.mean, o.gain.low, o.gain.high, o.verdict) for o in result.owners]
    better = sum(gain.verdict == "join" for gain in gains)
    title = f"Worth it for {better:,} of {len(gains):,} owners, whatever is left open"
    about = "lines: 90 % of what may come out"
    return owner_gains(gains, title, "expected gain in test cost, a row of its own", about)


def _noise_lines(noise: Mapping[str, Any], terms: Terms) -> list[str]:
    kind = kind_of(terms)
    two = [kinds.two_hosts(len(terms.owners))] if kind == "two_hosts" else []
    return [kinds.decision(noise, kind), *two]


def _footer(terms: Terms) -> str:
    return f"Parley · terms {terms.hash}"
