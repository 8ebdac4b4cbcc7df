"""`parley negotiate`: which budgets rational owners would choose, who stays out, and what a better model would cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.assumptions import Differences, read_differences
from parley.durable import write_file
from parley.errors import SettingError
from parley.report.terminal import console, print_json, progress_bar, terminal_table
from parley.terms import Terms, load_terms, write_terms

if TYPE_CHECKING:
    from parley.decisions.games.negotiate import Negotiation
    from parley.decisions.knowledge.heterogeneity import Heterogeneity


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
    value: Annotated[
        float | None,
        typer.Option(metavar="MONEY", help="Of one unit of test cost, to every owner whose terms state none."),
    ] = None,
    privacy_cost: Annotated[
        float | None,
        typer.Option(metavar="MONEY", help="Of each unit of epsilon, to every owner whose terms state none."),
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="With --target: the members pay each other, the learner nothing.")
    ] = False,
    keep_own: Annotated[
        bool,
        typer.Option(
            help="Members keep their own model where it is better, so that nobody counts a loss; else all must use "
            "the joint one."
        ),
    ] = True,
    differences: Differences = None,
    write: Annotated[
        Path | None, typer.Option(metavar="TERMS2", help="Write terms with these budgets, ready for parley train.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw payoffs by budget, and quality against spend.")
    ] = None,
    plot_owners: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw what joining pays as owners become more, with each owner's noise and with one for all.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the negotiation (.html), with its figures.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the budgets that rational owners would choose, from public knowledge: the terms and a pilot sample.

    Without `value` and `privacy_cost` it says what joining saves each owner at the terms' budgets, and from which
    value on that pays. An owner that joins gets value × (test cost alone − together) − its privacy cost, and keeps
    its own model where that is better (--no-keep-own: it must use the joint one); one that stays out trains alone
    and gets 0. An equilibrium is a set of budgets from which nobody gains by changing its own; with privacy.noise =
    "shared" all have one budget. The budgets in the file are not used, except as the place where a pilot run
    measures the price of noise.

    Example:  parley negotiate parley-demo/terms.toml --target 0.01 --write agreed.toml
    """
    from parley.decisions.games.equal_owners import equal_owners
    from parley.decisions.games.negotiate import negotiate

    terms = load_terms(terms_file)
    drawn = [file for file in (plot, plot_owners) if file is not None]
    if drawn:
        from parley.report.figures import game_figures, picture  # a library that takes its time
        from parley.report.figures.game_figures import negotiation_figure

        for file in drawn:
            picture.require_figure_name(file)
    if balanced and target is None:
        raise SettingError("--balanced: expected --target beside it; without a target nobody is paid")
    known, differ = None if pilot is None else str(pilot), read_differences(differences)
    terms = _stating(terms, value, privacy_cost)
    unstated = [part for part in terms.owners if part.value is None or part.privacy_cost is None]
    before = len(unstated) == len(terms.owners) and target is None and write is None and not drawn
    if unstated and (before or not as_json):
        _show_break_even(terms, known, differ, as_json)
        if before:
            return  # nobody has stated anything yet: what there is to know before
    with progress_bar("running the pilot") as progress:
        result = negotiate(terms, known, target, balanced, keep_own=keep_own, differences=differ, doing=progress.says)
    joined = result.relative_fitness is not None
    if write is not None and joined:
        write_terms(result.agreed_terms(), write)
    if plot is not None:
        picture.save(negotiation_figure(result), plot)
    if plot_owners is not None:
        with progress_bar("owners in growing numbers") as progress:
            many = equal_owners(terms, known, progress=progress, differences=differ)
        picture.save(game_figures.equal_owners(many.counts, many.payoff, many.fitness, many.like), plot_owners)
    if report is not None:
        from parley.report.pages.forecast_page import negotiation_page

        write_file(report, negotiation_page(result))
    if as_json:
        print_json(result.to_json(), inside=False)
    else:
        show(result)
        if write is not None and joined:
            console.print(f"\nNext: parley train {write}", style="dim", soft_wrap=True)
    if write is not None and not joined:  # said last: why is above
        result.agreed_terms()


def _stating(terms: Terms, value: float | None, weight: float | None) -> Terms:
    """The terms, with what the options say for owners that state nothing themselves."""
    said: dict[str, dict[str, object]] = {}
    for part in terms.owners:
        own: dict[str, object] = {} if value is None or part.value is not None else {"value": value}
        if weight is not None and part.privacy_cost is None:
            own["privacy_cost"] = {"kind": "linear", "weight": weight}
        said |= {part.name: own} if own else {}
    return terms.changed(owners=said) if said else terms


def _show_break_even(terms: Terms, pilot: str | None, differences: "Heterogeneity | None", as_json: bool) -> None:
    """From which value on joining pays, for people who have stated none yet."""
    from parley.decisions.games.break_even import break_even
    from parley.report.words import negotiation as said
    from parley.report.words.outlook import verdict_sentence

    with progress_bar("what joining saves"):
        found = break_even(terms, pilot, differences=differences)
    if as_json:
        print_json(found.to_json(), inside=False)
        return
    console.print(verdict_sentence(found.outlook), style="bold", markup=False, soft_wrap=True)
    console.print()
    console.print(terminal_table(said.break_even_rows(found.owners), said.BREAK_EVEN))
    console.print(f"\n{said.break_even_line(found.owners)}", markup=False, soft_wrap=True)


def show(result: "Negotiation") -> None:
    """The deal as a table and a few sentences."""
    from parley.decisions.games.negotiate import CommonNegotiation
    from parley.report.words import negotiation as said
    from parley.report.words import noise as kinds

    console.print(said.headline(result), style="bold")
    console.print()
    if not result.deal.members.any():
        console.print(terminal_table(said.wish_rows(result), said.wishes_title(result)))
        console.print()
        for sentence in said.moves(result):
            console.print(sentence, markup=False, soft_wrap=True)
        for warning in result.warnings:
            console.print(f"Note: {warning}.", style="yellow")
        console.print(said.CAVEAT, style="dim")
        return
    console.print(terminal_table(said.owner_rows(result), said.title(result)))
    console.print()
    if isinstance(result, CommonNegotiation):
        content = result.to_json()
        console.print(terminal_table(kinds.preference_rows(content), kinds.preferences_title(content)))
        console.print()
        for sentence in kinds.weakest_link(content):
            console.print(sentence)
    for sentence in said.prices(result):
        console.print(sentence)
    console.print(said.checked(result), style="dim")
    for warning in result.warnings:
        console.print(f"Note: {warning}.", style="yellow")
    console.print(said.CAVEAT, style="dim")
