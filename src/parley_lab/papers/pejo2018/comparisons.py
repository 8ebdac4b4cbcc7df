"""P's printed figures beside those of a run."""

from collections.abc import Mapping, Sequence
from math import hypot
from typing import Any

import numpy as np

from parley_lab.papers.document import Shown
from parley_lab.papers.pejo2018.games.joint_learning import PUBLISHED, table_6
from parley_lab.papers.pejo2018.published import FIT_BY_MECHANISM, JOINT_GAIN_PERCENT, published_gain
from parley_lab.papers.pejo2018.tables import PAIR_KEYS, both_players
from parley_lab.papers.records import Comparison, Reading, Relation

Points = Sequence[Mapping[str, Any]]
MOVIELENS_COUNTS = {"ratings": 998_539, "items": 3_260, "users": 6_040}  # P's table 2, of MovieLens 1M
HALF_PRINTED_DIGIT = 0.05  # of P's 2.5 %
OWN_ERROR_SOURCE = "two standard errors of ours"
NO_ERROR_SOURCE = "ours unknown: one division"
TOLERANCE_SHARE = 0.25
AS_P = ("hide", "bounded-published", "unbounded-published")  # by P's own mechanisms
OPEN_OWNER = {  # section 4.4.1: what the other's privacy leaves of the gain of an owner that has none
    "hide": (Relation.AT_LEAST, "up to 0.99"),
    "bounded-published": (Relation.AT_MOST, "ε = 0.6, which is 0.625"),
    "unbounded-published": (Relation.AT_MOST, "ε = 2, which is 0.33"),
}
CONCERNS, OTHERS, OWN = (0.2, 0.5, 1.0, 2.0, 5.0), (0.0, 0.25, 0.5, 0.75), np.linspace(0, 1, 10_001)


