"""`parley reproduce pejo2018`: "Together or Alone", its games from its own table 5, and its measurements again on MovieLens."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from parley.cli.extras import extras
from parley.cli.screen import console, print_json, progress_bar, terminal_table
from parley.data.ratings import Ratings, divide, enough, find_ratings
from parley.errors import SettingError
from parley.numerals import number
from parley.reproduce import joint_learning_game, measured_game
from parley.reproduce.markets import data_folder

TITLES = {
    3: "Figure 3: alone and together, over ratios of users",
    4: "Figure 4: the smaller owner of 1:4, whose partner has no privacy",
    5: "Figure 5: two owners alike, each with its own p",
}


def pejo2018(
    figure: Annotated[int | None, typer.Option(metavar="N", help="Measure figure 3, 4 or 5 on the ratings in --data.")] = None,
    table: Annotated[int | None, typer.Option(metavar="N", help="Table 3: how much unbounded DP inflates a matrix.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with ml1m.parquet, ratings.dat or ratings.csv.")] = None,
    splits: Annotated[int, typer.Option(min=1, help="Random divisions of the users; error bars need two or more.")] = 3,
    users: Annotated[int | None, typer.Option(min=100, help="Keep so many users at random, for a quick look.")] = None,
    mechanism: Annotated[list[str] | None, typer.Option(help="Only this mechanism of figures 4 and 5; may be repeated.")] = None,
    game: Annotated[
        bool, typer.Option("--game", help="With figure 5: the game on what was measured, beside the published fit.")
    ] = False,
    memory: Annotated[
        float, typer.Option(help="GB that unbounded DP may take; refused before it starts if it would need more.")
    ] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Pejó, Tang, Arriaga, "Together or Alone: The Price of Privacy in Joint Learning": its equilibria, and its measurements.

    Without options: the numbers of its section 7.3 from its own table 5, and what does not follow. With --figure: two owners factorise
    their ratings alone and together; errors (RMSE) are on held-out ratings. On MovieLens 1M figure 3 takes half a minute of one core, 4
    and 5 some minutes. Noise is sound unless a mechanism is called "published"; then the table says what ε it really gives.

    Example:  parley reproduce pejo2018 --figure 3 --data DIR
    """
    if figure is None and table is None:
        _games(as_json)
        return
    if figure not in (None, *TITLES) or table not in (None, 3):
        raise SettingError("--figure, --table: expected figure 3, 4 or 5, or table 3")
    if game and figure != 5:
        raise SettingError("--game: expected figure 5, whose points it is played on")
    folder = data_folder(data)
    if folder is None:
        raise SettingError("--data: expected the folder that holds the ratings, or PARLEY_DATA set to it")
    with extras():
        from parley.objectives.factorization import Factorization
        from parley.reproduce import joint_factorization as study
    ratings = _kept(enough(find_ratings(folder)), users)
    content: dict[str, Any] = {"counts": ratings.counts}
    if table == 3:
        content["table"] = study.expansion(ratings.counts, Factorization())
    if figure is not None:
        chosen = study.chosen_mechanisms(mechanism)
        with progress_bar("runs") as progress:
            content |= {"figure": figure, "splits": splits}
            content["points"] = (
                study.size_ratios(ratings, splits, Factorization(), progress)
                if figure == 3
                else study.privacy_curves(ratings, chosen, splits, Factorization(), progress, figure == 5, memory * 1e9)
            )
    if game:
        content["games"] = measured_game.measured_games(content["points"])
    if as_json:
        print_json(content)
        return
    console.print("{ratings:,} ratings of {items:,} items by {users:,} users".format(**ratings.counts), style="dim")
    if figure is not None:
        console.print(terminal_table(_figure_rows(figure, content["points"]), TITLES[figure]))
        console.print("RMSE on each owner's held-out ratings; ± is the standard error over divisions of the users.", style="dim")
        if figure != 3:
            console.print(
                "solved: the owner solves its users' factors from their own ratings in the end. updates hide a user (δ = 1e-5), "
                "unbounded noise a rating, bounded noise its value.",
                style="dim",
            )
    if game:
        console.print(terminal_table(_game_rows(content["games"]), "The game on what was measured: gains in percent, concern C/B"))
        console.print(
            "p* = 1, 1: nobody learns together; same: in which share of resamples. No fit where the quadratic misses the points.",
            style="dim",
        )
    if table == 3:
        console.print(terminal_table(_table_rows(content["table"]), "Table 3: ratings made of empty cells, for every true rating"))


