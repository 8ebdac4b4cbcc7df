"""A user's own run as a page: what it was, who promised what, how good the model is, what was agreed on."""

from collections.abc import Sequence

import numpy as np

from parley.decisions.outlook.worth import Worth
from parley.learning.outcome import Result
from parley.learning.outcome.guarantee import SIMULATION, guarantee, kind_of_run
from parley.report.figures import curves, picture
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

SETTINGS = (
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
    """The HTML page of a run, a simulation or a release, without anything from outside; `notes` are what is to be
    looked at twice."""
    terms = result.terms
    beside = [line for line in (clip_line(result), aborted_line(result), consensus_line(result)) if line is not None]
    words = result.model.preparation_.target_words
    told = [guarantee(result), *beside, *([] if words is None else [words])]
    sections = [Section("Who promised and spent what", told, owner_rows(result), caption=f"ε: {result.adjacency}")]
    if notes:
        sections.append(Section("What to look at twice", list(notes)))
    if result.notices:
        sections.append(Section("Whose answers are not explained?", notice_lines(result)))
    if result.quality is not None:
        path = result.path
        drawn = "" if path is None else picture.svg(curves.fitness_path(np.asarray(path)))
        middle = "median" if terms.studied else "mean"
        text = (
            f"Relative fitness is how far the training cost lies above the best possible one; {middle} of "
            f"{result.replicates} run(s)."
        )
        beside = [line for line in (undefined_line(result), useless_line(result)) if line is not None]
        sections.append(Section("How good is the model?", [text, *beside], quality_rows(result), drawn))
    if (stable := stable_line(result)) is not None:
        sections.append(Section("What does stable noise cost?", [stable], stable_rows(result)))
    if result.intervals is not None:
        sections.append(Section("How sure are the coefficients?", [interval_line(result)], interval_rows(result)))
    if (shapes := result.shapes) is not None:
        drawn = picture.svg(shape_functions(result.model, result.theta))
        sections.append(Section("What does each column add?", [shapes_words(shapes)], figure=drawn))
    if result.scores is not None:
        sections.append(
            Section(
                score_title(result),
                ["Figures on held-out rows, each with one standard error."],
                score_rows(result.scores),
            )
        )
    if expected is not None:
        below = expected.sentence()
        verdict = "" if below is None else f"Not worth a budget: {below}."
        sections.append(
            Section("What would nobody's data give?", [baseline_line(expected), *([verdict] if verdict else [])])
        )
    sections.append(Section("What was agreed on", ["All keys: docs/terms.md."], _settings(result)))
    if not result.released:
        sections.append(Section("What this is not", [SIMULATION]))
    return page(terms.title or "A joint model", kind_of_run(result), sections, f"Parley · terms {result.terms_hash}")


def _settings(result: Result) -> list[list[str]]:
    """A table of the main keys of the terms."""
    rows = [["key", "value"]]
    for section in SETTINGS:
        for key in section:
            part, name = key.split(".")
            value = getattr(getattr(result.terms, part), name, None)
            if value is not None:
                rows.append([key, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)])
    return rows
