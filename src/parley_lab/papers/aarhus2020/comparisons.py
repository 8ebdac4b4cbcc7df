"""A's printed figures beside those of a run."""

from collections.abc import Mapping

import numpy as np

from parley_lab.papers.aarhus2020.tables import MAX_DIFFERENCE_POINTS, SCATTER_POINTS
from parley_lab.papers.document import Shown
from parley_lab.papers.records import Comparison, Reading, Relation

TOLERANCE_SOURCE = (
    f"three deviations of A's own scatter, {SCATTER_POINTS:.2g} points: alone and together have one law there"
)
MIN_CORRELATION = 0.3  # correlation from which a picture of weights is said to show its digit
SHOWS_SOURCE = f"ours: {MIN_CORRELATION:g} of correlation with the digit's mean image"


def laws(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 4, and the two coins."""
    found = shown["figure-4"].content["output_laws"]
    worst, source = max(found["ratios"]), "exact up to rounding"
    return [
        Comparison("largest ratio of the two laws at ε = ln 2", 2.0, worst, 1e-6, source, Relation.AT_MOST),
        Comparison("two coins: e^ε", 3.0, float(found["coins"]), 1e-12, source),
    ]


def accuracies(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Tables 3 to 6, and figures 5 and 6, which draw them: each place, and what no noise gives."""
    content = next(iter(shown.values())).content
    tables = {name: rows for name, rows in content["tables"].items() if name != "law"}
    lines = [
        Comparison(
            f"{name.replace('-', ' ')}, ε = {row['epsilon']:g}, %",
            row["published"],
            row["ours"],
            MAX_DIFFERENCE_POINTS,
            TOLERANCE_SOURCE,
        )
        for name, rows in tables.items()
        for row in rows
    ]
    lines += [
        Comparison(
            f"{what}: no noise, %",
            each["published"],
            each["ours"],
            MAX_DIFFERENCE_POINTS,
            TOLERANCE_SOURCE,
            reading=Reading.FITTED,
        )
        for what, each in content["without_noise"].items()
    ]
    totals = [row["total"] for rows in tables.values() for row in rows]
    steps = [row["epsilon"] for rows in tables.values() for row in rows]
    worst = int(np.argmax(totals))
    what = f"ε of all epochs, where A has that of a step, replace-one, δ = 0.001: {steps[worst]:g}"
    return [*lines, Comparison(what, steps[worst], totals[worst], 0.0, "as printed", reading=Reading.BESIDE)]


def weights(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 7: digits show, if the random start is small, whose scale A does not print. Figure 8, with noise: A sees
    nothing but noise."""
    noiseless = "figure-7" in shown
    relation, reading = (Relation.AT_LEAST, Reading.BESIDE) if noiseless else (Relation.AT_MOST, Reading.DOCUMENT)
    # a random start hides digits with and without noise, so what was learned decides
    (found,) = next(iter(shown.values())).content["legible"]
    what = "mean correlation of ten pictures with their digits"
    raw, less = (float(np.mean(found[key])) for key in ("weights", "less_start"))
    return [
        Comparison(f"{what}: weights", MIN_CORRELATION, raw, 0.0, SHOWS_SOURCE, relation, Reading.BESIDE),
        Comparison(f"{what}: weights less their start", MIN_CORRELATION, less, 0.0, SHOWS_SOURCE, relation, reading),
    ]


def zeros(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 9: the shape of 0 emerges as epsilon rises; whether it shows depends on the start's scale."""
    found = shown["figure-9"].content["legible"]
    raw, less = ([each[key][0] for each in found] for key in ("weights", "less_start"))
    ends = f"ε = {found[-1]['epsilon']:g} a step"
    what = "correlation of the picture with a 0"
    return [
        _shows(f"{what}, {ends}: weights", raw[-1]),
        Comparison(f"{what}, gain from the least ε: weights", 0.0, raw[-1] - raw[0], 0.0, "ours", Relation.AT_LEAST),
        _shows(f"{what}, {ends}: weights less their start", less[-1]),
    ]


def _shows(what: str, correlation: float) -> Comparison:
    return Comparison(what, MIN_CORRELATION, correlation, 0.0, SHOWS_SOURCE, Relation.AT_LEAST, Reading.BESIDE)
