"""Chapters 3 and 4 of `parley reproduce zawacki2024`: what needs accounting only."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from parley.numerals import number
from parley.papers import privacy_curves, stable_noise
from parley.papers.figures import noise_figures
from parley.papers.stable_noise import CHOICES, COMPOSITIONS, DELTA, SAMPLING, BestAlpha, best_alpha
from parley.report import figures
from parley.report.terminal import console, progress_bar, terminal_table

CHARTS = ("3.4", "3.5", "3.6", "3.7", "3.8")
TABLE, BEST, TRAINED = "table-3.1", "best-alpha", ("4.5", "4.12")
NAMES = (*CHARTS, TABLE, BEST, *sorted((*privacy_curves.FIGURES, *TRAINED), key=lambda name: int(name.split(".")[1])))
RULES = {
    "one": "in one coordinate, pure",
    "all": "in all coordinates, pure",
    "many": f"spread over ever more (the limit, no upper bound), at δ = {DELTA:g}",
}
EPSILONS = (0.1, 1.0, 5.0)

Shown = tuple[dict[str, Any], list[list[str]], str, str]  # content, rows, title, a remark


def noise_figure(name: str, out: Path | None, as_json: bool) -> dict[str, Any]:
    """One figure or table of chapters 3 and 4: printed, drawn into `out`, and as an object."""
    with progress_bar(f"figure {name}") as progress:
        content, rows, title, remark = _parts(name, out, progress)
    if not as_json:
        console.print(terminal_table(rows, title))
        console.print(remark, style="dim", highlight=False, markup=False)
        console.print()
    return {"figure": name, **content}


def _parts(name: str, out: Path | None, progress: Callable[[int, int], None]) -> Shown:
    if name in CHARTS:
        return _chart(name, out)
    if name == TABLE:
        return _distortions()
    if name == BEST:
        return _best(out, progress)
    return _trained(name, out) if name in TRAINED else _curves(name, out, progress)


def _chart(name: str, out: Path | None) -> Shown:
    chart = stable_noise.chart(name)
    if out is not None:
        lines = [(each.label, each.x, each.y, each.sound) for each in chart.curves]
        figures.save(noise_figures.chart(chart.title, chart.across, chart.up, lines, chart.logarithmic), out / f"figure-{name}.png")
    rows = [["", f"largest {chart.up}", f"at {chart.across}", "at the end"]]
    for each in chart.curves:
        top = int(np.argmax(each.y))
        rows.append([each.label or chart.title, number(float(each.y[top])), number(float(each.x[top])), number(float(each.y[-1]))])
    content = [{"label": e.label, "sound": e.sound, "x": e.x.tolist(), "y": e.y.tolist()} for e in chart.curves]
    remarks = {
        "3.4": "Differences of 1. Below α = 2 the loss has a top: that is ε of one coordinate.",
        "3.6": "Dashed: κ/scale, which holds however a difference is spread: no logarithm where the noise is small.",
        "3.7": "For small scales ε is 2 ln(1/scale), in one coordinate; as printed, 2 ln(√2/scale), it is too large by ln 2.",
    }
    return {"curves": content}, rows, f"Figure {name}: {chart.title}", remarks.get(name, "")


def _distortions() -> Shown:
    found = stable_noise.distortions()
    rows = [["α", "published", "computed"]]
    rows += [[f"{row['alpha']:g}", *(f"{row[key]:.4f}" for key in ("published", "computed"))] for row in found]
    content = [{key: value if np.isfinite(value) else None for key, value in row.items()} for row in found]
    return {"rows": content}, rows, "Table 3.1: E|noise| at scale 1", "Infinite for the Cauchy law (α = 1)."


def _best(out: Path | None, progress: Callable[[int, int], None]) -> Shown:
    found = list[BestAlpha]()
    for rule in RULES:
        for epsilon in EPSILONS:
            progress(len(found), len(RULES) * len(EPSILONS))
            found.append(best_alpha(rule, epsilon))
    rows = [["a difference of 1", "ε", "best α", "E|noise| there", "of Laplace or Gaussian noise"]]
    rows += [[RULES[b.rule], f"{b.epsilon:g}", f"{b.alpha:.4g}", number(b.least), number(b.rival)] for b in found]
    if out is not None:
        lines = [(RULES[b.rule], CHOICES, b.distortions / b.rival, False) for b in found if b.epsilon == 1]
        picture = noise_figures.chart("Distortion at ε = 1, of Laplace or Gaussian noise's", "α", "times", lines)
        picture.axes[0].set_ylim(0, 5)
        figures.save(picture, out / f"{BEST}.png")
    content = [{**vars(b), "distortions": b.distortions.tolist()} for b in found]
    remark = "Pure, no α comes up to Laplace noise, in one coordinate or in all; spread over ever more coordinates, the Gaussian (α = 2) "
    remark += "is best; that ε is the low end of what such noise costs, and no upper bound."
    return {"alphas": CHOICES.tolist(), "rows": content}, rows, "The α of least distortion for a fixed ε", remark


def _trained(name: str, out: Path | None) -> Shown:
    found = stable_noise.trained()
    rows = [["α", "scale", "accuracy % (Z's)", "E|noise| printed", "computed", "ε printed", "in one coordinate", "in all"]]
    for row in found:
        printed = [f"{row['alpha']:g}", number(row["scale"]), number(row["accuracy"]), number(row["distortion"])]
        epsilons = [number(row["epsilon"]), number(row["one"], side="above"), number(row["all"], side="above")]
        rows.append([*printed, number(row["computed_distortion"]), *epsilons])
    if out is not None:
        by = {alpha: [row for row in found if row["alpha"] == alpha] for alpha in (2.0, 1.999)}
        keys = (("scale", False),) if name == "4.5" else (("one", False), ("all", True))
        lines = [
            (f"α = {alpha:g}" + (", all coordinates" if sound else ""), *_columns(part, key), sound)
            for alpha, part in by.items()
            for key, sound in keys
            if not (sound and alpha == 2)
        ]
        across = "scale of the noise" if name == "4.5" else "ε"
        figures.save(noise_figures.chart("Accuracy on CIFAR-10, Z's", across, "%", lines, marks=True), out / f"figure-{name}.png")
    remark = (
        f"{COMPOSITIONS} compositions, sampling {SAMPLING:g}, δ = {DELTA:g}, sensitivity 1, as Z says. Nothing is trained here. "
        "The printed ε do not come out of that. At scale 5.66, where ε = 3 and ε = 1 are printed, both laws cost one coordinate the same."
    )
    return {"rows": found}, rows, f"Figure {name} at the points of table 4.3", remark


def _columns(rows: list[dict[str, float]], key: str) -> tuple[Any, Any]:
    return np.array([row[key] for row in rows]), np.array([row["accuracy"] for row in rows])


def _curves(name: str, out: Path | None, progress: Callable[[int, int], None]) -> Shown:
    panels, content = privacy_curves.FIGURES[name], list[dict[str, Any]]()
    for done, panel in enumerate(panels):
        progress(done, len(panels))
        content.append({"title": panel.title, "over": panel.over, "curves": privacy_curves.panel_curves(panel)})
    if out is not None:
        figures.save(figures.privacy_curves(content), out / f"figure-{name}.png")
    over = panels[0].over
    at = 1.0
    rows = [["", "", f"{'δ at ε' if over == 'epsilon' else 'ε at scale'} = {at:g}"]]
    for each in content:
        for curve in each["curves"]:
            spread = "one coordinate" if curve["spread"] == "one" else "spread over many"
            value = float(np.interp(at, curve["x"], curve["y"]))
            rows.append([each["title"], f"{curve['label']}, {spread}", number(value, 3)])
    remark = (
        "Solid: one coordinate's. Dashed: spread over many, where the law costs what the Gaussian with its Fisher information does."
    )
    return {"panels": content}, rows, f"Figure {name}", remark
