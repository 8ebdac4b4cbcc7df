"""`parley audit`: attack the promise of a terms file, or a model with its training rows."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from parley.report.terminal import Terminal, show

SHADOW_MODELS = 128


def audit_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS|MODEL", help="The terms file (TOML) or saved model (JSON) to audit.")
    ],
    runs: Annotated[
        int | None, typer.Option(help="Number of runs per table. Default: runs for about one minute.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed that makes an audit repeatable.")] = None,
    by: Annotated[
        Path | None,
        typer.Option(
            "--terms", metavar="TERMS", help="With a saved model: the terms under which the model was trained."
        ),
    ] = None,
    owner: Annotated[
        str | None, typer.Option(metavar="NAME", help="The owner that audits the model or, with --served, is attacked.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Table of training rows. Default: the table under `data` in the terms."),
    ] = None,
    population: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Rows that the model was not trained on. Default: held-out rows."),
    ] = None,
    models: Annotated[
        int, typer.Option(help="Number of shadow models, which equals the number of attacked models.", min=8)
    ] = SHADOW_MODELS,
    largest: Annotated[
        int | None,
        typer.Option(metavar="ROWS", help="Largest number of training rows per shadow model. Default: 50,000.", min=40),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Plot the attack's result and the promised guarantee (.png, .svg, .pdf)."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the audit for a privacy officer (.html).")
    ] = None,
    poison: Annotated[
        bool, typer.Option("--poison", help="Show only how far lying owners can shift results, by aggregation rule.")
    ] = False,
    tries: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Table pairs to search, 0 for none. Default: 200 (joined tables 10,000).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    served: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Attack a real daemon that serves audit tables in the folder DIR."),
    ] = None,
    tables: Annotated[
        int | None, typer.Option(help="With --served: number of tables; more tables tighten the bound. Default: 2.")
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="With --served: the parley program to audit. Default: this program."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="With --served: address of a daemon that someone else starts."),
    ] = None,
) -> None:
    """Attack the terms' guarantee to show how much an attacker learns, and which faults the audit would notice.

    The attack uses two synthetic tables that differ in one person, and does not read private records. The exit code is
    1 if an owner's answers reveal more than the terms allow.

    If you give a saved model, the audit shows whether an attacker can tell who was in the owner's table. The audit of a
    model reads the owner's rows on the owner's machine. The output of a model's audit must stay inside the
    organisation.

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
