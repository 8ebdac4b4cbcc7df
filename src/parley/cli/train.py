"""`parley train`: train the joint model of a terms file on one machine."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.acceptance import warn_of
from parley.cli.assumptions import Differences, Speeds, read_paces
from parley.cli.spending import ANYWAY, ask_where_rows_contradict, require_worth_spending
from parley.cli.track import Track, require_store
from parley.durable import write_file
from parley.errors import SettingError
from parley.report.terminal import console, print_json, progress_bar, terminal_table, warn
from parley.tasks.asking_options import Expect, OtherBooks, owners_here
from parley.terms import Terms, load_terms
from parley.terms.file import require_expected

if TYPE_CHECKING:
    from parley.decisions.outlook.outlook import Outlook
    from parley.decisions.outlook.worth import Worth
    from parley.learning.outcome import Result


def train_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS", help="The terms file (TOML). Each owner in it needs its `data`.")
    ],
    replicates: Annotated[
        int, typer.Option(help="Parallel runs of a simulation: quartiles instead of one draw of the noise.")
    ] = 1,
    seed: Annotated[int | None, typer.Option(help="Makes a simulation repeatable.")] = None,
    ledgers: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Release instead of simulating: safe noise, debited in DIR/OWNER.ledger. Run again after a crash, it "
            "goes on where it stopped; a finished run repeats its stored answers for free.",
        ),
    ] = None,
    lifetime: Annotated[
        float | None,
        typer.Option(
            metavar="EPS",
            help="With --ledgers: make the ledgers that are missing, with this lifetime budget. It is for ever, and a "
            "table has one ledger: making a second one for the same table spends outside the books.",
        ),
    ] = None,
    lifetime_delta: Annotated[
        float | None, typer.Option(metavar="DELTA", help="With --lifetime: the delta of that budget; left out: 0.")
    ] = None,
    differences: Differences = None,
    speeds: Speeds = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Add up rows on your own Dask cluster (tls://HOST:PORT); the numbers are those without it.",
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the model as JSON.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw relative fitness against rounds, of trees what each column adds (.png, .svg, .pdf).",
        ),
    ] = None,
    shapes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw what each column adds to the model, for bins and boosted trees (.png, .svg, .pdf); with "
            "--replicates also what noise does to it.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the run (.html), with its figures.")
    ] = None,
    track: Track = None,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help=f"With --ledgers: {ANYWAY}",
        ),
    ] = False,
    other_books: OtherBooks = None,
    expect: Expect = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Train one joint model by the terms, on this machine.

    Without --ledgers this is a simulation: it shows what training by these terms would give, with relative fitness (how
    far the model is from the one without privacy) and the task's own metrics on held-out rows.

    Example:  parley train parley-demo/terms.toml --replicates 100 --seed 1 --plot fitness.png
    """
    from parley.data.cluster import joined
    from parley.data.fitting import dropped_rows
    from parley.decisions.knowledge.coding import coding_cost, coding_warning
    from parley.learning.owners import require_ledgers, spent_so_far
    from parley.learning.run_options import RunOptions
    from parley.learning.train import train
    from parley.owner.warnings import budget_warning, name_warnings, target_words
    from parley.protocol.task import task_of
    from parley.report.words.training import quality_lines, release_lines

    terms = load_terms(terms_file)
    require_expected(terms, expect)
    paces = read_paces(terms, speeds)
    require_store(track)
    if differences is not None and ledgers is None:
        raise SettingError(
            "--differences: expected --ledgers beside it: what joining is worth is asked before a release"
        )
    if plot is not None or shapes is not None:
        from parley.report.figures import curves, picture  # a library that takes its time

        for file in (each for each in (plot, shapes) if each is not None):
            picture.require_figure_name(file)
    if shapes is not None and terms.model.bins is None:
        raise SettingError(
            "--shapes: expected model.columns = 'bins' or 'hinges', or boosted trees: other columns do not add up"
        )
    if (own := task_of(terms).command("train")) is not None:
        if plot is not None or report is not None:
            raise SettingError(f"--plot, --report: expected neither for {terms.task}, whose figures --json has")
        if track is not None:
            raise SettingError(f"--track: expected none for {terms.task}, whose figures --json has")
        if cluster is not None:
            raise SettingError(f"--cluster: expected none for {terms.task}, whose tables are held here")
        given = (ledgers, lifetime, lifetime_delta)
        options = RunOptions(*given, seed=seed, replicates=replicates, anyway=anyway, other_books=other_books)
        own(terms, replace(options, save=save, as_json=as_json))
        return
    loud = budget_warning(terms, [part.name for part in terms.owners])
    if loud is not None:
        warn_of(loud)
    if ledgers is not None and (plot is not None or replicates != 1 or seed is not None):
        raise SettingError(
            "--plot, --replicates and --seed belong to simulations; leave them out, or leave out --ledgers"
        )
    before = None
    if ledgers is not None:
        require_ledgers(terms, ledgers, lifetime, lifetime_delta)
        before = spent_so_far(terms, ledgers)
    asks = before is not None and not before and not anyway  # a run that began goes on: its answers are stored
    with joined(cluster) as begin:
        with progress_bar("what is foreseen of it"):
            expected, outlook = _worth(terms, asks, differences, paces)
        if asks:
            ask_where_rows_contradict(terms, terms_file)
        with progress_bar("reading tables") as progress:
            begin()
            books = RunOptions(ledgers, lifetime, lifetime_delta, anyway=anyway, other_books=other_books)
            owners = owners_here(terms, books)
            progress.says("training")
            result = train(terms, owners, replicates=replicates, seed=seed, progress=progress, speeds=paces)
    missed = _missed(result, expected, paces)
    misnamed = (
        [] if ledgers is not None else [each for owner in owners for each in name_warnings(owner, owner.prepare(terms))]
    )
    for warning in misnamed:  # an owner that releases sees them when it accepts
        warn_of(warning)
    if (dropped := dropped_rows(terms.model)) is not None:
        warn(dropped)
    for owner in owners:
        if (words := target_words(owner, owner.prepare(terms))) is not None:
            warn(f"Inside, for {owner.name} alone: {words}")
    if save is not None:
        result.model.save(save)
    drawn = None
    if plot is not None:
        own_figure = task_of(terms).figure(result)
        drawn = curves.fitness_path(result.path) if own_figure is None and result.path is not None else own_figure
    if plot is not None and drawn is not None:
        picture.save(drawn, plot)
    if shapes is not None:
        from parley.report.figures.shape_functions import shape_functions

        picture.save(shape_functions(result.model, result.theta), shapes)
    if report is not None:
        from parley.report.pages.run_page import run_page

        notes = [*(each.sentence for each in misnamed), *missed]
        write_file(report, run_page(result, expected, notes))
    if track is not None:
        from parley.report.tracking import tracked_training, write_run

        ends = {owner.name: owner.ledger.account(terms.hash).head for owner in owners} if result.released else {}
        write_run(tracked_training(result, "parley train", expected, ends, seed), track)
    repeated = before is not None and before == spent_so_far(terms, ledgers or Path())
    files = [file for file in (save, report, shapes) if file is not None]
    left = [] if ledgers is None else release_lines(result, owners, terms_file, ledgers, files, save, repeated)
    if as_json:
        coding = coding_cost(terms)
        beside = {
            "coding": None if coding is None else vars(coding),
            "baselines": None if expected is None else expected.to_json(),
            "repeated": repeated,
            "said": [*quality_lines(result), *missed, *(each.sentence for each in misnamed), *left],
        }
        print_json(_beside_outlook(result.to_json() | beside, outlook), inside=not result.released)
    else:
        show(result, expected)
        for line in missed:
            console.print(line, style="yellow", markup=False, soft_wrap=True)
        if (unwise := coding_warning(terms)) is not None:
            warn(unwise)
        for line in left:
            console.print(line, markup=False, soft_wrap=True)
    if plot is not None and drawn is None:  # said last: the rest was done
        raise SettingError(
            f"--plot: nothing was drawn, relative fitness is not defined here: {result.relative_fitness_undefined}"
        )


