"""Tables of the joint-learning game and of what it was measured on: rows of words, the first their head."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from parley_lab.papers.pejo2018.published import published_gain

Rows = list[list[str]]
Points = Sequence[Mapping[str, Any]]
PAIR_KEYS = ("mechanism", "p", "p_other")


def figure_rows(figure: int, points: Points) -> Rows:
    """The points of figure 3, 4 or 5: P's own comparison beside its numbers, then ours."""
    head = {3: ["ratio", "player"], 4: ["mechanism", "p", "ε"], 5: ["mechanism", "p", "other's", "ε"]}[figure]
    columns = {"baseline": "means", "alone": "alone", "together": "together"}
    if figure != 3:
        columns = {"alone": "alone", "together_walked": "as learned", "together_solved": "solved"}
    own, name = ("over_means", "over means %") if figure == 3 else ("as_printed", "as P %")
    compared = [name, "±", "P printed %"] if figure != 4 else [name, "±"]  # P has figure 4 as a picture alone
    rows = [[*head, *columns.values(), *compared, "gain %", "±"]]
    for point in both_players(points, PAIR_KEYS) if figure == 5 else points:
        first = [point["ratio"], str(point["player"])]
        if figure != 3:
            first = [point["mechanism"], *(f"{point[p]:g}" for p in ("p", "p_other")[: figure - 3]), _epsilon(point)]
        known = [_signed(point.get(own)), _error(point.get(f"{own}_error"))]
        known += [_signed(published_gain(figure, point))] if figure != 4 else []
        rows.append([*first, *(f"{point[name]:.4f}" for name in columns), *known, *_gain(point)])
    return rows


def whose_rows(points: Points) -> Rows:
    """Figure 5: what the largest p costs, in percent of error, if only oneself has it and if only the other does."""
    rows = [["mechanism", "p", "own, as learned", "the other's", "own, at best", "the other's", "own matters more"]]
    found = {tuple(point[name] for name in PAIR_KEYS): point for point in both_players(points, PAIR_KEYS)}
    for mechanism in dict.fromkeys(point["mechanism"] for point in points):
        largest_p = max(point["p"] for point in points if point["mechanism"] == mechanism)
        open_, own, other = (found[mechanism, *pair] for pair in ((0.0, 0.0), (largest_p, 0.0), (0.0, largest_p)))
        learned = [100 * (one["together_walked"] - open_["together_walked"]) / open_["alone"] for one in (own, other)]
        best = [open_["improvement"] - one["improvement"] for one in (own, other)]
        verdict = ", ".join("yes" if mine > theirs else "no" for mine, theirs in (learned, best))
        rows.append([mechanism, f"{largest_p:g}", *(f"{cost:.2f}" for cost in (*learned, *best)), verdict])
    return rows


