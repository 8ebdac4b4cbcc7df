"""`parley count`: noisy counts of records by kind, debited."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.errors import TermsError
from parley.numerals import number, percent
from parley.report import run_options as asking
from parley.report.run_options import RunOptions, cost_sentence
from parley.report.sheet import BLANK_LINE, Grid, Line, Sheet
from parley.report.terminal import progress_bar, show
from parley.terms import load_terms
from parley.validate import printable

if TYPE_CHECKING:
    from parley.tasks.statistics.counts.run import CountsResult


def count_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS", help="Terms whose model.kind is 'count' or 'histogram'.")
    ],
    rate: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Prior chance that a record lies in a cell. Default: none.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the counts (.png, .svg, .pdf).")] = None,
    ledgers: asking.Ledgers = None,
    lifetime: asking.Lifetime = None,
    lifetime_delta: asking.LifetimeDelta = None,
    other_books: asking.OtherBooks = None,
    owners: asking.Addresses = None,
    resume: asking.Resume = False,
    deadline: asking.Deadline = 60.0,
    seed: asking.Seed = None,
    as_json: asking.AsJson = False,
) -> None:
    """Ask the owners how many records of each kind they have. Each answer consists of noisy whole numbers and is
    debited in the ledger of the owner that gave it.

    The terms declare a column and what is counted in it: names, or steps between two bounds (a step has its lower end
    and not its upper one, the last has both). A count is one number, a histogram one for every cell and one for what
    lies elsewhere; a record lies in exactly one.

    Each owner adds noise on whole numbers (mechanism = 'geometric', the usual one), or hosts add one for all (noise =
    'shared'). With mechanism = 'randomised-response' the owner draws an answer for every record by itself.

    Terms have under model kind = "histogram", target = "grade" and the names in categories.grade, or bounds.grade and
    bins; and owners with name, records, epsilon and data.

    Example:  parley count terms.toml --ledgers books --lifetime 3 --plot counts.png
    """
    from parley.learning.deployed import prepare_run
    from parley.tasks.statistics.counts.run import ask_counts, counts_result, require_rate

    terms = load_terms(terms_file)
    if terms.task != "counts":
        raise TermsError("model.kind: expected 'count' or 'histogram'; use parley train for other terms")
    if plot is not None:
        from parley.report.figures.picture import require_figure_name, save  # a library that is slow to load

        require_figure_name(plot)  # before anything is spent
    require_rate(rate)
    options = RunOptions(ledgers, lifetime, lifetime_delta, owners, resume, deadline, seed, other_books=other_books)
    asking.require_one_way(options)
    if owners is not None:
        kept = terms_file.with_suffix(".count.checkpoint")
        answers = asking.ask_owners_elsewhere(lambda: prepare_run(terms, kept), terms, options)
        result, unheard = counts_result(answers, rate), list(answers.missing_owners)
    else:
        parties = asking.owners_here(terms, options)
        with progress_bar("asking") as progress:
            result, unheard = ask_counts(terms, parties, rate, seed, progress), []
    if plot is not None:
        from parley.tasks.statistics.counts.figures import counted

        save(counted(result), plot)
    shown = [Line(summary(result), "italic", folded=True), BLANK_LINE, Grid(count_rows(result), result.asked.title)]
    shown += [Line(noise_words(result), "dim", folded=True), *asking.unheard_lines(unheard)]
    show(Sheet(result.to_json() | {"unheard": unheard}, shown, inside=not result.released), as_json)


def count_rows(result: "CountsResult") -> list[list[str]]:
    """Return a table of every cell's released count and its estimates."""
    rows = [[printable(result.asked.model.target), "released", "within", "best guess", "share"]]
    for cell in result.cells:
        interval = f"{_count(cell.low)} to {_count(cell.high)}"
        share = percent(cell.guess / result.records)
        rows.append([printable(cell.cell, 40), _count(cell.noisy), interval, _count(cell.guess), share])
    return rows


def _count(value: float) -> str:
    return f"{value:,.0f}"


def summary(result: "CountsResult") -> str:
    """Say whether it was a release, and what it costs every owner."""
    return cost_sentence(result.asked, result.released)


def noise_words(result: "CountsResult") -> str:
    """Say how large the noise is, and how guesses were made."""
    believed = (
        "every count was as likely as any other"
        if result.rate is None
        else f"a record lies in each cell with a chance of {percent(result.rate)}, the same for every cell"
    )
    guess = (
        f"The best guess is the median of the possible counts, if {believed} beforehand."
        if result.medians
        else "The noise is too wide for more than a rough guess: the best guess is the released count, cut to possible "
        "counts."
    )
    steps = (
        " A step includes its lower end but not its upper end; the last step includes both ends."
        if result.asked.model.kind == "histogram" and result.asked.model.target in result.asked.model.bounds
        else ""
    )
    return (
        f"The noise has a standard deviation of {number(result.deviation, 3)} records in every cell. 'Within' holds in "
        f"95 of 100 cases for each cell by itself. {guess} The best guess "
        f"follows from the release and costs nothing more.{steps}"
    )