def _beside_outlook(told: dict[str, Any], outlook: "Outlook | None") -> dict[str, Any]:
    """What was released, and for each owner what the release check had said of it."""
    if outlook is None:
        return told
    said = outlook.to_json()
    foreseen = {owner["name"]: owner for owner in said["owners"]}
    owners = [{**foreseen.get(owner["name"], {}), **owner} for owner in told["owners"]]
    return told | {"owners": owners, "consortium": said["consortium"]}


def _worth(
    terms: Terms, asks: bool, differences: str | None, speeds: Mapping[str, float] | None
) -> "tuple[Worth | None, Outlook | None]":
    """(What the model is worth by the public sample, what the release check says of owners, where that is asked.)
    Terms that are worth no budget are then refused before they spend; else it is only said."""
    from parley.decisions.outlook.worth import worth

    if asks:
        found = require_worth_spending(terms, differences, speeds)
        return None if terms.model.public is None else found, None if found is None else found.outlook
    try:
        found = worth(terms, speeds=speeds)
    except SettingError as error:
        warn(f"No forecast: {error}.")
        return None, None
    below = None if found is None else found.sentence()
    if found is not None and below is not None:
        warn(f"Not worth a budget: {below}; {found.advice}.")
    return found, None


def _missed(result: "Result", expected: "Worth | None", speeds: Mapping[str, float] | None) -> list[str]:
    """That a simulation came out far above its forecast; nothing where it did not, and of a release, which has no
    figures."""
    from parley.decisions.outlook.forecast import missed_forecast
    from parley.report.words.training import missed_line

    fitness = result.relative_fitness
    if fitness is None or expected is None:
        return []
    with progress_bar("its forecast's interval"):
        forecast = missed_forecast(result.terms, expected, fitness["mean"], speeds)
    return [] if forecast is None else [missed_line(fitness["mean"], forecast)]


