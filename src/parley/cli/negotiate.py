"""`parley negotiate`: the budgets that rational owners would choose, who stays out, and what a better model costs."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.assumptions import Differences
from parley.report.terminal import Terminal, show


def negotiate_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS", help="The terms file, with each owner's `value` and `privacy_cost`.")
    ],
    pilot: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Public sample. Default: the sample under `public` in the terms."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(metavar="PSI", help="Find the lowest payments to owners that lead to this relative fitness."),
    ] = None,
    value: Annotated[
        float | None,
        typer.Option(metavar="MONEY", help="Value of saving one unit of test cost, for owners without `value`."),
    ] = None,
    privacy_cost: Annotated[
        float | None,
        typer.Option(metavar="MONEY", help="Cost of one unit of epsilon, for owners without `privacy_cost`."),
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="With --target: the members pay each other; the learner pays nothing.")
    ] = False,
    truthful: Annotated[
        bool,
        typer.Option("--truthful", help="Also compute payments under which no owner gains by misstating its costs."),
    ] = False,
    max_price: Annotated[
        float | None,
        typer.Option(
            metavar="MONEY", help="With --truthful: highest `weight` of an owner's `privacy_cost` that you accept."
        ),
    ] = None,
    keep_own: Annotated[bool, typer.Option(help="Owners that join may keep their own model if it is better.")] = True,
    differences: Differences = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="TERMS2", help="Write terms with the negotiated budgets, ready for parley train."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Plot payoffs against budgets, and model quality against money spent."),
    ] = None,
    plot_owners: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot the payoff of joining against the number of owners.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the negotiation (.html), with its figures.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the budgets that rational owners would choose, from public knowledge such as the terms and a public sample.

    Without `value` and `privacy_cost`, the command prints each owner's saving from joining at the terms' budgets, and
    the lowest value that justifies joining. The payoff of an owner that joins is value × (test cost alone − test cost
    together) − privacy cost. An owner may keep its own model if that model is better, unless you give --no-keep-own. An
    owner that stays out trains alone and has payoff 0. In an equilibrium, no owner gains by changing its own budget
    alone. With privacy.noise = "shared", all owners have the same budget. The negotiation uses the terms' budgets only
    in a pilot run, which measures how much the noise raises the test cost.

    Example:  parley negotiate parley-demo/terms.toml --target 0.01 --write agreed.toml
    """
    from parley.workflows.negotiate import negotiate_terms

    found = negotiate_terms(
        terms_file,
        Terminal(),
        pilot=pilot,
        target=target,
        value=value,
        privacy_cost=privacy_cost,
        balanced=balanced,
        keep_own=keep_own,
        differences=differences,
        truthful=truthful,
        max_price=max_price,
        write=write,
        plot=plot,
        plot_owners=plot_owners,
        report=report,
    )
    show(found, as_json)
