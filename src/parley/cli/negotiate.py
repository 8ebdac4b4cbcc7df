"""`parley negotiate`: which budgets rational owners would choose, who stays out, and what a better model would cost."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.screen import console, print_json
from parley.cli.terms_file import write_terms
from parley.durable import require_folder
from parley.errors import SettingError
from parley.games.budget_game import EXACT_UP_TO
from parley.games.crowd import crowd
from parley.games.negotiate import CommonNegotiation, Negotiation, negotiate
from parley.report import figures, game_figures
from parley.report import noise as said
from parley.report.tables import number, terminal_table
from parley.terms import Terms, load_terms


def negotiate_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS", help="The terms file; its owners need `value` and `privacy_cost`.")
    ],
    pilot: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="A public pilot sample; left out: the terms' `public`.")
    ] = None,
    target: Annotated[
        float | None, typer.Option(metavar="PSI", help="Find the cheapest payments that reach this relative fitness.")
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="With --target: the members pay each other, the learner nothing.")
    ] = False,
    write: Annotated[
        Path | None, typer.Option(metavar="TERMS2", help="Write terms with these budgets, ready for parley train.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw payoffs by budget, and quality against spend.")] = None,
    plot_owners: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw what joining pays as owners become more, with each owner's noise and with one for all."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the budgets that rational owners would choose, from public knowledge: the terms and a pilot sample.

    An owner that joins gets value × (test cost alone − together) − its privacy cost; one that stays out trains alone and gets 0. An
    equilibrium is a set of budgets from which nobody gains by changing its own; with privacy.noise = "shared" all have one budget. The
    budgets in the file are not used, except as the place where a pilot run measures the price of noise.

    Example:  parley negotiate parley-demo/terms.toml --target 0.01 --write agreed.toml
    """
    terms = load_terms(terms_file)
    for file in (plot, plot_owners, write):
        require_folder(file)
    for file in (plot, plot_owners):
        if file is not None:
            figures.require_figure_name(file)
    if balanced and target is None:
        raise SettingError("--balanced: expected --target beside it; without a target nobody is paid")
    result = negotiate(terms, None if pilot is None else str(pilot), target, balanced)
    if write is not None:
        write_terms(agreed_terms(result), write)
    if plot is not None:
        draw(result, plot)
    if plot_owners is not None:
        many = crowd(terms, None if pilot is None else str(pilot))
        figures.save(game_figures.crowd(many.counts, many.payoff, many.fitness, many.like), plot_owners)
    if as_json:
        print_json(result.to_json())
    else:
        show(result)
        if write is not None:
            console.print(f"\nNext: parley train {write}", style="dim", soft_wrap=True)


def show(result: Negotiation) -> None:
    """The deal as a table and a few sentences."""
    if result.relative_fitness is None:
        found = "is" if result.game.owners <= EXACT_UP_TO else "was found"
        console.print(f"[bold]Nobody joins:[/bold] there {found} no coalition in which every member does better than alone.")
    else:
        console.print(f"[bold]Expected relative fitness ψ = {number(result.relative_fitness)}[/bold]")
    console.print()
    paid = result.target is not None
    rows = [["owner", "joins", "budget ε", "gain in test cost", *(["payment"] if paid else []), "payoff"]]
    for owner in result.owners:
        money = [number(owner.payment)] if paid else []
        joins = "yes" if owner.participates else "stays out"
        rows.append([owner.name, joins, number(owner.epsilon), number(owner.gain, 3), *money, number(owner.payoff)])
    console.print(terminal_table(rows, "The cheapest contracts found" if paid else "What each owner would choose"))
    console.print()
    if paid:
        console.print(f"The learner pays {number(result.deal.spend)} in all." + _posted(result))
    if isinstance(result, CommonNegotiation):
        content = result.to_json()
        console.print(terminal_table(said.standing_rows(content), said.STANDINGS))
        console.print()
        for sentence in said.weakest_link(content):
            console.print(sentence)
    if result.price_of_privacy is not None:
        lost = f"{result.price_of_privacy:.1%}"
        console.print(f"Price of privacy: {lost} of what everyone could gain together without noise is lost.")
    console.print(f"Checked: no owner gains more than {number(result.largest_gain, 2)} by another choice of its own.", style="dim")
    for warning in result.warnings:
        console.print(f"Note: {warning}.", style="yellow")
    console.print("Assumes that the owners' data follow one law and that they state their values truthfully.", style="dim")


def _posted(result: Negotiation) -> str:
    if result.posted is None:
        return ""
    return f" One price for all, {number(result.posted.price)} for each unit of ε, would cost {number(result.posted.spend)}."


def agreed_terms(result: Negotiation) -> Terms:
    """The terms with the deal's budgets; whoever stays out is left out. Six digits of a budget are kept."""
    chosen = {owner.name: owner.epsilon for owner in result.owners if owner.epsilon is not None}
    if not chosen:
        raise SettingError("--write: nobody joins, so there is nothing to agree on; a --target may bring owners in by payments")
    quorum, shared = result.terms.learning.quorum, result.terms.privacy.shared_records
    return result.terms.changed(
        learning={"quorum": None if quorum is None else min(quorum, len(chosen))},  # neither may exceed the number of owners
        privacy={"shared_records": min(shared, len(chosen))},
        owners={name: {"epsilon": float(f"{epsilon:.6g}")} for name, epsilon in chosen.items()},
        only=chosen,
    )


def draw(result: Negotiation, plot: Path) -> None:
    """Payoffs by own budget with the choices marked, and quality against spend."""
    epsilons, payoffs = result.payoff_curves()
    budget = "common budget ε" if result.terms.shared else "own budget ε"
    chosen = {owner.name: owner.epsilon for owner in result.owners if owner.epsilon is not None}
    figures.save(game_figures.negotiation(epsilons, payoffs, chosen, result.spending(), budget), plot)
