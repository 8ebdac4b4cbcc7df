"""What `parley init` asks a person where no public sample says it: what is predicted, and what columns may hold.

Formal guarantee: of private files only the names of columns are read here and, for the guess of a kind, whether the
target holds numbers or names, which the person and the terms' comments are told; what is written are the person's
answers.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from parley.errors import SettingError
from parley.report.words import interview as said
from parley.terms import Terms
from parley.terms.catalogue import MODELS, kinds_from_files

if TYPE_CHECKING:
    from parley.decisions.from_files.column_dates import AmbiguousDatesError
    from parley.decisions.from_files.known_columns import Wishes


def asked_kind(files: Sequence[Path], wishes: "Wishes") -> "Wishes":
    """The wishes with the kind of model, asked for unless what is known of the target says it, and what it needs."""
    target = wishes.target
    if wishes.public is None and not (
        wishes.kind or wishes.positive or target in wishes.bounds or target in wishes.categories
    ):
        wishes = replace(wishes, kind=_kind(files, target), target_read=True)
    if wishes.kind is None or wishes.public is not None or wishes.kind not in MODELS:
        return wishes
    predicts = MODELS[wishes.kind].predicts
    if predicts == "survival" and wishes.event is None:
        wishes = replace(wishes, event=typer.prompt(said.EVENT, err=True))
    if predicts == "survival" and not wishes.periods:
        ends = typer.prompt(said.PERIODS, err=True)
        wishes = replace(wishes, periods=tuple(moments(ends)))
    if wishes.positive or target in wishes.bounds or target in wishes.categories or predicts == "survival":
        return wishes
    if predicts == "two classes":
        names = said.listed(typer.prompt(said.TWO_NAMES.format(target=target), err=True))
        if (len(names), len({*names})) != (2, 2):
            raise SettingError(f"{target}: {said.NOT_TWO}")
        return replace(wishes, positive=names[-1], categories={**wishes.categories, target: names})
    return asked_columns([target], wishes)


def _kind(files: Sequence[Path], target: str) -> str:
    """The kind of model that a person chooses, with a guess by whether the target holds numbers or names."""
    from parley.data.headers import column_kinds
    from parley.decisions.from_files.column_dates import dates_as_target

    held = {column_kinds(file, [target], str(file))[target] for file in files}
    if "dates" in held:
        raise dates_as_target(target)
    holds_names = "names" in held
    offered = "; ".join(f"{kind}: {words}" for kind, words in said.kinds_in_words().items())
    typer.echo(
        f"{target} holds {'names' if holds_names else 'numbers'} (read from the files). Kinds of model: {offered}.",
        err=True,
    )
    usual = "logistic-regression" if holds_names else "linear-regression"
    while (answer := str(typer.prompt(f"What is {target}", usual, err=True))) not in kinds_from_files():
        typer.echo(f"{answer}: expected one of these kinds.", err=True)
    return answer


def columns_to_ask(files: Sequence[Path], wishes: "Wishes") -> list[str]:
    """The columns that would be learned from and of which nobody has said how they are spread."""
    from parley.data.headers import read_header
    from parley.decisions.from_files.odd_columns import says_who

    if wishes.public is not None:
        return []
    headers = [read_header(file).columns for file in files]
    shared = [column for column in headers[0] if all(column in each for each in headers)]
    wanted = [column for column in shared if not says_who(column)] if wishes.features is None else wishes.features
    said = {*wishes.outcome, wishes.person, *wishes.bounds, *wishes.categories}
    return [column for column in wanted if column in shared and column not in said]


def unsaid_columns(terms: Terms) -> list[str]:
    """The columns of drafted terms that owners would be asked about since nobody has said what they hold."""
    model = terms.model
    asked = (*(model.features or ()), *((model.target,) if model.predicts in ("number", "classes") else ()))
    return [column for column in asked if column not in {*model.bounds, *model.categories}]


def asked_columns(columns: Sequence[str], wishes: "Wishes") -> "Wishes":
    """The wishes with ranges and names that a person says of these columns; what it leaves open stays open."""
    from parley.decisions.from_files.column_dates import range_ends

    bounds, categories, dates = dict(wishes.bounds), dict(wishes.categories), dict(wishes.dates)
    for column in columns:
        answer = said.listed(typer.prompt(f"{column}: {said.SPREAD}", "", err=True))
        ends = range_ends(answer)
        if ends is not None and ends[0][0] < ends[0][1]:
            bounds[column] = ends[0]
            dates |= {column: dates.get(column, "")} if ends[1] else {}
        elif answer:
            categories[column] = answer
    return replace(wishes, bounds=bounds, categories=categories, dates=dates)


def asked_merges(wishes: "Wishes") -> "Wishes":
    """The wishes with columns whose names are one if they differ only by capitals or spaces."""
    from parley.data.headers import column_kinds
    from parley.data.sources import read_table
    from parley.decisions.from_files.odd_columns import alike_words, says_who, spelled_alike

    if wishes.public is None:
        return wishes
    public = read_table(wishes.public)
    known = {*wishes.outcome, wishes.person, *wishes.bounds, *wishes.dates, *wishes.merged}
    columns = [str(column) for column in public.columns if str(column) not in known]
    wanted = [column for column in columns if wishes.features is None or column in wishes.features]
    kinds = column_kinds(public, [column for column in wanted if not says_who(column)], "public sample")
    found = {column: spelled_alike(public, column) for column, kind in kinds.items() if kind == "names"}
    chosen = [
        column
        for column, groups in found.items()
        if groups and typer.confirm(f"{alike_words(column, groups)}. {said.MERGE}", default=False, err=True)
    ]
    return replace(wishes, merged=(*wishes.merged, *chosen))


def asked_dates(unclear: "AmbiguousDatesError", wishes: "Wishes") -> "Wishes":
    """The wishes with the format of a column whose dates can be read in several ways."""
    question = said.DATES.format(column=unclear.column, ways=" or ".join(unclear.formats))
    while (answer := str(typer.prompt(question, err=True)).strip()) not in unclear.formats:
        typer.echo(f"{answer}: expected one of these.", err=True)
    return replace(wishes, dates={**wishes.dates, unclear.column: answer})


def moments(text: str | None) -> tuple[float, ...]:
    """Numbers between commas."""
    try:
        return tuple(float(word) for word in said.listed(text))
    except ValueError:
        raise SettingError(f"--periods {text}: expected numbers, such as 30,90,365") from None
