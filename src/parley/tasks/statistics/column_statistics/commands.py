"""`parley column-stats`: noisy bounds, categories, centres and scales for terms without a public sample."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.numerals import counted, number, percent
from parley.report import run_options as asking
from parley.report.run_options import RunOptions, cost_sentence
from parley.report.terminal import console, print_json, progress_bar, terminal_table, warn
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement
from parley.terms import Terms, load_terms, write_terms
from parley.terms.file import KEY_NOTES, head_of, require_expected
from parley.validate import printable

if TYPE_CHECKING:
    from parley.tasks.statistics.column_statistics.release import ReleasedColumn
    from parley.tasks.statistics.column_statistics.run import ColumnStatisticsResult


def column_statistics_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS", help="Terms with privacy.scale_epsilon and no public sample.")
    ],
    write: Annotated[
        Path | None, typer.Option(metavar="READY", help="Write the terms for training, with the released statistics.")
    ] = None,
    agreement: asking.Agreement = None,
    ledgers: asking.Ledgers = None,
    lifetime: asking.Lifetime = None,
    lifetime_delta: asking.LifetimeDelta = None,
    other_books: asking.OtherBooks = None,
    owners: asking.Addresses = None,
    resume: asking.Resume = False,
    deadline: asking.Deadline = 60.0,
    seed: asking.Seed = None,
    expect: asking.Expect = None,
    anyway: Annotated[
        bool, typer.Option("--force", "--anyway", help="Ask even if a bin needs over 10% of all rows.")
    ] = False,
    as_json: asking.AsJson = False,
) -> None:
    """Ask the owners how their columns are distributed, for terms without a public sample. Each answer is noisy and is
    debited in the ledger of the owner that gave it.

    It costs each owner privacy.scale_epsilon of its epsilon. Two rounds count rows on coarse grids; bounds, centres and
    scales follow from the noisy counts, and names that many rows hold come out where the terms have a delta. READY has
    them, and the rest of the budgets. What the noise will let be seen is said, or refused, before anything is debited.

    Example:  parley column-stats terms.toml --ledgers books --lifetime 3 --lifetime-delta 1e-5 --write ready.toml
    """
    from parley.learning.deployed import prepare_run
    from parley.learning.owners import open_owners
    from parley.tasks.statistics.column_statistics.run import (
        accepting_column_statistics,
        ask_column_statistics,
        column_statistics_result,
        require_learnable,
        require_learnable_here,
    )

    terms = load_terms(terms_file)
    require_expected(terms, expect)
    agreed_terms = column_statistics_agreement(terms)
    options = RunOptions(ledgers, lifetime, lifetime_delta, owners, resume, deadline, seed, other_books=other_books)
    asking.require_one_way(options)
    if owners is not None or agreement is not None:
        require_learnable(terms, anyway=anyway)
    if asking.only_agreement(agreed_terms, agreement):
        return
    if owners is not None:
        if not as_json:
            _say_sight(agreed_terms, terms)
        kept = terms_file.with_suffix(".scales.checkpoint")
        answers = asking.ask_owners_elsewhere(lambda: prepare_run(agreed_terms, kept), agreed_terms, options)
        result, unheard = column_statistics_result(terms, answers), list(answers.missing_owners)
    else:
        parties = (
            open_owners(agreed_terms)
            if ledgers is None
            else accepting_column_statistics(
                terms,
                ledgers,
                lifetime,
                lifetime_delta,
                anyway,
                lambda: asking.announce_release(terms, ledgers, lifetime, lifetime_delta),
                other_books,
            )
        )
        if ledgers is None:
            require_learnable_here(terms, parties, anyway=True)  # it costs nothing to try
        if not as_json:
            _say_sight(agreed_terms, terms)
        with progress_bar("asking") as progress:
            result, unheard = ask_column_statistics(terms, parties, seed, progress), []
    if write is not None:
        write_terms(result.ready.terms, write, [*release_note(result), *head_of(terms_file)], KEY_NOTES)
    if as_json:
        print_json(result.to_json() | {"unheard": unheard}, inside=not result.released)
    else:
        show(result, write)


def _say_sight(agreed_terms: Terms, terms: Terms) -> None:
    from parley.learning.owners import open_owners
    from parley.protocol.setup import resolve
    from parley.tasks.statistics.column_statistics.run import sight

    listed = terms.model.features is not None
    console.print(
        noise_words(agreed_terms, *sight(resolve(agreed_terms, None if listed else open_owners(terms)[0].example))),
        style="dim",
    )


def show(result: "ColumnStatisticsResult", write: Path | None) -> None:
    """Print released column statistics as tables and sentences."""
    console.print(summary(result), style="italic")
    console.print()
    console.print(terminal_table(column_rows(result.columns), result.asked.title))
    for note in result.ready.notes:
        warn(note)
    console.print(f"\n{asking.left_sentence(result.ready.terms)}", style="dim", soft_wrap=True)
    if write is not None and not result.ready.waits:
        console.print(
            f"{write} contains the terms for training. Next: parley forecast {shlex.quote(str(write))}", soft_wrap=True
        )
    elif write is not None:
        waiting = ", ".join(printable(column) for column in result.ready.waits)
        message = (
            f"{write}  is incomplete: declare model.bounds or model.categories of {waiting} in this file before "
            "training"
        )
        console.print(message, style="yellow", markup=False, soft_wrap=True)


MAX_NAME_LENGTH = 32  # characters of the names that are listed


def summary(result: "ColumnStatisticsResult") -> str:
    """Say whether it was a release, what it costs, and what the rest follows from."""
    said = cost_sentence(result.asked, result.released)
    return f"{said} Everything below follows from noisy counts." if result.released else said


def noise_words(terms: Terms, bin_from: float, name_from: Mapping[str, float]) -> str:
    """Say what the noise lets be seen."""
    sentence = f"A bin is read from {percent(bin_from)} of all rows on"
    if not name_from:
        return f"{sentence}; names are not asked for, because these terms have shared noise or no delta for names."
    name, smallest_share = min(name_from.items(), key=lambda each: each[1])
    if not smallest_share < 1:
        return f"{sentence}; no table is large enough to release a name."
    rows, whose = smallest_share * terms.owner(name).records, printable(name)
    return f"{sentence}, a name from {rows:,.0f} rows of one owner ({whose}: {percent(smallest_share)} of its rows)."


def column_rows(columns: "Sequence[ReleasedColumn]") -> list[list[str]]:
    """Return a table of every column's findings."""
    rows = [["column", "values", "missing"]]
    return rows + [[printable(column.column), _values(column), percent(column.missing)] for column in columns]


def _values(column: "ReleasedColumn") -> str:
    if column.kind == "unclear":
        return "unclear"
    if column.low is not None and column.high is not None:
        return f"{number(column.low)} to {number(column.high)}"
    names = ", ".join(name for name, _ in column.names)
    return (
        f"{counted(len(column.names), 'name')}: {printable(names, MAX_NAME_LENGTH)}"
        if names
        else "names, none released"
    )


def release_note(result: "ColumnStatisticsResult") -> tuple[str, ...]:
    """Return comment lines for the terms that follow."""
    kind = (
        "released by the owners with noise, debited in their ledgers"
        if result.released
        else "SIMULATED: from tables, with seeded noise"
    )
    return (
        f"Bounds, categories, centres and scales were {kind},",
        f"under the terms {result.asked.hash[:16]}..., for epsilon = {result.asked.owners[0].epsilon:g} and delta = "
        f"{result.asked.privacy.delta:g} of every owner. The budgets below are the remaining budgets.",
        *(f"Look at this: {printable(note, 400)}" for note in result.ready.notes),
    )
