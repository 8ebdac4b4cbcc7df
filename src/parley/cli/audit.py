"""`parley audit`: attack what a terms file promises, or a model with the rows that it was trained on."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from parley.report.terminal import Terminal, show

MODELS = 128


def audit_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS|MODEL", help="Terms (TOML), or a saved model (JSON).")],
    runs: Annotated[
        int | None, typer.Option(help="Runs for each of two tables. Default: about a minute's worth.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Makes an audit repeatable.")] = None,
    by: Annotated[
        Path | None, typer.Option("--terms", metavar="TERMS", help="With a model: the terms it was trained by.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model: whose rows audit it. --served: whose daemon.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Model: its training table. Default: `data` in the terms.")
    ] = None,
    population: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Model: rows it was not trained on. Default: those held out.")
    ] = None,
    models: Annotated[int, typer.Option(help="Model: number of shadow models, and of attacked ones.", min=8)] = MODELS,
    largest: Annotated[
        int | None, typer.Option(metavar="ROWS", help="Model: most rows of a shadow model. Default: 50,000.", min=40)
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
        Path | None, typer.Option(metavar="DIR", help="Attack an owner's daemon instead; DIR is new.")
    ] = None,
    tables: Annotated[int | None, typer.Option(help="--served: audit tables; more prove more. [2]")] = None,
    program: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="--served: the parley that serves production. Default: this one."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="--served: where somebody else starts the daemon.")
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
    from parley.workflows.audit import Attack, audit

    attack = Attack(runs, seed, by, owner, data, population, models, largest, plot, report, poison, tries, served)
    found = audit(terms_file, replace(attack, tables=tables, program=program, at=at), Terminal())
    show(found, as_json)
    if not found.holds:
        raise typer.Exit(1)