def both_players(points: Points, facts: Sequence[str]) -> list[dict[str, Any]]:
    """One for each combination of these facts: the means over both of two alike. They learned together in each
    division, so an error is that over divisions of their mean."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for point in points:
        groups.setdefault(tuple(point[name] for name in facts), []).append(point)
    return [_mean(group) for group in groups.values()]


def _mean(group: Points) -> dict[str, Any]:
    shown = ("alone", "together_walked", "together_solved", "unscaled", "as_printed", "as_printed_error")
    known = {name for name in shown if group[0].get(name) is not None}
    found = {**group[0], **{name: fmean(one[name] for one in group) for name in known}}
    found["improvement"] = fmean(one["improvement"] for one in group)
    if "improvements" not in found:  # a forecast: the larger error of the two
        errors = [one["error"] for one in group]
        return {**found, "error": None if None in errors else max(errors)}
    gains = [fmean(of_division) for of_division in zip(*(one["improvements"] for one in group), strict=True)]
    return {**found, "improvements": gains, "error": stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else None}


def table_rows(table: Points) -> Rows:
    """Table 3: how many ratings unbounded DP makes of one."""
    rows = [["ε", "NF10 as printed", "NF10", "here, published scale", "here, sound"]]
    for row in table:
        cells = (row["netflix"], row["published_scale"], row["sound"])
        rows.append([f"{row['epsilon']:g}", f"x {row['netflix_printed']:g}", *(f"x {cell:.3g}" for cell in cells)])
    return rows


def game_rows(games: Points) -> Rows:
    """The game on measured points and on the fit, beside the published one."""
    rows = [["mechanism", "C/B", "p* of points", "same", "payoff", "price", "±", "p* of fit", "misfit", "p* published"]]
    for one in games:
        points, fitted, published = one["on_points"], one["on_fit"], one["published"] or {"privacy": None}
        cells = [points[name] for name in ("privacy", "same", "payoff", "price", "price_spread")]
        cells += [fitted["privacy"], fitted["fit"]["rmse"], published["privacy"]]
        rows.append([one["mechanism"], *map(short, (one["concern"], *cells))])
    return rows


def private_rows(games: Points) -> Rows:
    """Private concerns: what a player of each concern keeps, and from which concern on it would keep more."""
    rows = [["mechanism", "on", "player", "C/B", "keeps", "payoff", "keeps more from"]]
    for one in games:
        for n, player in enumerate(one["players"]):
            turns = "; ".join(f"{c:.3g}: {_kept(p)}" for c, p in player["switches"][1:])
            known = zip(player["concerns"], player["privacy"], player["payoff"], strict=True)
            for k, (concern, p, payoff) in enumerate(known):
                first = [one["mechanism"], one["on"], str(n + 1)] if k == 0 else [""] * 3
                # on a fit p = 1 is all noise, and nobody can stay out
                keeps = f"{p:.3g}" if "fit" in one["on"] else _kept(p)
                rows.append([*first, short(concern), keeps, short(payoff), turns if k == 0 else ""])
    return rows


def private_price_rows(games: Points) -> Rows:
    """The price of privacy under the prior, and how firm it is."""
    rows = [["mechanism", "on", "learn together", "payoffs", "price", "±", "same", "price if known"]]
    for one in games:
        facts = [one["price"], one.get("price_spread"), one.get("same"), one.get("informed", _known(one))]
        rows.append(
            [one["mechanism"], one["on"], f"{100 * one['together']:.0f} %", short(one["payoff"]), *map(short, facts)]
        )
    return rows


def repeated_rows(games: Points) -> Rows:
    """The repeated game: the best agreement and from which discount factor on it holds."""
    given = any("at_discount" in one for one in games)
    rows = [
        ["mechanism", "C/B", "agreed p", "payoff", "by departing", "holds from", "±", "in resamples", "p of one period"]
    ]
    if given:
        rows[0].append(f"p at {games[0]['at_discount']['given']:g}")
    for one in games:
        nobody = one["discount"] is None
        cells = [one["concern"], one["privacy"], one["payoff"], one["temptation"]]
        holds = "never" if nobody else f"{one['discount']:.3g}"
        row = [one["mechanism"], *map(short, cells), holds, short(one["discount_spread"]), short(one["holds"])]
        row.append(short(one["one_period"]["privacy"]))
        rows.append([*row, short(one["at_discount"]["privacy"])] if given else row)
    return rows


def mechanism_rows(points: Points) -> Rows:
    """Gains of the row's strategy against the column's; both players' mean."""
    names = list(dict.fromkeys(point["strategy"] for point in points))
    cells: dict[tuple[str, str], list[float]] = {}
    for point in points:
        cells.setdefault((point["strategy"], point["other"]), []).append(point["improvement"])
    rows = [["own, against:", *names]]
    rows += [[own, *(f"{sum(cells[own, other]) / len(cells[own, other]):+.2f}" for other in names)] for own in names]
    return rows


def mechanism_game_rows(games: Points) -> Rows:
    """The equilibrium over mechanisms."""
    rows = [["C/B", "player", "plays", "payoff", "price", "same", "always best"]]
    for one in games:
        for n, name in enumerate(one["strategies"]):
            shown = [short(one["price"]), short(one["same"])] if n == 0 else ["", ""]
            rows.append(
                [
                    short(one["concern"][n]),
                    str(n + 1),
                    name,
                    short(one["payoff"][n]),
                    *shown,
                    one["always_best"][n] or "none",
                ]
            )
    return rows


def best_answer_rows(games: Points) -> Rows:
    """The best answer to each strategy of the other, by concern."""
    answers = {concern: one["best_answers"][n] for one in games for n, concern in enumerate(one["concern"])}
    rows = [["the other's", *(f"best at C/B = {concern:g}" for concern in answers)]]
    rows += [[other, *(best[other] for best in answers.values())] for other in next(iter(answers.values()))]
    return rows


