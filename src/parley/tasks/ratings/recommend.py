"""`parley recommend`: what one of an owner's own users would like."""

from pathlib import Path
from typing import Annotated

import typer

from parley.errors import SettingError
from parley.numerals import number
from parley.report.terminal import console, print_json, terminal_table
from parley.tasks.ratings.terms import item_names
from parley.terms import load_terms

RANKED = "Best first: by expected rating + log(how often an item is rated), because people mostly rate what many do."


def recommend_command(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The items, as `parley train --save` wrote them.")
    ],
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms they were learned by.")],
    owner: Annotated[str, typer.Option(help="Whose user it is.")],
    user: Annotated[str, typer.Option(help="For whom: a name in the owner's column of users.")],
    item: Annotated[str | None, typer.Option(help="Only say which rating is expected of this item.")] = None,
    best: Annotated[int, typer.Option("--best", "-k", help="How many items.")] = 10,
    data: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="The owner's ratings; left out: `data` in the terms.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What would this user like? The best of what one of the owner's own users has not rated.

    The user's factors are solved from the user's own ratings when the command is typed, on the owner's machine, and
    kept nowhere: the model holds items alone. What this prints tells of the user's ratings: it is for that user, and
    stays inside.

    Example:  parley recommend items.json terms.toml --owner north --user 4711 --data north.csv
    """
    from parley.learning.outcome.guarantee import INSIDE
    from parley.learning.owners import table_of
    from parley.owner.owner import Owner
    from parley.tasks.ratings.recommendations import recommendations
    from parley.tasks.ratings.recommender import Recommender

    terms, model = load_terms(terms_file), Recommender.load(model_file)
    if terms.task != "ratings" or model.item_names != item_names(terms.model):
        raise SettingError(f"{terms_file}: expected the terms of ratings by which {model_file} was learned")
    found = recommendations(model, terms, Owner(owner, table_of(terms.owner(owner), data)), user, best, item)
    if as_json:
        print_json(
            {"user": user, "items": [{"item": name, "expected": expected} for name, expected in found]}, inside=True
        )
        return
    console.print(
        terminal_table([["item", "expected rating"], *([name, number(expected, 3)] for name, expected in found)])
    )
    if item is None:
        console.print(RANKED, style="dim", soft_wrap=True)
    console.print(INSIDE, style="dim")
