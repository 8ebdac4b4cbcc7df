"""Z's printed figures beside those of a run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import hypot
from typing import Any

import numpy as np

from parley.privacy.mechanisms.stable import cauchy_epsilon
from parley.validate import Floats
from parley_lab.papers.document import Shown
from parley_lab.papers.records import Comparison, Reading, Relation
from parley_lab.papers.zawacki2024.delayed_control import START
from parley_lab.papers.zawacki2024.federated_inference import FIGURES, METHODS
from parley_lab.papers.zawacki2024.published_networks import PUBLISHED_TABLES
from parley_lab.papers.zawacki2024.stable_noise import SCALES, loss

Content = Mapping[str, Any]
GRID_SOURCE = "ours: the grid"
GAP, GAP_SOURCE = 0.02, "ours: a gap that a drawing shows"
STABLE_ALPHA = 1.999
AT_DELTA = 1e-5
MAX_FOUND_ERROR = 0.01  # mean squared error below which a series is found: one thousandth of guessing zero
TOLERANCE_POINTS = 1.5  # points of accuracy
HALFWAY_SLOPE, HALFWAY_SOURCE = -0.75, "ours: halfway to a logarithm"
PRINTED_GAINS = {0.5: 2.95, 1.0: 0.89, 3.0: 0.33}  # table 4.2: by how many percent accuracy rises, by epsilon


def _figure(shown: Mapping[str, Shown]) -> Content:
    return next(iter(shown.values())).content["figures"][0]  # type: ignore[no-any-return]


def _curves(shown: Mapping[str, Shown]) -> list[tuple[str, np.ndarray, np.ndarray]]:
    return [(each["label"], np.array(each["x"]), np.array(each["y"])) for each in _figure(shown)["curves"]]


def beliefs(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 2.2: what a reader may believe at epsilon = 1 who gave even odds."""
    row = next(each for each in _figure(shown)["rows"] if each["epsilon"] == 1 and each["before"] == 0.5)
    source = "half a unit of the printed digit"
    return [
        Comparison(f"belief of 0.5 at ε = 1, {end}", printed, row[end], 0.005, source)
        for end, printed in (("least", 0.27), ("most", 0.73))
    ]


