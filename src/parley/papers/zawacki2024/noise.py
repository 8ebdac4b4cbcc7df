"""Exhibits of Z's chapters 3 and 4: what needs accounting only."""

from typing import Any

import numpy as np

from parley.numerals import number
from parley.papers.document import Parts, Progress, Shown, Titled
from parley.papers.zawacki2024 import stable_noise
from parley.papers.zawacki2024.settings import Trials
from parley.papers.zawacki2024.stable_noise import CHOICES, COMPOSITIONS, DELTA, SAMPLING, BestAlpha, best_alpha
from parley.privacy.accounting.curve_panels import FIGURES, panel_curves

RULES = {
    "one": "in one coordinate, pure",
    "all": "in all coordinates, pure",
    "many": f"spread over ever more (the limit, no upper bound), at δ = {DELTA:g}",
}
EPSILONS = (0.1, 1.0, 5.0)
REMARKS = {
    "3.4": "Differences of 1. Below α = 2 the loss has a top: that is ε of one coordinate.",
    "3.6": "Dashed: κ/scale, which holds however a difference is spread: no logarithm where the noise is small.",
    "3.7": "For small scales ε is 2 ln(1/scale), in one coordinate; as printed, 2 ln(√2/scale), it is too large by ln "
    "2.",
}


def chart(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figures 3.4 to 3.8: losses, epsilons and distortions as lines."""
    found = stable_noise.chart(word)
    rows = [["", f"largest {found.up}", f"at {found.across}", "at the end"]]
    for each in found.curves:
        top = int(np.argmax(each.y))
        rows.append(
            [
                each.label or found.title,
                number(float(each.y[top])),
                number(float(each.x[top])),
                number(float(each.y[-1])),
            ]
        )
    content = [{"label": e.label, "sound": e.sound, "x": e.x.tolist(), "y": e.y.tolist()} for e in found.curves]
    lines = [(each.label, each.x, each.y, each.sound) for each in found.curves]
    parts: Parts = [Titled(f"Figure {word}: {found.title}", rows), *([REMARKS[word]] if word in REMARKS else [])]
    return bench.shown(
        word, {"curves": content}, parts, (found.title, found.across, found.up, lines, found.logarithmic)
    )


def distortions(bench: Trials, word: str, progress: Progress) -> Shown:
    """Table 3.1: E|noise| at scale 1, published beside computed."""
    found = stable_noise.distortions()
    rows = [["α", "published", "computed"]]
    rows += [[f"{row['alpha']:g}", *(f"{row[key]:.4f}" for key in ("published", "computed"))] for row in found]
    content = [{key: value if np.isfinite(value) else None for key, value in row.items()} for row in found]
    parts: Parts = [Titled("Table 3.1: E|noise| at scale 1", rows), "Infinite for the Cauchy law (α = 1)."]
    return bench.shown(word, {"rows": content}, parts)


def best(bench: Trials, word: str, progress: Progress) -> Shown:
    """Which alpha distorts least at a fixed epsilon, by three rules."""
    found = list[BestAlpha]()
    for rule in RULES:
        for epsilon in EPSILONS:
            progress(len(found), len(RULES) * len(EPSILONS))
            found.append(best_alpha(rule, epsilon))
    rows = [["a difference of 1", "ε", "best α", "E|noise| there", "of Laplace or Gaussian noise"]]
    rows += [[RULES[b.rule], f"{b.epsilon:g}", f"{b.alpha:.4g}", number(b.least), number(b.rival)] for b in found]
    remark = (
        "Pure, no α comes up to Laplace noise, in one coordinate or in all; spread over ever more coordinates, the "
        "Gaussian (α = 2) "
    )
    remark += "is best; that ε is the low end of what such noise costs, and no upper bound."
    lines = [(RULES[b.rule], CHOICES, b.distortions / b.rival, False) for b in found if b.epsilon == 1]
    drawn = ("Distortion at ε = 1, of Laplace or Gaussian noise's", "α", "times", lines, False, False, 5.0)
    content = {"alphas": CHOICES.tolist(), "rows": [{**vars(b), "distortions": b.distortions.tolist()} for b in found]}
    return bench.shown(word, content, [Titled("The α of least distortion for a fixed ε", rows), remark], drawn)


def trained(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figures 4.5 and 4.12, at the points that table 4.3 prints."""
    found = stable_noise.trained()
    rows = [
        ["α", "scale", "accuracy % (Z's)", "E|noise| printed", "computed", "ε printed", "in one coordinate", "in all"]
    ]
    for row in found:
        printed = [f"{row['alpha']:g}", number(row["scale"]), number(row["accuracy"]), number(row["distortion"])]
        epsilons = [number(row["epsilon"]), number(row["one"], side="above"), number(row["all"], side="above")]
        rows.append([*printed, number(row["computed_distortion"]), *epsilons])
    remark = (
        f"{COMPOSITIONS} compositions, sampling {SAMPLING:g}, δ = {DELTA:g}, sensitivity 1, as Z says. Nothing is "
        "trained here. The printed ε do not come out of that. At scale 5.66, where ε = 3 and ε = 1 are printed, "
        "both laws cost one coordinate the same."
    )
    by = {alpha: [row for row in found if row["alpha"] == alpha] for alpha in (2.0, 1.999)}
    keys = (("scale", False),) if word == "4.5" else (("one", False), ("all", True))
    lines = [
        (f"α = {alpha:g}" + (", all coordinates" if sound else ""), *_columns(part, key), sound)
        for alpha, part in by.items()
        for key, sound in keys
        if not (sound and alpha == 2)
    ]
    across = "scale of the noise" if word == "4.5" else "ε"
    parts: Parts = [Titled(f"Figure {word} at the points of table 4.3", rows), remark]
    return bench.shown(word, {"rows": found}, parts, ("Accuracy on CIFAR-10, Z's", across, "%", lines, False, True))


def _columns(rows: list[dict[str, float]], key: str) -> tuple[Any, Any]:
    return np.array([row[key] for row in rows]), np.array([row["accuracy"] for row in rows])


def curves(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figures 4.1 and 4.6 to 4.11: privacy curves."""
    panels, content = FIGURES[word], list[dict[str, Any]]()
    for done, panel in enumerate(panels):
        progress(done, len(panels))
        content.append({"title": panel.title, "over": panel.over, "curves": panel_curves(panel)})
    at = 1.0
    rows = [["", "", f"{'δ at ε' if panels[0].over == 'epsilon' else 'ε at scale'} = {at:g}"]]
    for each in content:
        for curve in each["curves"]:
            spread = "one coordinate" if curve["spread"] == "one" else "spread over many"
            value = float(np.interp(at, curve["x"], curve["y"]))
            rows.append([each["title"], f"{curve['label']}, {spread}", number(value, 3)])
    remark = (
        "Solid: one coordinate's. Dashed: spread over many, where the law costs what the Gaussian with its Fisher "
        "information does."
    )
    return bench.shown(word, {"panels": content}, [Titled(f"Figure {word}", rows), remark], (content,))