def _kept(ratings: Ratings, users: int | None) -> Ratings:
    if users is None or users >= len(ratings.user_names):
        return ratings
    rest = len(ratings.user_names) - users
    return enough(divide(ratings, [users, rest], np.random.default_rng(0))[0])


def _figure_rows(figure: int, points: list[dict[str, Any]]) -> list[list[str]]:
    head = {3: ["ratio", "player"], 4: ["mechanism", "p", "ε"], 5: ["mechanism", "p", "other's", "ε"]}[figure]
    columns = {"baseline": "means", "alone": "alone", "together": "together"}
    if figure != 3:
        columns = {"alone": "alone", "together": "together", "together_solved": "solved"}
    rows = [[*head, *columns.values(), "gain %", "±"]]
    for point in points:
        first = [point["ratio"], str(point["player"])]
        if figure != 3:
            first = [point["mechanism"], *(f"{point[p]:g}" for p in ("p", "p_other")[: figure - 3]), _epsilon(point)]
        errors = [f"{point[name]:.4f}" for name in columns]
        bar = "" if point["error"] is None else f"{point['error']:.2f}"
        rows.append([*first, *errors, f"{point['improvement']:+.2f}", bar])
    return rows


def _epsilon(point: dict[str, Any]) -> str:
    """What is given, and what is named where that is another."""
    named, given = point["epsilon_named"], point["epsilon"]
    if point["p"] == 0:
        return "∞"
    if given is None:
        return "none"
    return f"{given:.3g}" if given == named else f"{given:.3g}, not {named:.3g}"


def _table_rows(table: list[dict[str, float]]) -> list[list[str]]:
    rows = [["ε", "NF10 as printed", "NF10", "here, published scale", "here, sound"]]
    for row in table:
        cells = (row["netflix"], row["published_scale"], row["sound"])
        rows.append([f"{row['epsilon']:g}", f"x {row['netflix_printed']:g}", *(f"x {cell:.3g}" for cell in cells)])
    return rows


def _game_rows(games: list[dict[str, Any]]) -> list[list[str]]:
    rows = [["mechanism", "C/B", "p* of points", "same", "payoff", "price", "p* of fit", "misfit", "p* published"]]
    for one in games:
        points, fitted, published = one["on_points"], one["on_fit"], one["published"] or {"privacy": None}
        cells = [points[name] for name in ("privacy", "same", "payoff", "price")]
        cells += [fitted["privacy"], fitted["fit"]["rmse"], published["privacy"]]
        rows.append([one["mechanism"], *map(_short, (one["concern"], *cells))])
    return rows


def _short(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else ", ".join(f"{one:.3g}" for one in value)


def _games(as_json: bool) -> None:
    compared = [*joint_learning_game.equilibrium_numbers(), *joint_learning_game.outcomes()]
    if as_json:
        print_json({"rows": [{**vars(row), "agrees": row.agrees} for row in compared]})
        return
    rows = [["case", "quantity", "published", "recomputed", "remark"]]
    for row in compared:
        remark = "" if row.agrees else row.remark
        rows.append([row.where, row.quantity, number(row.published, 5), number(row.recomputed, 5), remark])
    console.print(terminal_table(rows, "Together or Alone, section 7.3, from its own table 5"))
    console.print()
    console.print(terminal_table(joint_learning_game.best_response_rows(), "Its table 6 at C/B = 0.5"))
