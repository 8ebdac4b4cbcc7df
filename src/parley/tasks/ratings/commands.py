"""What `parley train`, `parley learner run`, `parley score` and others do under terms of ratings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.errors import SettingError
from parley.numerals import number
from parley.report.extras import extras
from parley.report.run_options import RunOptions, ask_owners_elsewhere, owners_here, unheard_lines
from parley.report.sheet import BLANK_LINE, Grid, Line, Part, Sheet, lines
from parley.report.terminal import progress_bar, show, warn
from parley.tasks.ratings.terms import RatingsModel
from parley.terms import Terms, load_terms

if TYPE_CHECKING:
    from parley.tasks.ratings.run import ItemsResult


def train_ratings(terms: Terms, options: RunOptions) -> Sheet:
    """Learn items with owners on this machine."""
    from parley.learning.owners import require_ledgers, spent_so_far
    from parley.learning.train import train
    from parley.tasks.ratings.measured import items_worth, require_items_worth

    replicates, seed = options.replicates, options.seed
    if options.ledgers is not None and (replicates != 1 or seed is not None):
        raise SettingError("--replicates and --seed apply only to simulations; remove them, or remove --ledgers")
    if options.ledgers is not None:
        require_ledgers(terms, options.ledgers, options.lifetime, options.lifetime_delta)
    if options.ledgers is not None and not options.anyway and not spent_so_far(terms, options.ledgers):
        require_items_worth(terms)
    expected = items_worth(terms) if options.ledgers is None else None
    if expected is not None and (sentence := expected.sentence()) is not None:
        warn(f"The terms are not worth spending budget on: {sentence}.")
    with progress_bar("reading ratings") as progress:
        owners = owners_here(terms, options)
        progress.says("learning")
        with extras():
            result = train(terms, owners, replicates, seed, progress)
    return _finished(result, options, [])


def run_ratings(terms: Terms, options: RunOptions) -> Sheet:
    """Learn items with owners elsewhere."""
    from parley.learning.deployed import prepare_run
    from parley.tasks.ratings.measured import require_items_worth
    from parley.tasks.ratings.run import items_result

    if options.save_own is not None:
        raise SettingError(
            "--save-own: not allowed for ratings, because users' factors are computed on request and never stored"
        )
    if not (options.resume or options.anyway):
        require_items_worth(terms)
    answers = ask_owners_elsewhere(lambda: prepare_run(terms, options.checkpoint), terms, options)
    return _finished(items_result(answers), options, list(answers.missing_owners))


def score_ratings(terms: Terms, model_file: Path, name: str | None, data: Path | None) -> Sheet:
    """Judge the items for one owner, or for all."""
    from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
    from parley.learning.owners import open_owners, table_of
    from parley.owner.owner import Owner
    from parley.tasks.ratings.measured import worth_to
    from parley.tasks.ratings.recommender import Recommender
    from parley.tasks.ratings.report import ranking_line, worth_rows

    model = Recommender.load(model_file)
    own = None if name is None else Owner(name, table_of(terms.owner(name), data))
    owners = open_owners(terms) if own is None else [own]
    owners_items = []
    with progress_bar("alone and together, on own ratings") as progress:
        for place, owner in enumerate(owners):
            progress(place, len(owners))
            owners_items.append(worth_to(terms, owner, model))
    rows, shown = [{"name": each.name, **each.to_json()} for each in owners_items], list[Part]()
    for each in owners_items:
        shown += [Grid(worth_rows(each), each.name), Line(ranking_line(each.ranking, each.popularity))]
    inside = Line(KEEP_INSIDE_NOTE, "dim", folded=True)
    return Sheet({"owners": rows, "terms_hash": terms.hash}, [*shown, inside], inside=True)


def refine_ratings(terms: Terms, model_file: Path, name: str, data: Path | None, save: Path) -> Sheet:
    """Personalise the joint items for one owner."""
    from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
    from parley.learning.owners import table_of
    from parley.owner.owner import Owner
    from parley.tasks.ratings.measured import personal
    from parley.tasks.ratings.recommender import Recommender

    model = Recommender.load(model_file)
    owner = Owner(name, table_of(terms.owner(name), data))
    with progress_bar("judged by own ratings, how far to go"):
        own, deviation = personal(terms, owner, model)
    own.save(save)
    moved = (
        f"moved by about {deviation:g}"
        if deviation
        else "not changed: the owner's held-out ratings found nothing better"
    )
    shown = [Line(f"The items were {moved}. Saved: {save}"), Line(KEEP_INSIDE_NOTE, "dim", folded=True)]
    content = {"owner": name, "saved": str(save), "terms_hash": terms.hash, "deviation": deviation}
    return Sheet(content, shown, inside=True)


def forecast_ratings(terms: Terms, pilot: Path | None) -> Sheet:
    """Refuse: no forecast of items exists yet."""
    raise SettingError(
        "ratings: forecasts of ratings are not available yet; simulate the training with parley train without --ledgers"
    )


def _finished(result: "ItemsResult", options: RunOptions, unheard: list[str]) -> Sheet:
    from parley.tasks.ratings.report import (
        RELEASE_NOTE,
        SIMULATION_NOTE,
        gain_line,
        items_rows,
        unit_line,
        unlisted_lines,
    )

    if options.save is not None:
        result.model.save(options.save)
    shown = [
        Line(RELEASE_NOTE if result.released else SIMULATION_NOTE, "italic"),
        BLANK_LINE,
        Grid(items_rows(result), result.terms.title or "Owners"),
        *lines([gain_line(result)]),
        *lines(unlisted_lines(result), "yellow"),
        Line(unit_line(result), "dim"),
        *unheard_lines(unheard),
        Line(f"terms {result.terms.hash[:16]}…   {result.seconds:.1f} s", "dim"),
    ]
    return Sheet(result.to_json() | {"unheard": unheard}, shown, inside=not result.released)


RANKING_NOTE = "Items are sorted by expected rating + log(number of ratings), because people mostly rate popular items."


def recommend_command(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL", help="The file of items from `parley train --save`.")],
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms under which the items were learned.")],
    owner: Annotated[str, typer.Option(help="The owner of the user's ratings.")],
    user: Annotated[str, typer.Option(help="The user's name in the owner's column of users.")],
    item: Annotated[str | None, typer.Option(help="Print only the expected rating of this item.")] = None,
    best: Annotated[int, typer.Option("--best", "-k", help="How many items.")] = 10,
    data: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="The owner's ratings. Default: `data` in the terms.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """For one of the owner's users, recommend the unrated items with the highest expected ratings.

    The user's factors are solved from the user's own ratings when the command is typed, on the owner's machine, and
    kept nowhere: the model holds items alone. What this prints tells of the user's ratings: it is for that user, and
    stays inside.

    Example:  parley recommend items.json terms.toml --owner north --user 4711 --data north.csv
    """
    from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
    from parley.learning.owners import table_of
    from parley.owner.owner import Owner
    from parley.tasks.ratings.recommender import Recommender, recommendations

    terms, model = load_terms(terms_file), Recommender.load(model_file)
    if terms.task != "ratings" or model.item_names != RatingsModel.expect(terms.model).item_names:
        raise SettingError(f"{terms_file}: expected the terms file that {model_file} was trained with")
    ranked_items = recommendations(model, terms, Owner(owner, table_of(terms.owner(owner), data)), user, best, item)
    content = {"user": user, "items": [{"item": name, "expected": expected} for name, expected in ranked_items]}
    rows = [["item", "expected rating"], *([name, number(expected, 3)] for name, expected in ranked_items)]
    shown = [
        Grid(rows),
        *lines([RANKING_NOTE if item is None else None], "dim"),
        Line(KEEP_INSIDE_NOTE, "dim", folded=True),
    ]
    show(Sheet(content, shown, inside=True), as_json)
