"""`parley reproduce pejo2018`: "Together or Alone", its games from its own table 5, and its measurements again on
MovieLens."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from parley.errors import DataError, SettingError
from parley_lab.papers.document import Asked, Document, Exhibit
from parley_lab.papers.options import AsJson, Kind, Listing, Recorded, out
from parley_lab.papers.pejo2018.printed import PRINTED
from parley_lab.papers.runner import show

RATINGS_FILES = "ml1m.parquet, ratings.dat or ratings.csv"
PUBLISHED_EXHIBIT = Exhibit("", "section-7.3", "without options: equilibria from P's own table 5", "exhibits:published")
PRIVATE_EXHIBIT = Exhibit(
    "", "private-concerns", "with --prior alone: P's fits", "exhibits:private_concerns", options=("prior",)
)


def _figure(word: str, line: str, draw: str, *options: str) -> Exhibit:
    return Exhibit("figure", word, line, "exhibits:figure", f"pictures:{draw}", options, RATINGS_FILES)


def _study(word: str, line: str) -> Exhibit:
    return Exhibit("study", word, line, f"open_ends:{word}", data=RATINGS_FILES)


DOCUMENT = Document(
    "pejo2018",
    (
        PUBLISHED_EXHIBIT,
        PRIVATE_EXHIBIT,
        _figure("3", "alone and together, over ratios of users, on 1M", "size_ratios"),
        _figure("4", "the smaller owner of 1:4, whose partner has no privacy", "unconcerned_partner"),
        _figure("5", "two owners alike, each with its own p", "both_concerned", "game", "discount", "prior"),
        Exhibit("table", "3", "how much unbounded DP inflates a matrix", "exhibits:expansion", data=RATINGS_FILES),
        _study("mechanisms", "another mechanism for each player"),
        _study("iterations", "sharing only some iterations"),
        _study("forecast", "a forecast from some public users, judged by the others"),
    ),
    prefix="ratings-",
    adjacency=None,
    title="Together or alone: the price of privacy in joint learning (Pejó, Tang, Arriaga)",
    printed=PRINTED,
)


def pejo2018(
    figure: Annotated[
        str | None, typer.Option(metavar="N", help="Measure figure 3, 4 or 5 on the ratings in --data.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="N", help="Table 3: how much unbounded DP inflates a matrix.")
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A study beyond the document: mechanisms, iterations or forecast."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help=f"Folder with {RATINGS_FILES}. Default: PARLEY_DATA.")
    ] = None,
    points: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What --figure N --json printed before: play or draw it, measure nothing."),
    ] = None,
    splits: Annotated[int, typer.Option(min=1, help="Random divisions of the users; error bars need two or more.")] = 3,
    users: Annotated[int | None, typer.Option(min=100, help="Keep so many users at random, for a quick look.")] = None,
    public: Annotated[
        int, typer.Option(min=32, metavar="USERS", help="With --study forecast: so many users are public.")
    ] = 943,
    mechanism: Annotated[list[str] | None, typer.Option(help="Only this mechanism; may be repeated.")] = None,
    game: Annotated[
        bool, typer.Option("--game", help="With figure 5: the game as measured, once and repeated.")
    ] = False,
    prior: Annotated[
        list[str] | None,
        typer.Option(metavar="C/B,...", help="Prior of private concerns: 0.2,1,5 or 0.2:3,5:1; twice: per player."),
    ] = None,
    discount: Annotated[
        float | None,
        typer.Option(min=0.0, max=0.999999, help="With --game: what holds if the next period counts for so much."),
    ] = None,
    memory: Annotated[float, typer.Option(help="GB that unbounded DP may take.")] = 2.0,
    folder: Annotated[Path | None, out("Save the figure as a picture in this folder.")] = None,
    kind: Kind = "png",
    as_json: AsJson = False,
    listing: Listing = False,
    record: Recorded = False,
) -> None:
    """Pejó, Tang, Arriaga, "Together or Alone: The Price of Privacy in Joint Learning": its equilibria, and its
    measurements.

    Without options: the numbers of its section 7.3 from its own table 5, and what does not follow. With --figure: two
    owners factorise their ratings alone and together; errors (RMSE) are on held-out ratings. On MovieLens 1M figure 3
    takes half a minute of one core, 4 and 5 some minutes. Noise is sound unless a mechanism is called "published"; then
    the table says what ε it really gives.

    Examples:  parley reproduce pejo2018 --figure 3 --data DIR --out pictures
               parley reproduce pejo2018 --figure 5 --data DIR --json > five.json
               parley reproduce pejo2018 --points five.json --game --prior 0.2,1,5 --discount 0.9
    """
    if points is not None and (figure, table, study) != (None, None, None):
        raise SettingError("--points: not allowed with --figure, --table or --study; it already holds a figure")
    if discount is not None and not game:
        raise SettingError("--discount: expected --game, whose next period it is about")
    known = None if points is None else _read_points(points)

    def bench(request: Asked) -> Any:
        from parley_lab.papers.pejo2018.private_concerns import read_priors
        from parley_lab.papers.pejo2018.settings import Settings

        priors = read_priors(prior) if prior else None
        return Settings(request, splits, users, public, mechanism, memory * 1e9, known, game, discount, priors)

    words = {"figure": figure if known is None else str(known["figure"]), "table": table, "study": study}
    show(
        DOCUMENT,
        bench,
        {option: [word] for option, word in words.items() if word is not None},
        usual=[PRIVATE_EXHIBIT if prior else PUBLISHED_EXHIBIT],
        given={"game": game, "discount": discount, "prior": prior},
        data=data,
        out=folder,
        as_json=as_json,
        listing=listing,
        record=record,
        kind=kind,
    )


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
