"""The accuracies of Chase et al. as A quotes them beside those of a run."""

from collections.abc import Mapping

from parley_lab.papers.document import Shown
from parley_lab.papers.records import Comparison, Reading, Relation

TOLERANCE, SOURCE = 1.0, "ours: networks, rates and clip are not printed"
NORM_NAMES = {"linf": "Linf", "l1": "L1", "l2": "L2"}


def table(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Tables 1 and 2: accuracy at each total epsilon in each norm, in the paper's order of norms, and without noise."""
    content = next(iter(shown.values())).content
    (rows,), (by_step,) = content["tables"].values(), content["by_step"].values()
    *noisy, silent = rows
    lines = [Comparison("no noise, %", silent["l2"], silent["our_l2"], TOLERANCE, SOURCE)]
    for row in noisy:
        for norm, name in NORM_NAMES.items():
            what = f"total ε = {row['epsilon']:g}, {name}, %"
            lines.append(Comparison(what, row[norm], row[f"our_{norm}"], TOLERANCE, SOURCE, Relation.AT_LEAST))
    for row in by_step:
        for norm in ("l1", "l2"):
            what = f"ε = {row['epsilon']:g} a step ({row[f'total_{norm}']:.3g} in all), {NORM_NAMES[norm]}, %"
            lines.append(Comparison(what, row[norm], row[f"step_{norm}"], reading=Reading.BESIDE))
    return lines