def in_turn_rows(points: Points) -> Rows:
    """As P learns: gains by how many iterations are shared."""
    rows = [["iterations shared", "player", "kB sent", "gain %", "±"]]
    rows += [[str(p["iterations"]), str(p["player"]), f"{p['sent'] / 1e3:,.0f}", *_gain(p)] for p in points]
    return rows


def update_rows(points: Points) -> Rows:
    """Released updates: gains by epsilon and number of answers; what as many answers cost of a series for all
    rounds."""
    rows = [["own ε", "answers", "other's ε", "answers", "gain %", "±", "ε at the noise of all"]]
    for point in both_players(points, ("p", "iterations", "p_other", "iterations_other")):
        own, other = ("none" if p == 0 else f"{1 / p - 1:.3g}" for p in (point["p"], point["p_other"]))
        row = [own, str(point["iterations"]), other, str(point["iterations_other"])]
        rows.append([*row, *_gain(point), short(point["stopped"])])
    return rows


def iteration_game_rows(games: Points) -> Rows:
    """The game in which each names p and how often it answers."""
    rows = [["C/B", "player 1", "player 2", "payoff", "price", "±", "same", "payoff with all answers"]]
    for one in games:
        cells = [one["payoff"], one["price"], one["price_spread"], one["same"], one["all_iterations"]["payoff"]]
        rows.append([short(one["concern"]), *one["strategies"], *map(short, cells)])
    return rows


def forecast_rows(forecast: Points, measured: Points) -> Rows:
    """Forecast beside measurement, both players' mean."""
    rows = [["mechanism", "p", "other's", "on the public set", "forecast %", "±", "measured %", "±"]]
    facts = ("mechanism", "p", "p_other")
    known = {tuple(point[name] for name in facts): point for point in both_players(measured, facts)}
    for one in both_players(forecast, facts):
        first = [one["mechanism"], f"{one['p']:g}", f"{one['p_other']:g}", f"{one['unscaled']:+.2f}"]
        rows.append([*first, *_gain(one), *_gain(known[tuple(one[name] for name in facts)])])
    return rows


def judged_rows(judged: Points) -> Rows:
    """How far forecasts are off, mechanism by mechanism."""
    rows = [["mechanism", "forecast", "public set's own", "no gain at all", "measured ±", "right sign"]]
    for one in judged:
        cells = [one[name] for name in ("error", "error_unscaled", "error_of_nothing", "measured_error", "right_sign")]
        rows.append([one["mechanism"], *map(short, cells)])
    return rows


def judged_game_rows(judged: Points) -> Rows:
    """Whether the game on the forecast ends as that on what was measured."""
    rows = [["mechanism", "C/B", "p* forecast", "p* measured"]]
    for one in judged:
        rows += [
            [one["mechanism"], *map(short, (e["concern"], e["forecast"], e["measured"]))] for e in one["equilibria"]
        ]
    return rows


def short(value: Any) -> str:
    """A number or several in three digits; nothing for None.

    >>> short(0.12345), short([1.0, 0.5]), short(None)
    ('0.123', '1, 0.5', '')
    """
    if value is None:
        return ""
    if isinstance(value, float | int):
        return f"{value if abs(value) > 1e-12 else 0:.3g}"
    return ", ".join(short(one) for one in value)


def _kept(p: float) -> str:
    return "out" if p == 1 else f"{p:.3g}"


def _known(one: Mapping[str, Any]) -> float | None:
    known = one.get("known")
    return None if known is None else known["price"]


def _signed(gain: float | None) -> str:
    return "" if gain is None else f"{gain:+.2f}"


def _gain(point: Mapping[str, Any]) -> list[str]:
    return [f"{point['improvement']:+.2f}", _error(point["error"])]


def _error(error: float | None) -> str:
    return "" if error is None else f"{error:.2f}"


def _epsilon(point: Mapping[str, Any]) -> str:
    """What is given, and what is named where that is another."""
    named, given = point["epsilon_named"], point["epsilon"]
    if point["p"] == 0:
        return "∞"
    if given is None:
        return "none" if named is None else f"none, not {named:.3g}"
    return f"{given:.3g}" if given == named else f"{given:.3g}, not {named:.3g}"
