"""`parley audit`: attack what a terms file promises, or a model with the rows that it was trained on."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.served_audit import ServedOptions, audit_a_daemon
from parley.durable import require_folder, write_file
from parley.errors import SettingError
from parley.report.terminal import console, print_json, progress_bar, terminal_table
from parley.terms import Terms, load_terms

if TYPE_CHECKING:
    from parley.audit import Audit

MODELS = 128


def audit_command(
    terms_file: Annotated[
        Path,
        typer.Argument(
            metavar="TERMS|MODEL",
            help="The terms file (TOML); no table is read. Or a model, as `parley train --save` wrote it (JSON).",
        ),
    ],
    runs: Annotated[
        int | None,
        typer.Option(
            help="Runs for each of the two tables: more runs prove more and take longer. Default: "
            "100,000, or as many as take a minute. Give it beside --seed."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Makes an audit repeatable.")] = None,
    by: Annotated[
        Path | None, typer.Option("--terms", metavar="TERMS", help="Of a model: the terms it was trained by.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a model: who audits it, with its own rows. --served: whose daemon."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Of a model: the table it was trained on; left out: `data` in the terms."),
    ] = None,
    population: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Of a model: rows that could have been in the table and were not; left out: those held out.",
        ),
    ] = None,
    models: Annotated[
        int, typer.Option(help="Of a model: how many shadow models, and how many that are attacked.", min=8)
    ] = MODELS,
    largest: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS",
            help="Of a model: the largest table that shadow models are trained on; left out: 50,000 rows.",
            min=40,
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the attack beside the claim (.png, .svg, .pdf).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page for a privacy officer (.html).")
    ] = None,
    poison: Annotated[
        bool, typer.Option("--poison", help="Instead: what owners that lie can do, under each rule of aggregation.")
    ] = False,
    tries: Annotated[
        int, typer.Option(min=0, help="Pairs of tables and questions that a search tries; 0: none.")
    ] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    served: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Attack an owner's daemon instead, over TLS, on an audit table with books of its own, made in this "
            "new folder.",
        ),
    ] = None,
    tables: Annotated[int | None, typer.Option(help="--served: audit tables; more of them prove more. [2]")] = None,
    program: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="--served: the parley that serves production; else this one.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="--served: somebody else starts the daemon, there. Typed once, the audit table is made; typed again, "
            "it is attacked.",
        ),
    ] = None,
) -> None:
    """Attack what terms promise: how much of epsilon can be shown to leak, and which faults that would notice.

    Tables are made up that differ in one person; nobody's data are read. Exit code 1 if an owner's answers are shown to
    tell more than is claimed.

    Of a model an owner asks who can be told to have been in its table: its own rows are read, on its own machine, and
    what is printed is for its own eyes.

    Example:  parley audit parley-demo/terms.toml --report audit.html

    Example:  parley audit terms.toml --served audit-of-bank-a --owner bank-a

    Example:  parley audit model.json --terms terms.toml --owner bank-a --report membership.html
    """
    if poison and (plot is not None or served is not None):
        raise SettingError("--poison: expected beside terms, without --served and --plot; --report writes a page")
    if is_model(terms_file):
        require_of_a_model(runs, poison, served, tables, program, at)
        if not audit_model_file(terms_file, by, owner, data, population, models, largest, seed, plot, report, as_json):
            raise typer.Exit(1)
        return
    if models != MODELS or any(option is not None for option in (by, data, population, largest)):
        raise SettingError(
            "--terms, --data, --population, --models, --largest: expected a model to audit, these belong to one"
        )
    from parley.audit import audit_terms
    from parley.report.figures import picture
    from parley.report.figures.audit_figures import audit_figure
    from parley.report.pages.audit_page import audit_page
    from parley.report.words import audit as words

    terms = load_terms(terms_file)
    options = ServedOptions(served, owner, tables, program, at)
    options.check(plot)
    if served is not None:
        audit_a_daemon(terms, options, served, seed, report, as_json)
        return
    if poison:
        show_poisoning(terms, seed or 0, report, as_json)
        return
    for file in (plot, report):
        require_folder(file)
    if plot is not None:
        picture.require_figure_name(plot)
    with progress_bar("looking for a canary") as progress:
        *before, last = [
            audit_terms(each, runs, seed, progress=progress, says=progress.says, tries=tries)
            for each in agreements_in(terms)
        ]
        audit = replace(last, before=tuple(before))
    if plot is not None:
        picture.save(audit_figure(audit.verdicts[0]), plot)
    if report is not None:
        write_file(report, audit_page(audit, terms))
    if as_json:
        print_json(audit.to_json(), inside=False)
    else:
        for each in (*audit.before, audit):
            show_audit(each)
        console.print(f"{words.MADE_UP} {words.NOT_TRIED}", style="dim", markup=False, soft_wrap=True)
        console.print(f"terms {terms.hash[:16]}…   {audit.seconds:.1f} s", style="dim")
    if not audit.holds:
        raise typer.Exit(1)


def agreements_in(terms: Terms) -> list[Terms]:
    """What owners are asked by these terms, an agreement each: statistics of columns, or how much owners differ, come
    first; what is learned after statistics depends on them, and is not known yet."""
    from parley.tasks.column_statistics.agreement import column_statistics_agreement
    from parley.tasks.heterogeneity.agreement import heterogeneity_agreement, terms_after_heterogeneity

    if terms.privacy.scale_epsilon is not None:
        return [column_statistics_agreement(terms)]
    if terms.privacy.difference_epsilon is not None:
        return [heterogeneity_agreement(terms), terms_after_heterogeneity(terms)]
    return [terms]


def show_audit(audit: "Audit") -> None:
    """Print what was found about one agreement."""
    from parley.report.words import audit as words
    from parley.report.words.audit import host_rows

    console.print(terminal_table(words.owner_rows(audit), audit.title or "Owners"))
    tables = (audit.exact, words.exact_rows), (audit.search, words.search_rows)
    for found, rows in tables:
        if found:
            console.print()
            console.print(terminal_table(rows(audit)))
    if audit.hosts:
        console.print()
        console.print(terminal_table(host_rows(audit.hosts)))
    console.print()
    for sentence in (*words.learned(audit), words.promised(audit.verdicts[0])):
        console.print(sentence, markup=False, soft_wrap=True)


def require_of_a_model(
    runs: int | None, poison: bool, served: Path | None, tables: int | None, program: str | None, at: str | None
) -> None:
    """Refuse options that do nothing where a model is audited."""
    given = {
        "--runs": runs is not None,
        "--poison": poison,
        "--served": served is not None,
        "--tables": tables is not None,
        "--program": program is not None,
        "--at": at is not None,
    }
    if any(given.values()):
        named = ", ".join(option for option, here in given.items() if here)
        raise SettingError(f"{named}: expected terms to audit, not a model")


def show_poisoning(terms: Terms, seed: int, report: Path | None, as_json: bool) -> None:
    """Print what owners that lie can do by these terms, and write its page."""
    from parley.audit.attacks.damage import damage
    from parley.report.pages.audit_page import poisoning_page
    from parley.report.words import audit as words

    require_folder(report)
    with progress_bar("lying"):
        found = damage(terms, seed)
    if report is not None:
        write_file(report, poisoning_page(found, terms))
    if as_json:
        print_json(found.to_json(), inside=False)
        return
    console.print(terminal_table(words.rule_rows(found), terms.title or "Owners that lie"))
    console.print()
    for sentence in words.sentences(found):
        console.print(sentence, markup=False, soft_wrap=True)
    console.print(f"terms {terms.hash[:16]}…   {found.seconds:.1f} s", style="dim")


def is_model(file: Path) -> bool:
    """Whether a file is a model (JSON) and no terms (TOML)."""
    if file.suffix.lower() == ".json":
        return True
    try:
        with file.open(encoding="utf-8") as text:
            return text.read(256).lstrip().startswith("{")
    except (OSError, UnicodeDecodeError):
        return False


def audit_model_file(
    model_file: Path,
    terms_file: Path | None,
    owner: str | None,
    data: Path | None,
    population: Path | None,
    models: int,
    largest: int | None,
    seed: int | None,
    plot: Path | None,
    report: Path | None,
    as_json: bool,
) -> bool:
    """Attack a model, print what was found, and say whether every claim holds."""
    from parley.audit.attacks.trained_model import LARGEST, audit_model, own_rows
    from parley.data import read_table
    from parley.learning.outcome import load_model
    from parley.learning.owners import table_of
    from parley.report.figures import picture
    from parley.report.figures.audit_figures import own_figure
    from parley.report.pages.audit_page import membership_page
    from parley.report.words import membership as words

    for file in (plot, report):
        require_folder(file)
    if plot is not None:
        picture.require_figure_name(plot)
    model = load_model(model_file)
    terms = None if terms_file is None else load_terms(terms_file)
    if terms is not None:
        owner = _whose(terms, owner)
        members, others = own_rows(model, terms, owner, table_of(terms.owner(owner), data))
        others = others if population is None else read_table(population)
    elif data is None or population is None or owner is not None:
        raise SettingError(
            "--terms and --owner, or --data with rows that the model was trained on and --population with rows that "
            "it was not: expected one of the two"
        )
    else:
        members, others = read_table(data), read_table(population)
    with progress_bar("shadow models") as progress:
        audit = audit_model(model, members, others, terms, owner, models, seed, progress, largest or LARGEST)
    if plot is not None:
        picture.save(own_figure(audit), plot)
    if report is not None:
        write_file(report, membership_page(audit))
    if as_json:
        print_json(audit.to_json(), inside=True)
        return audit.holds
    console.print(terminal_table(words.attack_rows(audit.membership), f"Models of {audit.shadow_records:,} rows"))
    console.print()
    console.print(terminal_table(words.model_rows(audit)))
    console.print()
    for sentence in (*words.learned(audit), words.promised(audit.membership), *words.of_this_model(audit)):
        console.print(sentence, markup=False, soft_wrap=True)
    console.print(f"{words.NOT_TRIED} {words.OWN_EYES}", style="dim", markup=False, soft_wrap=True)
    console.print(f"terms {audit.terms_hash[:16]}…   {audit.seconds:.1f} s", style="dim")
    return audit.holds


def _whose(terms: Terms, owner: str | None) -> str:
    """Whose rows are looked at: the owner named, or the only one."""
    if owner is not None:
        return terms.owner(owner).name
    if len(terms.owners) > 1:
        raise SettingError("--owner NAME: expected beside terms of several owners; each audits with its own rows")
    return terms.owners[0].name
