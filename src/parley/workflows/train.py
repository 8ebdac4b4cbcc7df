"""Train one joint model on this machine: simulate it, or release it with every owner's ledger debited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parley.data.cluster import joined
from parley.data.fitting import dropped_rows
from parley.decisions.outlook.forecast import missed_forecast
from parley.decisions.outlook.worth import Worth, worth
from parley.durable import require_store, write_file
from parley.errors import SettingError
from parley.learning.outcome import Result
from parley.learning.owners import require_ledgers, spent_so_far
from parley.learning.train import train
from parley.owner.owner import Owner
from parley.owner.warnings import budget_warning, name_warnings, target_words
from parley.protocol.setup import require_ready as require_complete
from parley.protocol.task import task_of
from parley.report.run_options import RunOptions, owners_here
from parley.report.sheet import Report
from parley.report.words.training import missed_line, release_lines
from parley.terms import Terms, load_terms
from parley.terms.file import require_expected
from parley.workflows.assumptions import read_speeds
from parley.workflows.person import Person
from parley.workflows.release import ask_where_people_repeat, ask_where_rows_contradict, require_worth_spending
from parley.workflows.train_report import TrainReport


@dataclass(frozen=True)
class TrainOptions:
    """The options of a training; with `ledgers` in `run` it is a release."""

    run: RunOptions = field(default_factory=RunOptions)
    differences: str | None = None  # how much owners differ, as it is typed
    speeds: str | None = None
    cluster: str | None = None
    plot: Path | None = None
    shapes: Path | None = None
    report: Path | None = None
    track: Path | None = None
    expect: str | None = None  # how the terms' hash must begin


def require_ready(terms_file: Path) -> None:
    """Refuse terms that cannot be trained yet, before a job starts."""
    require_complete(load_terms(terms_file))


def train_model(terms_file: Path, options: TrainOptions, person: Person) -> Report:
    """Train by a terms file and write the requested files; wings may have their own way. Options are refused before any
    table is read, and a release that nobody is expected to gain by before anything is spent."""
    terms, run = load_terms(terms_file), options.run
    require_expected(terms, options.expect)
    speeds = read_speeds(terms, options.speeds)
    require_store(options.track)
    _require_options(terms, options)
    if (own := task_of(terms).command("train")) is not None:
        _require_plain(terms, options)
        wings: Report = own(terms, run)
        return wings
    weak_budget = budget_warning(terms, [part.name for part in terms.owners])
    if weak_budget is not None:
        person.warn(weak_budget.line)
    spent_before = None
    if run.ledgers is not None:
        if options.plot is not None or run.replicates != 1 or run.seed is not None:
            raise SettingError(
                "--plot, --replicates and --seed apply only to simulations; remove them, or remove --ledgers"
            )
        require_ledgers(terms, run.ledgers, run.lifetime, run.lifetime_delta)
        spent_before = spent_so_far(terms, run.ledgers)
    checks_worth = (
        spent_before is not None and not spent_before and not run.anyway
    )  # a run that began goes on: its answers are stored
    outlook = None
    with joined(options.cluster) as begin:
        with person.progress("forecasting it"):
            if checks_worth:
                expected = require_worth_spending(terms, options.differences, person, speeds)
                outlook = None if expected is None else expected.outlook
                expected = expected if terms.model.public is not None else None
            else:
                expected = _public_worth(terms, speeds, person)
        if spent_before is not None and not spent_before:
            ask_where_people_repeat(terms, person, asks=not run.anyway)
        if checks_worth:
            ask_where_rows_contradict(terms, terms_file, person)
        with person.progress("reading tables") as progress:
            begin()
            owners = owners_here(terms, run)
            progress.says("training")
            result = train(terms, owners, run.replicates, run.seed, progress, speeds=speeds)
    missed = _missed_forecast(result, expected, speeds, person)
    misnamed = (
        [] if spent_before is not None else [each for one in owners for each in name_warnings(one, one.prepare(terms))]
    )
    for warning in misnamed:  # an owner that releases sees them when it accepts
        person.warn(warning.line)
    _say_of_tables(terms, owners, person)
    notes = [*(each.sentence for each in misnamed), *missed]
    undrawn = _write(result, expected, owners, options, notes)
    repeated = run.ledgers is not None and spent_before == spent_so_far(terms, run.ledgers)
    files = [file for file in (run.save, options.report, options.shapes) if file is not None]
    left = (
        [] if run.ledgers is None else release_lines(result, owners, terms_file, run.ledgers, files, run.save, repeated)
    )
    return TrainReport(result, expected, outlook, missed, misnamed, repeated, left, undrawn)


def _require_options(terms: Terms, options: TrainOptions) -> None:
    """Refuse options without effect, and figures that cannot be written."""
    if options.differences is not None and options.run.ledgers is None:
        raise SettingError("--heterogeneity: allowed only with --ledgers, for the forecast before a release")
    if options.plot is not None or options.shapes is not None:
        from parley.report.figures import picture  # a library that is slow to load

        for file in (each for each in (options.plot, options.shapes) if each is not None):
            picture.require_figure_name(file)
    if options.shapes is not None and terms.model.bins is None:
        raise SettingError(
            "--shapes: available only for model.columns = 'bins' or 'hinges' and for boosted trees, where effects of "
            "columns add up"
        )


def _require_plain(terms: Terms, options: TrainOptions) -> None:
    """Refuse options that a wing with its own training does not support."""
    if options.plot is not None or options.report is not None:
        raise SettingError(f"--plot, --report: not available for the task {terms.task}; --json prints the figures")
    if options.track is not None:
        raise SettingError(f"--track: not available for the task {terms.task}; --json prints the figures")
    if options.cluster is not None:
        raise SettingError(f"--cluster: not available for the task {terms.task}, whose tables stay on this machine")


def _public_worth(terms: Terms, speeds: Mapping[str, float] | None, person: Person) -> Worth | None:
    """Value the model by the public sample, and warn if it is not worth a budget."""
    try:
        found = worth(terms, speeds=speeds)
    except SettingError as error:
        person.warn(f"No forecast: {error}.")
        return None
    below = None if found is None else found.sentence()
    if found is not None and below is not None:
        person.warn(f"The model is not worth spending budget on: {below}; {found.advice}.")
    return found


def _missed_forecast(
    result: Result, expected: Worth | None, speeds: Mapping[str, float] | None, person: Person
) -> list[str]:
    """Return a warning if a simulation is far above its forecast; releases have no figures to compare."""
    fitness = result.relative_fitness
    if fitness is None or expected is None:
        return []
    with person.progress("its forecast's interval"):
        forecast = missed_forecast(result.terms, expected, fitness["mean"], speeds)
    return [] if forecast is None else [missed_line(fitness["mean"], forecast)]


def _say_of_tables(terms: Terms, owners: Sequence[Owner], person: Person) -> None:
    """Warn of rows that do not count, each owner's for its own eyes."""
    if (dropped := dropped_rows(terms.model)) is not None:
        person.warn(dropped)
    for owner in owners:
        if (words := target_words(owner, owner.prepare(terms))) is not None:
            person.warn(f"Inside, for {owner.name} alone: {words}")


def _write(
    result: Result, expected: Worth | None, owners: Sequence[Owner], options: TrainOptions, notes: Sequence[str]
) -> bool:
    """Write the requested files; return whether a figure had nothing to draw."""
    terms, undrawn = result.terms, False
    if options.run.save is not None:
        result.model.save(options.run.save)
    if options.plot is not None or options.shapes is not None:
        from parley.report.figures import picture
        from parley.report.figures.shape_functions import shape_functions

        if options.plot is not None:
            drawn = task_of(terms).figure(result)
            undrawn = drawn is None
            if drawn is not None:
                picture.save(drawn, options.plot)
        if options.shapes is not None:
            picture.save(shape_functions(result.model, result.theta), options.shapes)
    if options.report is not None:
        from parley.report.pages.run_page import run_page

        write_file(options.report, run_page(result, expected, notes))
    if options.track is not None:
        from parley.report.tracking import tracked_training, write_run

        ends = {owner.name: owner.ledger.account(terms.hash).head for owner in owners} if result.released else {}
        write_run(tracked_training(result, "parley train", expected, ends, options.run.seed), options.track)
    return undrawn
