"""Pages of a run and of owners' verdicts on the joint model, the latter for the owners only."""

from collections.abc import Sequence

import numpy as np

from parley.decisions.outlook.worth import Worth
from parley.learning.outcome import Result
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE, SIMULATION_NOTE, guarantee, kind_of_run
from parley.learning.outcome.verdict import Verdict
from parley.numerals import counted
from parley.report.figures import curves, picture
from parley.report.figures.owner_gains import OwnerGain, model_costs, owner_gains
from parley.report.figures.picture import Picture
from parley.report.figures.shape_functions import shape_functions, shapes_words
from parley.report.pages.page import Section, page
from parley.report.words.forecast import baseline_line
from parley.report.words.training import (
    aborted_line,
    clip_line,
    consensus_line,
    interval_line,
    interval_rows,
    notice_lines,
    owner_rows,
    quality_rows,
    score_rows,
    score_title,
    stable_line,
    stable_rows,
    undefined_line,
    useless_line,
)
from parley.report.words.verdict import explained, headline, owners_rows, owners_sentence, verdict_rows
from parley.terms import Terms

SHOWN_SETTINGS = (
    ("model.kind", "model.target", "model.features", "model.public", "model.holdout"),
    ("learning.algorithm", "learning.horizon", "learning.step"),
    (
        "privacy.mechanism",
        "privacy.alpha",
        "privacy.clip",
        "privacy.delta",
        "privacy.noise",
        "privacy.person",
        "privacy.records_per_person",
    ),
    ("aggregation.rule", "aggregation.byzantine", "aggregation.spread"),
)


def run_page(result: Result, expected: Worth | None = None, notes: Sequence[str] = ()) -> str:
    """Return the HTML page of a simulation or a release; `notes` are points to check."""
    terms = result.terms
    beside = [line for line in (clip_line(result), aborted_line(result), consensus_line(result)) if line is not None]
    words = result.model.preparation_.target_words
    paragraphs = [guarantee(result), *beside, *([] if words is None else [words])]
    sections = [
        Section(
            "What did each owner promise and spend?", paragraphs, owner_rows(result), caption=f"ε: {result.adjacency}"
        )
    ]
    if notes:
        sections.append(Section("What should you check?", list(notes)))
    if result.notices:
        sections.append(Section("Which answers are not explained by bound, noise and spread?", notice_lines(result)))
    if result.quality is not None:
        path = result.path
        drawn = "" if path is None else picture.svg(curves.fitness_path(np.asarray(path)))
        middle = "median" if terms.studied else "mean"
        text = (
            f"Relative fitness is the relative excess training cost over the best model without privacy ({middle} of "
            f"{counted(result.replicates, 'run')})."
        )
        beside = [line for line in (undefined_line(result), useless_line(result)) if line is not None]
        sections.append(Section("How good is the model?", [text, *beside], quality_rows(result), drawn))
    if (stable := stable_line(result)) is not None:
        sections.append(Section("What does stable noise cost?", [stable], stable_rows(result)))
    if result.intervals is not None:
        sections.append(Section("How certain are the coefficients?", [interval_line(result)], interval_rows(result)))
    if (shapes := result.shapes) is not None:
        drawn = picture.svg(shape_functions(result.model, result.theta))
        sections.append(Section("What does each column add to the prediction?", [shapes_words(shapes)], figure=drawn))
    if result.scores is not None:
        sections.append(
            Section(
                score_title(result),
                ["The table shows the owners' scores on held-out rows, each with one standard error."],
                score_rows(result.scores),
            )
        )
    if expected is not None:
        below = expected.sentence()
        verdict = "" if below is None else f"The model is not worth spending budget on: {below}."
        sections.append(
            Section(
                "How good are models without any owner's data?",
                [baseline_line(expected), *([verdict] if verdict else [])],
            )
        )
    sections.append(Section("What was agreed?", ["docs/terms.md explains every key of the terms."], _settings(result)))
    if not result.released:
        sections.append(Section("What does this report not show?", [SIMULATION_NOTE]))
    return page(terms.title or "A joint model", kind_of_run(result), sections, f"Parley · terms {result.terms_hash}")


def _settings(result: Result) -> list[list[str]]:
    """Return a table of the main keys of the terms."""
    rows = [["key", "value"]]
    for section in SHOWN_SETTINGS:
        for key in section:
            part, name = key.split(".")
            value = getattr(getattr(result.terms, part), name, None)
            if value is not None:
                rows.append([key, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)])
    return rows


AUDIENCE_TITLE = "Who may see this report?"


def verdict_page(verdict: Verdict, terms: Terms) -> str:
    """Return the HTML page of one owner's verdict."""
    words = [*explained(verdict), *([] if verdict.target_words is None else [verdict.target_words])]
    drawn = picture.svg(model_costs(verdict))
    sections = [
        Section("How good is each model on the owner's held-out rows?", words, verdict_rows(verdict), drawn),
        Section(AUDIENCE_TITLE, [KEEP_INSIDE_NOTE]),
    ]
    title = f"Is the joint model better for {verdict.owner}?"
    return page(title, headline(verdict), sections, f"Parley · {terms.title} · terms {terms.hash}")


def owners_page(verdicts: Sequence[Verdict], terms: Terms) -> str:
    """Return the HTML page of all owners' verdicts."""
    drawn = picture.svg(verdicts_figure(verdicts))
    sections = [
        Section("How good is each model on the owners' held-out rows?", (), owners_rows(verdicts), drawn),
        Section(AUDIENCE_TITLE, [KEEP_INSIDE_NOTE]),
    ]
    title = f"Which owners gained? {terms.title}".strip()
    return page(title, owners_sentence(verdicts), sections, f"Parley · terms {terms.hash}")


def verdicts_figure(verdicts: Sequence[Verdict]) -> Picture:
    """Draw what joining saves each owner on its own held-out rows, with its personal model."""
    gains = [_gain(each) for each in verdicts]
    paid, surely = sum(gain.mean > 0 for gain in gains), sum(gain.low > 0 for gain in gains)
    title = f"{paid:,} of {len(gains):,} owners gain by joining, {surely:,} of them significantly"
    return owner_gains(
        gains, title, "cost saved per row with the personal model", "lines: 90% intervals on the owners' held-out rows"
    )


def _gain(found: Verdict) -> OwnerGain:
    gain = found.personal_gain
    return OwnerGain(found.owner, gain.mean, gain.low, gain.high, found.measured)