def counts(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Table 2: what preprocessing leaves."""
    found = shown["figure-3"].content["counts"]
    return [Comparison(name, printed, found[name], 0.0, "as printed") for name, printed in MOVIELENS_COUNTS.items()]


def size_ratios(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 3: a steady gain over the means; training alone never does better."""
    points = shown["figure-3"].content["points"]
    source = "half a unit of the printed digit, two standard errors: ours, and as much for P's three divisions"
    lines = [
        Comparison(
            f"{_who(p)}: gain over the means, %",
            JOINT_GAIN_PERCENT["1M"],
            p["over_means"],
            HALF_PRINTED_DIGIT + 2 * hypot(*[p["over_means_error"] or 0.0] * 2),
            source,
        )
        for p in points
    ]
    return [
        *lines,
        *(
            Comparison(
                f"{_who(p)}: gain over training alone, %",
                0.0,
                p["improvement"],
                2 * (p["error"] or 0.0),
                OWN_ERROR_SOURCE,
                Relation.AT_LEAST,
            )
            for p in points
        ),
    ]


def _who(point: Mapping[str, Any]) -> str:
    return f"{point['ratio']}, {'smaller' if point['player'] == 1 else 'larger'} owner"


def unconcerned_partner(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 4: together pays without privacy and ever less with it; the epsilon that P's noise gives."""
    points, lines = shown["figure-4"].content["points"], list[Comparison]()
    for mechanism in _mechanisms(points):
        some = sorted((p for p in points if p["mechanism"] == mechanism), key=lambda p: p["p"])
        reading = Reading.DOCUMENT if mechanism in AS_P else Reading.SOUND
        first, last = some[0], some[-1]
        fall = first["as_printed"] - last["as_printed"]
        source = NO_ERROR_SOURCE if first["as_printed_error"] is None else OWN_ERROR_SOURCE
        error = 2 * hypot(first["as_printed_error"] or 0.0, last["as_printed_error"] or 0.0)
        ends = f"{mechanism}: gain at p = 0 less that at p = {last['p']:g}, points"
        lines.append(Comparison(ends, 0.0, fall, error, source, Relation.AT_LEAST, reading))
        lines.append(
            Comparison(f"{mechanism}: gain at p = 0, %", 0.0, first["as_printed"], 0.0, "", Relation.AT_LEAST, reading)
        )
    for point in points:
        if point["mechanism"] in AS_P[1:] and point["p"] == 0.5:
            given = float("nan") if point["epsilon"] is None else point["epsilon"]
            what = f"{point['mechanism']}: ε that its noise gives where means are common (none if not a number)"
            lines.append(Comparison(what, point["epsilon_named"], given, 0.0, "", Relation.AT_MOST, Reading.SOUND))
    return lines


def whose_privacy(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Figure 5: by P's descent, one's own p costs more than the other's, and an owner without privacy gains beside one
    that hides, but not beside much noise; beside it, users solved at home, which is another method."""
    points, lines = shown["figure-5"].content["points"], list[Comparison]()
    found = {tuple(point[name] for name in PAIR_KEYS): point for point in both_players(points, PAIR_KEYS)}
    for mechanism in _mechanisms(points):
        largest_p = max(point["p"] for point in points if point["mechanism"] == mechanism)
        open_, own, other = (found[mechanism, *pair] for pair in ((0.0, 0.0), (largest_p, 0.0), (0.0, largest_p)))
        what = f"{mechanism}, p = {largest_p:g}: what one's own costs less what the other's does, points"
        learned = 100 * (own["together_walked"] - other["together_walked"]) / open_["alone"]
        solved = other["improvement"] - own["improvement"]
        if mechanism in AS_P:
            lines.append(Comparison(what, 0.0, learned, 0.0, "as printed", Relation.AT_LEAST))
        at_home = f"{what}, users solved at home"
        lines.append(Comparison(at_home, 0.0, solved, 0.0, "", Relation.AT_LEAST, Reading.BESIDE))
        if mechanism in OPEN_OWNER:
            relation, at = OPEN_OWNER[mechanism]
            gain = found[mechanism, 0.0, largest_p]["as_printed"]
            what = f"{mechanism}: gain of an owner at p = 0, the other at p = {largest_p:g} (P: {at}), %"
            lines.append(Comparison(what, 0.0, gain, 0.0, "as printed", relation))
    return lines


def fits(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Table 5: every point by P's own comparison beside P's fit."""
    lines = []
    for point in both_players(shown["figure-5"].content["points"], PAIR_KEYS):
        mechanism = point["mechanism"]
        if mechanism in AS_P:
            printed = published_gain(5, point)
            error = point["as_printed_error"]
            spread = 3 * hypot(PUBLISHED[FIT_BY_MECHANISM[mechanism]].rmse, error or 0.0)
            what = f"{mechanism}, own p = {point['p']:g}, other's {point['p_other']:g}: gain, %"
            source = (
                f"three times the printed error of P's fit{f'; {NO_ERROR_SOURCE}' if error is None else ', and ours'}"
            )
            lines.append(Comparison(what, printed or 0.0, point["as_printed"], spread, source))
    return lines


def _mechanisms(points: Points) -> list[str]:
    return list(dict.fromkeys(point["mechanism"] for point in points))


def expansion(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Table 3: the factors for NF10, from its printed counts, with two settings fitted."""
    source = "ours, a quarter; P prints neither δ nor μ, fitted at 0.6 and 0.2"
    return [
        Comparison(
            f"ε = {row['epsilon']:g}: NF10 grows by a factor of",
            row["netflix_printed"],
            row["netflix"],
            TOLERANCE_SHARE * row["netflix_printed"],
            source,
            reading=Reading.FITTED,
        )
        for row in shown["table-3"].content["table"]
    ]


def best_responses(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Table 6: what a player loses that follows it, beside the best p of a fine grid or staying out."""
    lines = []
    for name, gain in PUBLISHED.items():
        losses = []
        for concern in CONCERNS:
            for x in OTHERS:
                payoffs = gain(np.full_like(OWN, x), OWN) - concern * (1 - OWN)
                followed = table_6(name, concern, x)
                got = 0.0 if followed == 1 else float(gain(np.array(x), np.array(followed))) - concern * (1 - followed)
                losses.append(max(0.0, float(payoffs[:-1].max())) - got)
        what = f"{name}: most that is lost by following it, {len(losses)} cases, points"
        lines.append(Comparison(what, 0.0, max(losses), 1e-6, "ours: step of the grid", Relation.AT_MOST))
    return lines


def equilibria(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Section 7.3, from P's own table 5."""
    return [
        Comparison(
            f"{row['where']}: {row['quantity']}",
            row["published"],
            row["recomputed"],
            5.1e-4 * max(1.0, abs(row["published"])),
            "half a unit of the third printed digit",
        )
        for row in shown["section-7.3"].content["rows"]
    ]