def losses(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 3.4: straight for the Gaussian; below alpha = 2 a peak, the Cauchy law's by equation 3.57."""
    lines = []
    for label, x, y in _curves(shown):
        if label == "α = 2":
            bend = float(np.abs(y - x * (y[-1] / x[-1])).max())
            lines.append(Comparison(f"{label}: how far from a straight line", 0.0, bend, 1e-6, "ours: rounding"))
            continue
        fall, source = 1 - float(y[-1] / y.max()), "ours: a fall that a drawing shows"
        what = f"{label}: share by which the loss falls from its peak to the end"
        lines.append(Comparison(what, GAP, fall, 0.0, source, Relation.AT_LEAST))
        if label == "α = 1":
            lines.append(Comparison(f"{label}: peak", cauchy_epsilon(1.0, 1.0), float(y.max()), 0.005, GRID_SOURCE))
    return lines


def scales(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 3.5: the larger the scale, the lower the peak."""
    tops = [float(y.max()) for _, _, y in _curves(shown)]
    falls = [b - a for a, b in pairwise(tops)]
    return [Comparison("largest change of the peak to the next scale", 0.0, max(falls), 0.0, "", Relation.AT_MOST)]


def pure(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 3.6: the Cauchy law by equation 3.57; at large scales 1/scale, at small ones a logarithm; in all
    coordinates no logarithm."""
    curves = {label: y for label, _, y in _curves(shown)}
    lines = []
    for scale in (0.1, 1.0, 10.0):  # the largest loss on a fine grid beside the equation
        x = np.linspace(0.4, 3, 20_001) * math.hypot(scale, 0.5)
        top = float(loss(x, 1.0, scale).max())
        what = f"Cauchy law of scale {scale:g}: largest loss, equation 3.57"
        lines.append(Comparison(what, cauchy_epsilon(scale, 1.0), top, 1e-5, GRID_SOURCE))
    for alpha in ("1", "1.5", "1.9"):
        one, every = curves[f"α = {alpha}"], curves[f"α = {alpha}, all coordinates"]
        slopes = [
            float(np.polyfit(np.log(SCALES[part]), np.log(one[part]), 1)[0]) for part in (slice(-5, None), slice(5))
        ]
        lines.append(Comparison(f"α = {alpha}: log-log slope at large scales", -1.0, slopes[0], 0.05, GRID_SOURCE))
        what = f"α = {alpha}: log-log slope at small scales, where the Laplace law has -1"
        lines.append(Comparison(what, HALFWAY_SLOPE, slopes[1], 0.0, HALFWAY_SOURCE, Relation.AT_LEAST))
        slope = float(np.polyfit(np.log(SCALES[:5]), np.log(every[:5]), 1)[0])
        every_way, limit = f"{what}, all coordinates", (HALFWAY_SLOPE, slope, 0.0, HALFWAY_SOURCE)
        lines.append(Comparison(every_way, *limit, Relation.AT_LEAST, Reading.SOUND))
    return lines


def small_scales(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 3.7: the printed approximations of equation 3.57."""
    curves = {label: (x, y) for label, x, y in _curves(shown)}
    exact = curves["exact, one coordinate"][1]
    large = float(exact[-1] * SCALES[-1])
    lines = [Comparison(f"ε times scale at scale {SCALES[-1]:g}", 1.0, large, 0.01, "ours: a hundredth")]
    for name, reading in (("2 ln(√2/scale), as printed", Reading.DOCUMENT), ("2 ln(1/scale), mended", Reading.BESIDE)):
        x, y = curves[name]
        what = f"{name}, at scale {x[0]:g}: less the exact ε"
        lines.append(Comparison(what, 0.0, float(y[0] - exact[0]), 0.01, "ours: a hundredth", reading=reading))
    return lines


def gamma(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 3.8: falling in alpha, down to the printed 1.7725."""
    ((_, _, y),) = _curves(shown)
    return [
        Comparison("Γ(1 − 1/α) at α = 2", 1.7725, float(y[-1]), 5e-5, "half a unit of the last printed digit"),
        Comparison("largest change of Γ to the next α", 0.0, float(np.diff(y).max()), 0.0, "", Relation.AT_MOST),
    ]


def distortions(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Table 3.1."""
    return [
        Comparison(
            f"E|noise| at α = {row['alpha']:g}",
            row["published"],
            row["computed"],
            5e-5,
            "half a unit of the last printed digit",
        )
        for row in _figure(shown)["rows"]
        if row["published"] is not None
    ]


def privacy(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figures 4.1 and 4.6 to 4.11: stable noise at alpha = 1.999 costs less than Gaussian noise of its scale, in one
    coordinate, as drawn; spread over many it does not."""
    word, lines = _figure(shown)["figure"], list[Comparison]()
    gaps = [gap for panel in _figure(shown)["panels"] for gap in _gaps(panel)]
    for place, gap in enumerate(gaps):
        what = f"{gap.name}: largest share by which ε at α = {STABLE_ALPHA:g} is below the Gaussian's"
        claimed = place == 0 or word == "4.7"  # composed or sampled, Z has the curves come closer
        readings = (Reading.DOCUMENT, Reading.SOUND) if claimed else (Reading.BESIDE, Reading.BESIDE)
        for name, share, reading in zip((what, f"{what}, spread"), (gap.one, gap.many), readings, strict=True):
            lines.append(Comparison(name, GAP, share, 0.0, GAP_SOURCE, Relation.AT_LEAST, reading))
    if word == "4.10":
        falls = min(a.gaussian - b.gaussian for a, b in pairwise(gaps))
        what = "Gaussian ε at scale 1 falls with every lower sampling: least step"
        lines.append(Comparison(what, 0.0, falls, 0.0, "as printed", Relation.AT_LEAST))
    if word in ("4.7", "4.8", "4.9"):  # wider as delta falls; closer as releases add up
        sign, how = (1, "wider as δ falls") if word == "4.7" else (-1, "closer with every composition")
        steps = min(sign * (b.at_one - a.at_one) for a, b in pairwise(gaps))
        what = f"the gap at scale 1 gets {how}: least step"
        lines.append(Comparison(what, 0.0, steps, 0.0, "as printed", Relation.AT_LEAST))
    return lines


@dataclass(frozen=True)
class Gap:
    """By which share epsilon at alpha = 1.999 is below the Gaussian's: the largest over the picture, in `one`
    coordinate and spread over `many`, and that in one coordinate `at_one`, scale 1."""

    name: str
    one: float
    many: float
    at_one: float
    gaussian: float  # epsilon of the Gaussian at scale 1


def _gaps(panel: Content) -> list[Gap]:
    """The gap of each composition and sampling rate; of a curve of delta, at one delta."""
    groups: dict[str, dict[tuple[float, str], Floats]] = {}
    x = np.array([])
    for curve in panel["curves"]:
        group_name = curve["label"].partition(",")[2].strip() or panel["title"]
        x, values = np.array(curve["x"]), np.array(curve["y"])
        if panel["over"] == "epsilon":
            values = np.interp([-math.log(AT_DELTA)], -np.log(np.maximum(values, 1e-300)), x)
        groups.setdefault(group_name, {})[curve["alpha"], curve["spread"]] = values
    middle = 0 if panel["over"] == "epsilon" else int(np.argmin(np.abs(np.log(x))))
    found = []
    for name, group in groups.items():
        one, many = (1 - group[STABLE_ALPHA, spread] / group[2.0, "one"] for spread in ("one", "many"))
        found.append(
            Gap(name, float(one.max()), float(many.max()), float(one[middle]), float(group[2.0, "one"][middle]))
        )
    return found


def trained(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figures 4.5 and 4.12 at the points of table 4.3: E|noise|, and the epsilon of the printed scale."""
    content, lines = _figure(shown), list[Comparison]()
    for row in content["rows"]:
        name = f"α = {row['alpha']:g}, scale {row['scale']:g}"
        if content["figure"] == "4.5":
            lines.append(
                Comparison(f"{name}: E|noise|", row["distortion"], row["computed_distortion"], 6e-4, "printed digits")
            )
            continue
        lines += _epsilons(name, row["epsilon"], row["one"], row["charged"], row["sound"])
    return lines


def _epsilons(name: str, printed: float, one: float, charged: float | None, sound: float) -> list[Comparison]:
    """A row's epsilon: in one coordinate, as Z reads it; the same with a clip of 2; in every direction."""
    lines = [Comparison(f"{name}: ε, one coordinate", printed, one, 0.1 * printed, "ours: a tenth")]
    if charged is not None:
        what, source = f"{name}: ε, one coordinate, clip 2", "ours: a twentieth"
        lines.append(Comparison(what, printed, charged, 0.05 * printed, source, reading=Reading.FITTED))
    what = f"{name}: ε, every direction"
    return [*lines, Comparison(what, printed, sound, 0.0, "", Relation.AT_MOST, Reading.SOUND)]


def networks(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Tables 4.1, 4.3 and 4.5: accuracies where networks were trained, and epsilons."""
    lines = []
    for entry in _table(shown)["rows"]:
        noisy = entry["scale"] is not None
        if entry["published"] is None:
            continue
        name = f"α = {entry['alpha']:g}, scale {entry['scale']:g}" if noisy else "no noise, no clip"
        if entry["kept"] is not None:
            spread = 2 * hypot(entry["published_deviation"], entry["kept_deviation"])
            source = "two deviations of single runs, Z's and ours"
            lines.append(Comparison(f"{name}: accuracy, %", entry["published"], entry["kept"], spread, source))
            if noisy:
                what, reached = f"{name}, clip 2: accuracy, %", entry["kept_clip_2"]
                spread = 2 * hypot(entry["published_deviation"], entry["kept_clip_2_deviation"])
                lines.append(Comparison(what, entry["published"], reached, spread, source, reading=Reading.FITTED))
        if noisy:
            epsilons = (entry[f"{each}_epsilon"] for each in ("published", "one", "charged", "sound"))
            lines += _epsilons(name, *epsilons)
    return lines


def advantage(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Table 4.2: by how many percent accuracy rises with alpha = 1.999 at a printed epsilon; and in points, whether it
    rises at an equal sound one."""
    content, lines = _table(shown), list[Comparison]()
    trials_by_source = {"published": PUBLISHED_TABLES["4.1"].trials, "kept": content["kept"]["trials"]}
    rows = [entry for entry in content["rows"] if entry["published_epsilon"] is not None]
    for gaussian in (entry for entry in rows if entry["alpha"] == 2):
        stable = next(
            each for each in rows if each["alpha"] != 2 and each["published_epsilon"] == gaussian["published_epsilon"]
        )
        errors = [_gain(gaussian, stable, *each)[1] for each in trials_by_source.items()]
        lines.append(
            Comparison(
                f"printed ε = {gaussian['published_epsilon']:g}: % by which α = {STABLE_ALPHA:g} raises accuracy",
                PRINTED_GAINS[gaussian["published_epsilon"]],
                _gain(gaussian, stable, "kept", trials_by_source["kept"])[0],
                2 * hypot(*errors),
                "two standard errors, Z's and ours",
            )
        )
    (equal,) = content["equal_sound_epsilon"]
    what = f"equal sound ε, scale {equal['scale']:g}: points that α = {STABLE_ALPHA:g} adds"
    added, spread = equal["stable"] - equal["gaussian"], 2 * equal["standard_error"]
    source = "two standard errors of ours"
    return [*lines, Comparison(what, 0.0, added, spread, source, Relation.AT_LEAST, Reading.SOUND)]


def _gain(gaussian: Content, stable: Content, source: str, trials: int) -> tuple[float, float]:
    """(by how many percent accuracy rises from one row to the other, the standard error of that), of so many trials."""
    ratio = stable[source] / gaussian[source]
    deviation = hypot(stable[f"{source}_deviation"], ratio * gaussian[f"{source}_deviation"]) / gaussian[source]
    return 100 * (ratio - 1), 100 * deviation / math.sqrt(trials)


def _table(shown: Mapping[str, Shown]) -> Content:
    (content,) = next(iter(shown.values())).content["tables"].values()
    return content  # type: ignore[no-any-return]


def descent(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figures 6.4 and 6.5: where the descent ends, as printed, and otherwise."""
    found = _figure(shown)["errors"]
    printed, *others = found
    what = "mean squared error at the end"
    source = "ours: a thousandth of guessing zero"
    return [
        Comparison(f"{what}: {printed}", MAX_FOUND_ERROR, found[printed], 0.0, source, Relation.AT_MOST),
        *(
            Comparison(f"{what}: {name}", MAX_FOUND_ERROR, found[name], 0.0, source, Relation.AT_MOST, Reading.BESIDE)
            for name in others
        ),
    ]


def recovered(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 6.6: whether other attacks than Z's descent find the series."""
    found = (_median(name, each, Relation.AT_MOST) for name, each in _figure(shown)["errors"].items())
    return [replace(each, reading=Reading.BESIDE) for each in found]


def protected(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 6.7: with noise of Z's ratio it is not found; beside it, with noise that has an epsilon."""
    first, *others = (_median(name, each, Relation.AT_LEAST) for name, each in _figure(shown)["errors"].items())
    return [first, *(replace(each, reading=Reading.BESIDE) for each in others)]


def _median(name: str, errors: Sequence[float], relation: Relation) -> Comparison:
    what = f"median squared error of {len(errors)} attackers: {name}"
    bound = MAX_FOUND_ERROR if relation is Relation.AT_MOST else 1.0
    return Comparison(what, bound, float(np.median(errors)), 0.0, "ours", relation)


def accuracies(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figures 8.2 to 8.8: where methods end, beside the printed accuracies, our optimum and each other."""
    content, lines = _figure(shown), list[Comparison]()
    figure = FIGURES[content["figure"]]
    ends = {each["method"]: each for each in content["at_its_budgets"]}
    best, infers = float(content["without_privacy"]), float(ends["FedInfer"]["accuracy"])

    def near(name: str) -> tuple[float, str]:
        return TOLERANCE_POINTS + 2 * ends[name][
            "standard_error"
        ], f"ours: {TOLERANCE_POINTS:g} points and two standard errors"

    for name, printed in figure.published.items():
        lines.append(Comparison(f"{name}: accuracy, %", printed, ends[name]["accuracy"], *near(name)))
    if figure.number in ("8.2", "8.3", "8.5"):
        lines.append(Comparison("FedInfer: points below our optimum", 0.0, best - infers, *near("FedInfer")))
    for name in (each.name for each in METHODS if not each.infers):
        away = best - ends[name]["accuracy"]
        if figure.number == "8.2":
            lines.append(Comparison(f"{name}: points below our optimum", 0.0, away, *near(name)))
        if figure.number == "8.5":
            what = f"{name}: points below our optimum"
            lines.append(Comparison(what, TOLERANCE_POINTS, away, 0.0, "ours", Relation.AT_LEAST))
        if figure.number in ("8.6", "8.7"):
            what = f"FedInfer less {name}, points"
            lines.append(Comparison(what, 0.0, infers - ends[name]["accuracy"], 0.0, "as printed", Relation.AT_LEAST))
    if figure.number == "8.2":
        first = next(mean for name, _, mean in next(iter(shown.values())).drawn[0] if name == "FedInfer")[0]
        what = "FedInfer after one step: points below our optimum"
        lines.append(Comparison(what, 0.0, best - float(first), *near("FedInfer")))
    for each in content["by_owner"]:
        if each["method"] in figure.published:
            what = f"{each['method']}: accuracy, the unit a client's whole answer, %"
            lines.append(Comparison(what, figure.published[each["method"]], each["accuracy"], reading=Reading.BESIDE))
    if figure.number == "8.8":
        lines += _above(ends, figure.iterations)
    return lines


def _above(ends: Mapping[str, Content], iterations: int) -> list[Comparison]:
    """Figure 8.8: who is above 90 % when."""
    after = {name: each["above_90_after"] or math.inf for name, each in ends.items()}
    what = "iteration after which accuracy is above 90 %"
    lead = min(after[name] for name in after if name != "FedInfer") - after["FedInfer"]
    source = "ours: half of what is printed"
    return [
        Comparison(f"{what}: FedLin", iterations, after["FedLin"], iterations / 2, source),
        Comparison(f"{what}: how far FedInfer is ahead", 1, lead, 0.0, "as printed", Relation.AT_LEAST),
    ]


def feedback(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 9.1: the fractional controller stabilises all three; the truncated one not at 1.5 T."""
    lines = []
    for run in _figure(shown)["runs"]:
        fractional, truncated = run["ends"]
        name = f"r = {run['delay']:g} T: |x| at the end"
        lines.append(Comparison(f"{name}, fractional", 0.05, fractional, 0.0, "ours", Relation.AT_MOST))
        if run["delay"] == 1.5:
            start, source = float(np.linalg.norm(START)), "ours: its start"
            lines.append(Comparison(f"{name}, truncated", start, truncated, 0.0, source, Relation.AT_LEAST))
    return lines
