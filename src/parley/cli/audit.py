"""`parley audit`: attack the promise of a terms file, or a model with its training rows."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from parley.report.terminal import Terminal, show

SHADOW_MODELS = 128


def audit_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS|MODEL", help="Terms (TOML) or a saved model (JSON).")],
    runs: Annotated[
        int | None, typer.Option(help="Number of runs per table. Default: about one minute of runs.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed that makes an audit repeatable.")] = None,
    by: Annotated[
        Path | None, typer.Option("--terms", metavar="TERMS", help="The terms under which a model was trained.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Owner that audits a model; with --served, the attacked owner.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Table with the model's training rows. Default: `data` in the terms."),
    ] = None,
    population: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Rows that the model was not trained on. Default: held-out rows."),
    ] = None,
    models: Annotated[
        int, typer.Option(help="Number of shadow models; the number of attacked models is the same.", min=8)
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
        Path | None, typer.Option(metavar="FILE", help="Write a page for a privacy officer (.html).")
    ] = None,
    poison: Annotated[
        bool, typer.Option("--poison", help="Show only what lying owners can do under each aggregation rule.")
    ] = False,
    tries: Annotated[
        int, typer.Option(min=0, help="Number of table pairs and questions to try; 0 skips this search.")
    ] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    served: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Attack a real daemon that runs in a new folder DIR."),
    ] = None,
    tables: Annotated[
        int | None, typer.Option(help="Number of --served audit tables; more tables tighten the bound. [2]")
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="With --served: the parley program to audit. Default: this program."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address of a --served daemon that someone else starts.")
    ] = None,
) -> None:
    """Attack the terms' guarantee: show how much an attacker learns, and which faults the attack would detect.

    The attack uses two synthetic tables that differ in one person, and does not read private records. The exit code is
    1 if an owner's answers reveal more than the terms promise.

    If you give a saved model, the audit shows whether an attacker can tell who was in the owner's table. The audit of a
    model reads the owner's rows on the owner's machine, and the output must stay inside the organisation.

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
