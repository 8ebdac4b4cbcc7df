"""`parley reproduce pejo2018`: "Together or Alone", its games from its own table 5, and its measurements again on MovieLens."""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.errors import DataError, SettingError
from parley.numerals import number
from parley.report.extras import extras
from parley.report.terminal import console, print_json, progress_bar, terminal_table

if TYPE_CHECKING:
    from parley.papers import joint_learning_game
    from parley.tasks.ratings.table import Ratings

TITLES = {
    3: "Figure 3: alone and together, over ratios of users",
    4: "Figure 4: the smaller owner of 1:4, whose partner has no privacy",
    5: "Figure 5: two owners alike, each with its own p",
}


class Study(StrEnum):
    """What the document leaves open."""

    MECHANISMS = "mechanisms"
    ITERATIONS = "iterations"
    FORECAST = "forecast"


def pejo2018(
    figure: Annotated[int | None, typer.Option(metavar="N", help="Measure figure 3, 4 or 5 on the ratings in --data.")] = None,
    table: Annotated[int | None, typer.Option(metavar="N", help="Table 3: how much unbounded DP inflates a matrix.")] = None,
    study: Annotated[
        Study | None,
        typer.Option(
            help="What the document leaves open: another mechanism for each player; sharing only some iterations; a forecast from some "
            "public users, judged by the others."
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with ml1m.parquet, ratings.dat or ratings.csv.")] = None,
    points: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What --figure N --json printed before: play or draw it, measure nothing.")
    ] = None,
    splits: Annotated[int, typer.Option(min=1, help="Random divisions of the users; error bars need two or more.")] = 3,
    users: Annotated[int | None, typer.Option(min=100, help="Keep so many users at random, for a quick look.")] = None,
    public: Annotated[int, typer.Option(min=32, metavar="USERS", help="With --study forecast: so many users are public.")] = 943,
    mechanism: Annotated[list[str] | None, typer.Option(help="Only this mechanism; may be repeated.")] = None,
    game: Annotated[
        bool, typer.Option("--game", help="With figure 5: the game on what was measured, once and again and again.")
    ] = False,
    prior: Annotated[
        list[str] | None,
        typer.Option(
            metavar="C/B,...",
            help="Concerns are private, and this is what is known of them: 0.2,1,5 (equally likely) or 0.2:3,5:1 (three to one). Twice: "
            "one for each player. With figure 5 on what was measured, else on the published fits.",
        ),
    ] = None,
    discount: Annotated[
        float | None, typer.Option(min=0.0, max=0.999999, help="With --game: what holds if the next period counts for so much.")
    ] = None,
    memory: Annotated[
        float, typer.Option(help="GB that unbounded DP may take; refused before it starts if it would need more.")
    ] = 2.0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Save the figure as a picture in this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Pejó, Tang, Arriaga, "Together or Alone: The Price of Privacy in Joint Learning": its equilibria, and its measurements.

    Without options: the numbers of its section 7.3 from its own table 5, and what does not follow. With --figure: two owners factorise
    their ratings alone and together; errors (RMSE) are on held-out ratings. On MovieLens 1M figure 3 takes half a minute of one core, 4
    and 5 some minutes. Noise is sound unless a mechanism is called "published"; then the table says what ε it really gives.

    Examples:  parley reproduce pejo2018 --figure 3 --data DIR --out pictures
               parley reproduce pejo2018 --figure 5 --data DIR --json > five.json
               parley reproduce pejo2018 --points five.json --game --prior 0.2,1,5 --discount 0.9
    """
    from parley.papers import joint_learning_game, measured_game
    from parley.papers.private_concerns import measured_private_concerns, published_private_concerns, read_priors
    from parley.papers.repeated_learning import repeated_games

    if points is not None and (figure, table, study) != (None, None, None):
        raise SettingError("--points: expected no --figure, --table or --study beside it: it holds a figure already")
    content = _read_points(points) if points is not None else {}
    figure = content.get("figure", figure)
    if figure not in (None, *TITLES) or table not in (None, 3):
        raise SettingError("--figure, --table: expected figure 3, 4 or 5, or table 3")
    if (game and figure != 5) or (discount is not None and not game):
        raise SettingError("--game, --discount: expected figure 5, whose points the game is played on")
    if prior and (figure not in (None, 5) or study is not None or table is not None):
        raise SettingError("--prior: expected figure 5, or no figure for the published fits")
    if out is not None and figure is None:
        raise SettingError("--out: expected --figure or --points, which can be drawn")
    if not content and (figure or table or study):
        content = _measure(figure, table, study, _folder(data), splits, users, public, mechanism, memory * 1e9)
    if game:
        content["games"] = measured_game.measured_games(content["points"])
        content["repeated"] = repeated_games(content["points"], discount)
    if prior:
        priors = read_priors(prior)
        with progress_bar("resamples") as progress:
            content["private_concerns"] = (
                published_private_concerns(priors)
                if figure is None
                else measured_private_concerns(content["points"], priors, progress=progress)
            )
    if out is not None:
        content["picture"] = str(_draw(figure, content, out))
    if not content:
        content["rows"] = [*joint_learning_game.equilibrium_numbers(), *joint_learning_game.outcomes()]
        _published(content["rows"], as_json)
    elif as_json:
        print_json(content, inside=False)
    else:
        _show(content)


def _folder(data: Path | None) -> Path:
    from parley.papers.markets import data_folder

    folder = data_folder(data)
    if folder is None:
        raise SettingError("--data: expected the folder that holds the ratings, or PARLEY_DATA set to it")
    return folder


def _measure(
    figure: int | None,
    table: int | None,
    study: Study | None,
    folder: Path,
    splits: int,
    users: int | None,
    public: int,
    mechanism: list[str] | None,
    memory: float,
) -> dict[str, Any]:
    from parley.tasks.ratings.table import enough, find_ratings

    with extras():
        from parley.papers import joint_factorization, open_ends
        from parley.tasks.ratings.factorization import Factorization
    ratings, rule = _kept(enough(find_ratings(folder)), users), Factorization()
    content: dict[str, Any] = {"counts": ratings.counts, "splits": splits}
    if table == 3:
        content["table"] = joint_factorization.expansion(ratings.counts, rule)
    with progress_bar("runs") as progress:
        if figure == 3:
            content |= {"figure": 3, "points": joint_factorization.size_ratios(ratings, splits, rule, progress)}
        elif figure is not None:
            chosen = joint_factorization.chosen_mechanisms(mechanism)
            found = joint_factorization.privacy_curves(ratings, chosen, splits, rule, progress, figure == 5, memory)
            content |= {"figure": figure, "points": found}
        if study is Study.MECHANISMS:
            content[study.value] = open_ends.mechanisms_apart(ratings, mechanism, splits, progress, memory)
        elif study is Study.ITERATIONS:
            content[study.value] = open_ends.iterations_shared(ratings, splits, progress)
        elif study is Study.FORECAST:
            content[study.value] = open_ends.gains_forecast(ratings, mechanism, public, splits, progress, memory)
    return content


def _read_points(path: Path) -> dict[str, Any]:
    """What --figure N --json printed before."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = {name: content[name] for name in ("figure", "points", "splits", "counts")}
        needed = {"improvements", "improvement", "error", "alone", "together", "player", "ratio"}
        if found["figure"] != 3:
            needed |= {"mechanism", "p", "p_other", "epsilon", "epsilon_named", "together_walked", "together_solved"}
        if not all(needed <= point.keys() and isinstance(point["improvements"], list) for point in found["points"]):
            raise KeyError("points")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: expected what --figure N --json printed ({type(error).__name__})") from None
    return found


def _draw(figure: int | None, content: dict[str, Any], folder: Path) -> Path:
    from parley.papers.figures import rating_figures
    from parley.report import figures

    draw = {3: rating_figures.size_ratios, 4: rating_figures.unconcerned_partner, 5: rating_figures.both_concerned}[figure or 0]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"ratings-figure-{figure}.png"
    figures.save(draw(content["points"], content["splits"]), path)
    return path


def _kept(ratings: "Ratings", users: int | None) -> "Ratings":
    import numpy as np

    from parley.tasks.ratings.table import divide, enough

    if users is None or users >= len(ratings.user_names):
        return ratings
    rest = len(ratings.user_names) - users
    return enough(divide(ratings, [users, rest], np.random.default_rng(0))[0])


def _show(content: dict[str, Any]) -> None:
    from parley.papers.figures import joint_learning as rows

    if "counts" in content:
        console.print("{ratings:,} ratings of {items:,} items by {users:,} users".format(**content["counts"]), style="dim")
    if "figure" in content:
        _show_figure(content["figure"], content["points"])
    if "games" in content:
        _table(rows.game_rows(content["games"]), "The game on what was measured: gains in percent, concern C/B")
        _say("p* = 1, 1: nobody learns together; same: in which share of resamples. No fit where the quadratic misses the points.")
    if "repeated" in content:
        _table(rows.repeated_rows(content["repeated"]), "Again and again: from which discount factor on the best agreement holds")
        _say("Whoever departs is seen to, gains once, and nobody learns together ever after; ± is the deviation over resamples.")
        _say(
            "That ratings were left out (hide) or have less noise, nobody sees from outside: there it is what would hold if it were seen."
        )
    if "private_concerns" in content:
        _table(
            rows.private_rows(content["private_concerns"]),
            "Concerns that are private: what a player of each concern keeps to itself",
        )
        _table(rows.private_price_rows(content["private_concerns"]), "The price of privacy under the prior")
        _say("price if known: the mean price if all concerns were known; on fits, the price if all had the mean concern.")
        _say(
            "On P's fits everybody takes part (P section 7.3): who is too concerned keeps what it can, and may lose. On points it is out."
        )
    if "mechanisms" in content:
        found = content["mechanisms"]
        _table(rows.mechanism_rows(found["points"]), "Gain in % by the row's strategy against the column's")
        _table(rows.mechanism_game_rows(found["games"]), "The game over mechanisms")
        _table(rows.best_answer_rows(found["games"]), "Best answers")
        _say("Updates hide a user, bounded noise a rating's value; a cost C/B (1 - p) is the same for both.")
    if "iterations" in content:
        found = content["iterations"]
        _table(rows.in_turn_rows(found["in_turn"]), "As published, without privacy, sharing the first iterations only")
        _table(rows.update_rows(found["updates"]), "Released updates, each with noise for as many answers as it gives")
        _table(rows.iteration_game_rows(found["games"]), "The game in which each names its noise and how often it answers")
    if "forecast" in content:
        found = content["forecast"]
        _say("{public_users:,} users are public, the owners have {users_of_each:,} others each".format(**found))
        _table(rows.forecast_rows(found["forecast"], found["points"]), "What learning together was forecast to be worth, and was")
        _table(rows.judged_rows(found["judged"]), "How far off, in percent of gain (root mean square)")
        _table(rows.judged_game_rows(found["judged"]), "The game on the forecast, and on what was measured")
    if "table" in content:
        _table(rows.table_rows(content["table"]), "Table 3: ratings made of empty cells, for every true rating")
    if "picture" in content:
        _say(f"Drawn in {content['picture']}")


def _show_figure(figure: int, points: Sequence[dict[str, Any]]) -> None:
    from parley.papers.figures import joint_learning as rows

    _table(rows.figure_rows(figure, points), TITLES[figure])
    both = " Figure 5: both owners' mean." if figure == 5 else ""
    _say(f"RMSE on each owner's held-out ratings; ± is the standard error over divisions of the users.{both}")
    if figure != 3:
        _say(
            "alone: the best of all methods, by its own ratings only; solved: the owner solves its users' factors from their own ratings "
            "in the end; the gain is that of the better. updates hide a user (δ = 1e-5), unbounded noise a rating, bounded noise its value."
        )


def _table(lines: Sequence[Sequence[str]], title: str) -> None:
    console.print(terminal_table(lines, title))


def _say(text: str) -> None:
    console.print(text, style="dim")


def _published(compared: "Sequence[joint_learning_game.Comparison]", as_json: bool) -> None:
    from parley.papers import joint_learning_game

    if as_json:
        print_json({"rows": [{**vars(row), "agrees": row.agrees} for row in compared]}, inside=False)
        return
    lines = [["case", "quantity", "published", "recomputed", "remark"]]
    for row in compared:
        remark = "" if row.agrees else row.remark
        lines.append([row.where, row.quantity, number(row.published, 5), number(row.recomputed, 5), remark])
    _table(lines, "Together or Alone, section 7.3, from its own table 5")
    console.print()
    _table(joint_learning_game.best_response_rows(), "Its table 6 at C/B = 0.5")
