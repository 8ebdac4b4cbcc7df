"""`parley train`: train the joint model of a terms file on one machine."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.assumptions import Differences, Force, Speeds, Track
from parley.report.run_options import Expect, OtherBooks
from parley.report.terminal import Terminal, show


def train_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS", help="The terms file (TOML), with each owner's `data`.")
    ],
    replicates: Annotated[
        int, typer.Option(help="Number of simulated runs; with several runs, the results include quartiles.")
    ] = 1,
    seed: Annotated[int | None, typer.Option(help="Seed that makes a simulation repeatable.")] = None,
    ledgers: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Release the model instead of simulating, and debit each owner's ledger, DIR/OWNER.ledger.",
        ),
    ] = None,
    lifetime: Annotated[
        float | None, typer.Option(metavar="EPS", help="With --ledgers: permanent lifetime epsilon of new ledgers.")
    ] = None,
    lifetime_delta: Annotated[
        float | None,
        typer.Option(metavar="DELTA", help="With --lifetime: permanent lifetime delta of new ledgers. Default: 0."),
    ] = None,
    differences: Differences = None,
    speeds: Speeds = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Compute sums over rows on your own Dask cluster (tls://HOST:PORT)."),
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the model as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot relative fitness against rounds (.png, .svg, .pdf).")
    ] = None,
    shapes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With bins, hinges or trees: draw each column's contribution to predictions."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the run (.html), with its figures.")
    ] = None,
    track: Track = None,
    anyway: Force = False,
    other_books: OtherBooks = None,
    expect: Expect = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Train one joint model under the terms, on this machine.

    Without --ledgers, the command simulates training. A simulation shows the relative fitness (excess cost over the
    model without privacy) and the task's metrics on held-out rows. With --ledgers, the command releases the model, with
    safe noise and permanent debits. After a crash, repeat the command to continue where the run stopped. Repeating a
    finished run costs no budget, because owners return their stored answers. With --lifetime, the command creates
    missing ledgers. Use one ledger per table, because a second ledger would not count what the first ledger spent.

    --force releases a model even if the forecast says that the zero model or the public sample's model is better, or
    that no owner gains. For ratings, --force releases a model even if the forecast says that owners do better alone.
    --force also permits a release if some people may also be in another table that has another ledger.

    Example:  parley train parley-demo/terms.toml --replicates 100 --seed 1 --plot fitness.png
    """
    from parley.report.run_options import RunOptions
    from parley.workflows.train import TrainOptions, train_model

    run = RunOptions(ledgers, lifetime, lifetime_delta, seed=seed, replicates=replicates, anyway=anyway)
    run = replace(run, other_books=other_books, save=save)
    options = TrainOptions(run, differences, speeds, cluster, plot, shapes, report, track, expect)
    show(train_model(terms_file, options, Terminal()), as_json)