def show(result: "Result", expected: "Worth | None" = None) -> None:
    """Print the result of a run as tables and sentences."""
    from parley.learning.outcome.guarantee import guarantee, kind_of_run
    from parley.report.words.forecast import baseline_line
    from parley.report.words.terms_comments import PSI
    from parley.report.words.training import (
        aborted_line,
        clip_line,
        consensus_line,
        notice_lines,
        owner_rows,
        quality_rows,
        stable_line,
        stable_rows,
        undefined_line,
        useless_line,
    )

    console.print(kind_of_run(result), style="italic")
    console.print()
    console.print(terminal_table(owner_rows(result), result.terms.title or "Owners"))
    if (clipped := clip_line(result)) is not None:
        console.print(clipped, style="dim", markup=False, soft_wrap=True)
    console.print()
    if result.quality is not None:
        console.print(terminal_table(quality_rows(result)))
        why = undefined_line(result)
        if why is not None:
            console.print(why, style="yellow", markup=False, soft_wrap=True)
        else:
            console.print(PSI, style="dim", markup=False)
        if (useless := useless_line(result)) is not None:
            console.print(useless, style="yellow", markup=False, soft_wrap=True)
        console.print()
    if (stable := stable_line(result)) is not None:
        console.print(terminal_table(stable_rows(result), "What stable noise costs"))
        console.print(stable, markup=False)
        console.print()
    show_intervals(result)
    show_scores(result)
    show_target(result)
    if (aborted := aborted_line(result)) is not None:
        console.print(aborted, style="yellow")
    for notice in notice_lines(result):
        console.print(notice, style="yellow", markup=False, soft_wrap=True)
    if (consensus := consensus_line(result)) is not None:
        console.print(consensus)
    if expected is not None:
        line = baseline_line(expected)
        console.print(f"By the public sample: {line[0].lower()}{line[1:]}", markup=False)
    console.print(guarantee(result), style="dim")
    console.print(f"terms {result.terms_hash[:16]}…   {result.replicates} run(s), {result.seconds:.1f} s", style="dim")


def show_intervals(result: "Result") -> None:
    """How sure the coefficients are, where the release says so."""
    from parley.report.words.training import interval_line, interval_rows

    if result.intervals is not None:
        console.print(terminal_table(interval_rows(result), "Coefficients, in the columns' own units"))
        console.print(interval_line(result), style="dim", markup=False)
        console.print()


def show_target(result: "Result") -> None:
    """Which targets count as 1, where there are two classes."""
    words = result.model.preparation_.target_words
    if words is not None:
        console.print(words, style="dim", markup=False)


def show_scores(result: "Result") -> None:
    """What the owners released about the model's quality, if anything."""
    from parley.report.words.training import score_rows, score_title

    if result.scores is not None:
        console.print(terminal_table(score_rows(result.scores), score_title(result)))
        console.print()
