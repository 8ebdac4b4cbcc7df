"""W's printed figures beside those of a run."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pandas as pd

from parley_lab.papers.document import Shown
from parley_lab.papers.records import Comparison, Reading, Relation

FALL, FALL_TOLERANCE = 100.0, 25.0
FITTED_STEP = "3"  # multiple of the automatic step at which the fall is nearest to W's
SLOPE, SLOPE_TOLERANCE = -2.0, 0.15
SHARE_TOLERANCE = 0.1  # of pairs of neighbouring cells


def paths(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figures 2 and 7: psi at the headline's budget; that it falls with the budget, and by how much for each step."""
    ((_, found),) = (each for each in next(iter(shown.values())).content.items())
    head, falls = found["headline"], found["falls"]
    what = f"mean ψ at ε = {head['epsilon']:g}, 3 x {head['records']:,} records"
    lines = [Comparison(what, 0.1, head["measured"], 0.0, "as printed", Relation.AT_MOST)]
    least, what = min(a - b for a, b in pairwise(found["ends"])), "least fall of mean ψ to the next of three budgets"
    lines.append(Comparison(what, 0.0, least, 0.0, "as printed", Relation.AT_LEAST))
    if "figure-2" not in shown:
        return lines
    what = "fall of mean ψ from ε = 1 to 10"
    source = "ours, a quarter: W says approximately; the constant of its step is not printed"
    for times, fall in falls.items():
        name = f"{what}, {'automatic step' if times == '1' else f'{times} times that step'}"
        given = (FALL_TOLERANCE, source) if times == FITTED_STEP else (0.0, "")
        reading = Reading.FITTED if times == FITTED_STEP else Reading.BESIDE
        lines.append(Comparison(name, FALL, fall, *given, reading=reading))
    return lines


def slope(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figures 4, 5, 9 and 10: the slope of psi on a log-log scale, as W has it; and, where the cells were chosen to
    meet it, of what noise adds."""
    (found,) = next(iter(shown.values())).content.values()
    what = f"log-log slope of what noise adds, {found['cells']} of {found['of']} cells"
    return [
        Comparison("log-log slope of ψ, all cells", SLOPE, found["slope_of_all"], SLOPE_TOLERANCE, "ours"),
        Comparison(what, SLOPE, found["slope"], SLOPE_TOLERANCE, "ours", reading=Reading.FITTED),
    ]


def surface(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figures 3 and 8: psi falls with size and with the budget."""
    (table,) = next(iter(shown.values())).files.values()
    grid = table.pivot_table(index="epsilon", columns="records", values="mean").to_numpy()
    return [
        Comparison(f"share of steps in {name} at which ψ falls", 1.0, float(share), SHARE_TOLERANCE, "ours")
        for name, share in (("ε", (np.diff(grid, axis=0) < 0).mean()), ("size", (np.diff(grid, axis=1) < 0).mean()))
    ]


def scenarios(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figures 6 and 11: which banks to learn with."""
    (table,) = next(iter(shown.values())).files.values()
    means = table.pivot_table(index=["records", "epsilon"], columns="scenario", values="mean")
    shares: dict[str, pd.Series] = {
        "share of cells where small shy banks are worst": means.idxmax(axis=1) == "others small, shy",
        "share of cells where large eager banks are best": means.idxmin(axis=1) == "others large, eager",
        "share of cells where large shy banks are better than small shy ones": means["others large, shy"]
        < means["others small, shy"],
    }
    lines = [Comparison(what, 1.0, float(each.mean()), SHARE_TOLERANCE, "ours") for what, each in shares.items()]
    by_budget = means.groupby(level="records")
    falls = (by_budget.first() / by_budget.last()).mean()
    shy, eager = (float(falls[f"others small, {kind}"]) for kind in ("shy", "eager"))
    what = f"by how many times ψ falls over ε1 beside small banks: eager, less {shy:.3g} beside shy ones"
    return [*lines, Comparison(what, 0.0, eager - shy, 0.0, "as printed", Relation.AT_LEAST)]
