"""T's printed statements beside what is computed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parley_lab.papers.document import Shown
from parley_lab.papers.records import Comparison, Reading, Relation
from parley_lab.papers.wu2019_thesis.convergence import EQUAL
from parley_lab.papers.wu2019_thesis.payoffs import PayoffCurve

SOLVED, SOURCE = 1e-4, "ours: how far best responses are solved"


def bound(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Equation 2.3: reached on rings, cliques and counts of one record; strict for counts of more."""
    optima = shown["bound"].content["optima"]
    many = [each for each in optima if each["graph"].startswith("count") and each["graph"] != "count of 1"]
    other_optima = [each for each in optima if each not in many]
    proved, what = float(np.mean([each["proved"] for each in optima])), "share of optima that their dual proves"
    return [
        _share("share of rings, cliques and counts of 1 record where the bound is reached", 1.0, other_optima),
        _share("share of counts of 2 to 12 records where it is reached", 0.0, many),
        Comparison(what, 1.0, proved, 0.0, "exact fractions", reading=Reading.BESIDE),
    ]


def _share(what: str, published: float, optima: Sequence[Mapping[str, bool]]) -> Comparison:
    return Comparison(what, published, float(np.mean([each["reached"] for each in optima])), 0.0, "exact fractions")


def leakage(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 4.2: one top at the equilibrium; one end from three starts."""
    return _game(shown, "4.2")


def utility(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 4.3: the same, and T's claim that there is one equilibrium."""
    lowest = max(_apart(panel["ends"]) for panel in _panels(shown, "4.3"))
    unique = Comparison("how far apart ends are, from the lowest budgets too (T: unique)", 0.0, lowest, SOLVED, SOURCE)
    return [*_game(shown, "4.3"), unique]


def _game(shown: Mapping[str, Shown], figure: str) -> list[Comparison]:
    curve = next(each for each in _curves(shown) if each.figure == f"{figure} (a)")
    panels = _panels(shown, figure)
    equal, unequal = (next(p for p in panels if (tuple(p["sizes"]) == EQUAL) is same) for same in (True, False))
    away = max(abs(curve.top - other) for other in curve.others)
    starts = max(_apart(panel["ends"][:-1]) for panel in panels)
    between = [float(np.ptp(panel["ends"][0])) for panel in (equal, unequal)]
    unlike, printed = "(c) how far apart budgets of unequal sizes are", unequal["ends_as_printed"]
    at_printed_scale = f"{unlike}, by the printed scale, which ends at {np.max(printed):g} from every start"
    return [
        Comparison("(a) tops of the payoff", 1, curve.peaks, 0.0, "exact"),
        Comparison("(a) how far the top is from the equilibrium", 0.0, away, SOLVED, SOURCE),
        Comparison("(b, c) how far apart ends from three starts are", 0.0, starts, SOLVED, SOURCE),
        Comparison("(b) how far apart budgets of equal sizes are", 0.0, between[0], SOLVED, SOURCE),
        Comparison(unlike, 0.01, between[1], 0.0, "ours", Relation.AT_LEAST),
        Comparison(at_printed_scale, 0.01, float(np.ptp(printed[0])), 0.0, "ours", Relation.AT_LEAST, Reading.BESIDE),
    ]


def _curves(shown: Mapping[str, Shown]) -> Sequence[PayoffCurve]:
    (curves,) = shown["payoffs"].drawn
    return curves  # type: ignore[no-any-return]


def _panels(shown: Mapping[str, Shown], figure: str) -> list[Mapping[str, Any]]:
    return [panel for panel in shown["convergence"].content["panels"] if panel["figure"] == figure]


def _apart(ends: Sequence[Sequence[float]]) -> float:
    return float(np.ptp(np.array(ends), axis=0).max())
