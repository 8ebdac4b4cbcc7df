"""Exhibits of Z's chapters 3 and 4: what needs accounting only."""

import math
from typing import Any

import numpy as np

from parley.numerals import number
from parley.privacy.accounting.meaning import posterior_bounds
from parley.privacy.accounting.stable_bounds import PANELS_BY_FIGURE, panel_curves
from parley.privacy.events import Adjacency
from parley.validate import Floats
from parley_lab.papers.document import Parts, Progress, Shown, Titled
from parley_lab.papers.zawacki2024 import stable_noise
from parley_lab.papers.zawacki2024.settings import Trials
from parley_lab.papers.zawacki2024.stable_noise import DELTA, NETWORK_TABLE, TRIED_ALPHAS, BestAlpha, best_alpha

Line = tuple[str, Floats, Floats, bool]  # its name, across, up, whether dashed
READING_COLUMNS = {  # of the epsilons of a table's row: columns, by what they are
    "one-dim.": "one",
    "charged": "charged",
    "bound": "sound",
}
ADJACENCY = {
    "one": Adjacency.ADD_OR_REMOVE_ONE,
    "charged": Adjacency.ADD_OR_REMOVE_ONE,
    "sound": Adjacency.REPLACE_ONE,
}
RULE_WORDS = {
    "one": "in one coordinate, pure",
    "all": "in all coordinates, pure",
    "many": f"spread over ever more (the limit, no upper bound), at δ = {DELTA:g}",
}
EPSILONS = (0.1, 1.0, 5.0)
BELIEF_EPSILONS, BEFORE = (0.1, 0.5, 1.0, 2.0, 5.0), (0.1, 0.5, 0.9)
FIGURE_REMARKS = {
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
    parts: Parts = [
        Titled(f"Figure {word}: {found.title}", rows),
        *([FIGURE_REMARKS[word]] if word in FIGURE_REMARKS else []),
    ]
    return bench.shown(
        word, {"curves": content}, parts, (found.title, found.across, found.up, lines, found.logarithmic)
    )


def beliefs(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figure 2.2: between which beliefs somebody may end up, by epsilon and what was believed before."""
    rows = []
    for epsilon in BELIEF_EPSILONS:
        for before in BEFORE:
            lowest, highest = posterior_bounds(epsilon, before)
            rows.append({"epsilon": epsilon, "before": before, "least": lowest, "most": highest})
    table = [["ε", *(f"belief {before:g}" for before in BEFORE)]]
    for epsilon in BELIEF_EPSILONS:
        mine = [row for row in rows if row["epsilon"] == epsilon]
        table.append([f"{epsilon:g}", *(f"{row['least']:.3f} to {row['most']:.3f}" for row in mine)])
    return bench.shown(word, {"rows": rows}, [Titled("Figure 2.2: what a reader may believe afterwards", table)])


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
    for rule in RULE_WORDS:
        for epsilon in EPSILONS:
            progress(len(found), len(RULE_WORDS) * len(EPSILONS))
            found.append(best_alpha(rule, epsilon))
    rows = [["a difference of 1", "ε", "best α", "E|noise| there", "of Laplace or Gaussian noise"]]
    rows += [[RULE_WORDS[b.rule], f"{b.epsilon:g}", f"{b.alpha:.4g}", number(b.least), number(b.rival)] for b in found]
    remark = (
        "Pure, no α comes up to Laplace noise, in one coordinate or in all; spread over ever more coordinates, the "
        "Gaussian (α = 2) "
    )
    remark += "is best; that ε is the low end of what such noise costs, and no upper bound."
    lines = [(RULE_WORDS[b.rule], TRIED_ALPHAS, b.distortions / b.rival, False) for b in found if b.epsilon == 1]
    drawn = ("Distortion at ε = 1, of Laplace or Gaussian noise's", "α", "times", lines, False, False, 5.0)
    content = {
        "alphas": TRIED_ALPHAS.tolist(),
        "rows": [{**vars(b), "distortions": b.distortions.tolist()} for b in found],
    }
    return bench.shown(word, content, [Titled("The α of least distortion for a fixed ε", rows), remark], drawn)


def trained(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figures 4.5 and 4.12, at the points that table 4.3 prints."""
    found = stable_noise.trained()
    rows = [["α", "scale", "accuracy % (Z's)", "E|noise| printed", "computed", "ε printed", *READING_COLUMNS]]
    for row in found:
        printed = [f"{row['alpha']:g}", *(number(row[key]) for key in ("scale", "accuracy", "distortion"))]
        epsilons = [number(row["epsilon"]), *(number(row[key], side="above") for key in READING_COLUMNS.values())]
        rows.append([*printed, number(row["computed_distortion"]), *epsilons])
    steps = math.ceil(NETWORK_TABLE.epochs / NETWORK_TABLE.rate)
    remark = (
        f"ε of {steps:,} steps, those of {NETWORK_TABLE.epochs} epochs of batches of {NETWORK_TABLE.batch:,} from "
        f"{NETWORK_TABLE.images:,} records, at δ = {NETWORK_TABLE.delta:g}. One-dim(ensional): Z's, for one "
        "coordinate alone "
        f"({Adjacency.ADD_OR_REMOVE_ONE}). Charged: the same at half the scale, as with a clip of 2, by which "
        f"Z's Gaussian ε come out. Bound: in every direction ({Adjacency.REPLACE_ONE}); of α < 2 by Rényi "
        "divergences. Z prints a sampling ratio of 0.001 and 200 epochs; steps are composed. Nothing is trained here."
    )
    content = {"rows": found, "steps": steps, "delta": NETWORK_TABLE.delta, "adjacency": ADJACENCY}
    drawn = ("Accuracy on CIFAR-10, Z's", *_accuracies(word, found, steps), False, True)
    return bench.shown(word, content, [Titled(f"Figure {word} at the points of table 4.3", rows), remark], drawn)


def _accuracies(word: str, found: list[dict[str, float | None]], steps: int) -> tuple[str, str, list[Line]]:
    """(what is across, what is up, lines): accuracy by the noise's scale, or by eps in one coordinate and as a
    bound."""
    by = {alpha: [row for row in found if row["alpha"] == alpha] for alpha in (2.0, 1.999)}
    across, keys = "scale of the noise", {"scale": ("", False)}
    if word == "4.12":
        across = f"ε of {steps:,} steps"
        keys = {
            "one": (f", one coordinate ({Adjacency.ADD_OR_REMOVE_ONE})", False),
            "sound": (f", bound ({Adjacency.REPLACE_ONE})", True),
        }
    lines = [
        (f"α = {alpha:g}{suffix}", *_columns(part, key), dashed)
        for alpha, part in by.items()
        for key, (suffix, dashed) in keys.items()
    ]
    return across, "%", lines


def _columns(rows: list[dict[str, float | None]], key: str) -> tuple[Floats, Floats]:
    return np.array([row[key] for row in rows]), np.array([row["accuracy"] for row in rows])


def curves(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figures 4.1 and 4.6 to 4.11: privacy curves."""
    panels, content = PANELS_BY_FIGURE[word], list[dict[str, Any]]()
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
        f"information does; neither bounds every direction. All for {Adjacency.REPLACE_ONE} adjacency."
    )
    if any(rate < 1 for panel in panels for rate in panel.sampling):
        remark += (
            " Sampled, a replacement moves the value by 1, from half of it on one side to half of it on the other; Z's "
            f"sampled curves are for {Adjacency.ADD_OR_REMOVE_ONE}, where a record moves it by 1."
        )
    if word == "4.11":
        remark += " By Z's definition δ at ε = 1 and sampling 0.1 is 1.29e-06."
    return bench.shown(word, {"panels": content}, [Titled(f"Figure {word}", rows), remark], (content,))
