"""`parley init`: from files as they are to planned terms."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.acceptance import warn_of
from parley.cli.forecast import show_plan
from parley.cli.interview import (
    asked_columns,
    asked_dates,
    asked_kind,
    asked_merges,
    columns_to_ask,
    moments,
    unsaid_columns,
)
from parley.cli.owner_snapshot import URI, AskPassword, QueryFile, query_text, take
from parley.cli.pin import pins_beside
from parley.errors import ParleyError, SettingError
from parley.report.terminal import console, errors_console, print_json, progress_bar, warn
from parley.report.words import interview as asked
from parley.terms import Terms, write_terms
from parley.terms.catalogue import kinds_from_files
from parley.terms.file import NOTES
from parley.validate import printable

if TYPE_CHECKING:
    from parley.decisions.from_files.known_columns import Wishes
    from parley.decisions.from_files.terms_from_files import Draft
    from parley.decisions.outlook.forecast import Forecast


def init_command(
    target: Annotated[str, typer.Option(metavar="COLUMN", help="What shall be predicted.")],
    write: Annotated[Path, typer.Option(metavar="TERMS", help="Where the terms go.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILES...",
            help="Private tables (.csv, .parquet, folders of .parquet files, s3://...), one for each owner.",
        ),
    ] = None,
    owner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=RECORDS",
            help="An owner whose table is elsewhere; NAME=RECORDS,EPS if it promises another epsilon. May be repeated.",
        ),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A public sample of the same kind of rows: ranges, categories, and what the plan is judged on.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(metavar="EPS", help="What every owner promises; asked for if left out (1).")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta",
            metavar="DELTA",
            help="Gaussian noise at this delta is considered; 0: pure epsilon. Asked for if left out.",
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Three parties that draw one noise for all, or two that add one each; asked for if left out (none: "
            "each owner its own).",
        ),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Where a person may have several rows: the column that tells people apart. Asked for.",
        ),
    ] = None,
    records_per_person: Annotated[
        int, typer.Option(metavar="K", help="With --person: so many rows of everybody count.")
    ] = 1,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help=f"The model's kind: {', '.join(kinds_from_files())}. Left out: by the target in the public sample, "
            "else asked for.",
        ),
    ] = None,
    exposure: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="With --kind poisson-regression: what counts were counted in.")
    ] = None,
    event: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="With --kind survival: 1 where it happened, 0 where not yet.")
    ] = None,
    periods: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="With --kind survival: the ends of the periods.")
    ] = None,
    positive: Annotated[
        str | None, typer.Option(metavar="NAME", help="Two classes: the name that counts as 1.")
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=LOW,HIGH",
            help="The range of a column of numbers; of dates as 2015-01-01,2024-12-31. May be repeated.",
        ),
    ] = None,
    dates: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=FORMAT",
            help="How the dates of a column are written, such as %d/%m/%Y; found if left out. May be repeated.",
        ),
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=A,B,C",
            help="The names of a category; COLUMN alone: those of the public sample. May be repeated. A name with a "
            "comma in double quotes: --categories 'job=\"Professional, Technical\",Clerical'.",
        ),
    ] = None,
    merge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Names in it that differ only by capitals or spaces are one. Asked for; --yes tells them apart.",
        ),
    ] = None,
    features: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns to learn from; left out: all that can be used.")
    ] = None,
    columns: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            help="What columns become: lines, bins, hinges (bins joined by lines), trees (grown on --public), margin "
            "(lines beside such trees), or best: whatever public rows say.",
        ),
    ] = "best",
    missing: Annotated[
        str | None,
        typer.Option(
            metavar="WAY",
            help="What cells without a value become: fill (a column for each feature says where; it takes noise), or "
            "refuse, where no table has any. Asked for if left out (fill).",
        ),
    ] = None,
    holdout: Annotated[float, typer.Option(metavar="SHARE", help="Of each owner's rows, kept for scoring.")] = 0.2,
    score_epsilon: Annotated[
        float | None,
        typer.Option(metavar="EPS", help="Of every epsilon, for one released score of the finished model."),
    ] = None,
    title: Annotated[str, typer.Option(help="What this is about.")] = "",
    uri: Annotated[
        str | None, typer.Option("--uri", metavar="URI", help=f"Take one more table from a database. {URI}")
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="SQL", help="With --uri: one row for one record.")] = None,
    query_file: QueryFile = None,
    order_by: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="With --uri: the column that gives every row its place.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With --uri: where that table goes, as its owner's name.")
    ] = None,
    ask_password: AskPassword = False,
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Write terms even where `parley scales` would see little, and be refused."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: take the usual answers.")] = False,
    seed: Annotated[int, typer.Option(help="Of the planner's pilot runs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object; asks nothing.")] = False,
) -> None:
    """From files as they are to planned terms: reads names, kinds and row counts of private tables.

    Whether a column holds numbers or names is read off its cells where neither you nor --public nor the file says it,
    and of a --person column which rows belong together. Ranges and names of categories come from --public or from what
    you declare, never from private rows; where nobody says them, the terms set a part of epsilon aside to ask the
    owners with noise. What only people know is asked, and without --public also the kind of model, ranges and names;
    --yes takes the usual answers. Then the planner chooses how the budgets are spent best, and the terms are written
    with comments.

    Example:  parley init bank_a.csv bank_b.csv --target defaulted --public public_loans.csv --write terms.toml
    """
    from parley.data.headers import read_header
    from parley.decisions.from_files.column_choice import wanted_columns
    from parley.decisions.from_files.known_columns import Wishes
    from parley.decisions.from_files.terms_from_files import planned, usual_delta
    from parley.owner.warnings import budget_warning
    from parley.report.words.noise import plan_beside
    from parley.report.words.terms_comments import PSI, columns_line, head_lines, lifetime_line, next_steps, with_hosts

    taken = _from_database(uri, query_text(query, query_file), order_by or (), to, ask_password)
    files = [*(files or ()), *taken]
    if write.exists() and any(
        write.samefile(file) for file in (*files, *([public] if public else [])) if file.exists()
    ):
        raise SettingError(f"{write}: is read here too; give the terms a file of their own")
    quiet = yes or as_json
    if missing not in (None, "fill", "refuse"):
        raise SettingError(f"--missing: expected fill or refuse; got {missing!r}")
    owners = dict(_owner(each) for each in owner or ())
    if not files and not (owners and public):
        raise SettingError(
            "FILES: expected at least one private table, or --uri; or --public FILE with --owner NAME=RECORDS for "
            "every owner"
        )
    rows = max([read_header(file).rows for file in files] + [records for records, _ in owners.values()])
    ranges = dict(map(_ends, bounds or ()))
    wishes = Wishes(
        target=target,
        public=public,
        kind=kind,
        exposure=exposure,
        event=event,
        periods=moments(periods),
        features=asked.listed(features) or None,
        bounds={column: ends for column, (ends, _) in ranges.items()},
        dates={column: "" for column, (_, dated) in ranges.items() if dated}
        | dict(_format(each) for each in dates or ()),
        merged=tuple(merge or ()),
        owners=owners,
        categories=dict(_names(each) for each in categories or ()),
        positive=positive,
        holdout=holdout,
        score_epsilon=score_epsilon,
        columns=wanted_columns(columns),
        title=title,
    )
    wishes = wishes if quiet else asked_kind(files, wishes)
    epsilon = _asked(asked.EPSILON, epsilon, 1.0, quiet)
    delta = _asked(asked.DELTA, delta, usual_delta(rows), quiet)
    if person is None and not quiet:
        person = typer.prompt(asked.PERSON, "", err=True) or None
        if person and records_per_person == 1:
            records_per_person = typer.prompt(f"{asked.PERSON_ROWS} {asked.FIRST_ROWS}", 3, err=True)
    if hosts is None and not quiet:
        hosts = typer.prompt(asked.HOSTS, "", err=True)
    if missing is None and not quiet:
        missing = "fill" if typer.confirm(asked.MISSING, default=True, err=True) else "refuse"
    wishes = replace(
        wishes,
        epsilon=epsilon,
        delta=delta,
        person=person,
        records_per_person=records_per_person,
        hosts=asked.listed(hosts),
        missing=missing or "fill",
    )
    wishes = wishes if quiet else asked_merges(asked_columns(columns_to_ask(files, wishes), wishes))
    with _gone_unless_drafted(taken):
        drafted = _drafted(files, wishes, quiet, anyway)
    with progress_bar("planning") as progress:
        made = planned(drafted, seed, progress)
        plan = None if made.proposal is None else made.proposal.to_json()
        progress.says("what it is worth to each owner")
        expected = _foreseen(made, seed)
    loud = budget_warning(made.terms, [part.name for part in made.terms.owners])
    if loud is not None:
        warn_of(loud)
    made, pins = _pinned(made, write)
    write_terms(made.terms, write, head_lines(made), NOTES)
    if as_json:
        places = {"written": str(write), "pinned": None if pins is None else str(pins)}
        tried = [each.to_json() for each in made.tried]
        said = {"said": list(made.said), "columns": tried, "plan": plan}
        said |= {} if expected is None else expected.headline_json()
        print_json({**places, "terms_hash": made.terms.hash, **said}, inside=False)
        return
    for sentence in made.said:
        console.print(sentence, markup=False)
    if len(made.tried) > 1:
        console.print(columns_line(made.tried), markup=False)
    if made.proposal is not None and plan is not None:
        show_plan(made.proposal)
        console.print(PSI, style="dim", markup=False)
        for sentence in (*plan_beside(plan), *with_hosts(made)):
            console.print(sentence, markup=False)
    if expected is not None:
        from parley.report.words.outlook import verdict_sentence

        console.print(f"\n{verdict_sentence(expected.outlook, str(write))}", style="bold", markup=False, soft_wrap=True)
    console.print(f"\n{write}  the terms: read them before anybody agrees", soft_wrap=True)
    if pins is not None:
        console.print(f"{pins}  public numbers that the terms pin: it travels with them", soft_wrap=True)
    errors_console.print(lifetime_line(made), style="dim", soft_wrap=True)
    errors_console.print("Next:", style="dim")
    for step in next_steps(made, write):
        errors_console.print(step, style="dim", markup=False, soft_wrap=True)


def _foreseen(made: "Draft", seed: int) -> "Forecast | None":
    """What the drafted terms are worth to each owner; None where that cannot be forecast."""
    from parley.decisions.outlook.forecast import forecast
    from parley.protocol.task import task_of

    try:
        own = task_of(made.terms).command("forecast") is not None
        return None if own else forecast(made.terms, seed=seed)
    except ParleyError:
        return None


def _from_database(
    uri: str | None, query: str | None, keys: Sequence[str], to: Path | None, ask_password: bool
) -> list[Path]:
    """The table that was taken from a database, if one was asked for."""
    if uri is None and query is None and not keys and to is None:
        return []
    if uri is None or query is None or not keys or to is None:
        raise SettingError("--uri, --query, --order-by, --to: expected all of them or none")
    take(uri, query, keys, to, ask_password)
    return [to]


@contextmanager
def _gone_unless_drafted(taken: Sequence[Path]) -> Iterator[None]:
    """Folders that this command took from a database are gone if no terms come of them, so that it may be repeated."""
    try:
        yield
    except ParleyError:
        for folder in taken:
            shutil.rmtree(folder)
        raise


def _drafted(files: Sequence[Path], wishes: "Wishes", quiet: bool, anyway: bool) -> "Draft":
    """A draft that `parley scales` will not refuse where it needs scales; whoever answers may say more until it is."""
    from parley.decisions.from_files.column_dates import AmbiguousDatesError
    from parley.decisions.from_files.terms_from_files import draft
    from parley.tasks.column_statistics.run import UNASKED, require_learnable

    while True:
        try:
            drafted = draft(files, wishes)
        except AmbiguousDatesError as error:
            if quiet:
                raise
            wishes = asked_dates(error, wishes)
            continue
        if drafted.terms.privacy.scale_epsilon is None:
            return drafted
        try:
            require_learnable(drafted.terms, anyway=anyway)
        except SettingError as error:
            unsaid = unsaid_columns(drafted.terms)
            why = str(error).partition(f" {UNASKED}")[0]
            refused = f"{why} Nobody has said what these hold: {', '.join(map(printable, unsaid))}."
            more = wishes
            if not quiet:
                warn(refused)
                more = asked_columns(unsaid, wishes)
            if more == wishes:
                raise SettingError(
                    f"{refused} Say it of all of them, and nothing need be asked: --bounds COLUMN=LOW,HIGH or "
                    "--categories COLUMN=A,B,C; or leave columns out with --features, or give a larger --epsilon. No "
                    f"terms were written{' (--anyway writes them)' if _anyway_helps(drafted.terms) else ''}"
                ) from None
            wishes = more
        else:
            return drafted


def _anyway_helps(terms: Terms) -> bool:
    """Whether `--anyway` would write terms that were refused."""
    from parley.tasks.column_statistics.run import require_learnable

    try:
        require_learnable(terms, anyway=True)
    except SettingError:
        return False
    return True


def _pinned(made: "Draft", write: Path) -> "tuple[Draft, Path | None]":
    """The draft with public numbers pinned beside the terms, where machines might find different ones."""
    from parley.data.public_numbers import hangs_on_machine
    from parley.protocol.setup import pin

    if made.terms.privacy.scale_epsilon is not None or not hangs_on_machine(made.terms.model):
        return made, None
    path = pins_beside(write)
    return replace(made, terms=pin(made.terms, path)), path


def _asked(question: str, given: float | None, usual: float, quiet: bool) -> float:
    """What was given, else what a person says, else what is usual."""
    if given is not None:
        return given
    return usual if quiet else float(typer.prompt(question, usual, type=float, err=True))


def _names(text: str) -> tuple[str, tuple[str, ...]]:
    column, _, listed = text.partition("=")
    return column.strip(), asked.listed(listed, f"--categories {column}")


def _ends(text: str) -> tuple[str, tuple[tuple[float, float], bool]]:
    """A column, its range, and whether that was said as dates."""
    from parley.decisions.from_files.column_dates import range_ends

    column, _, ends = text.partition("=")
    found = range_ends([end.strip() for end in ends.split(",")])
    if found is None:
        raise SettingError(f"--bounds {text}: expected COLUMN=LOW,HIGH, two numbers, or two dates as 2015-01-01")
    return column.strip(), found


def _format(text: str) -> tuple[str, str]:
    from parley.decisions.from_files.column_dates import require_format

    column, _, written = text.partition("=")
    return column.strip(), require_format(column.strip(), written.strip())


def _owner(text: str) -> tuple[str, tuple[int, float | None]]:
    """An owner's name, how many records it has, and its own epsilon, if it has one."""
    name, _, rest = text.partition("=")
    try:
        records, _, epsilon = rest.partition(",")
        return name.strip(), (int(records), float(epsilon) if epsilon else None)
    except ValueError:
        raise SettingError(
            f"--owner {text}: expected NAME=RECORDS, such as bank-a=25000, or NAME=RECORDS,EPS"
        ) from None
