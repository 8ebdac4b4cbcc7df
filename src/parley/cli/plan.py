"""`parley plan`: the terms that spend the same budgets best; `parley pin`: public numbers found once, for everybody."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.assumptions import Differences
from parley.report.terminal import Terminal, console, print_json, terminal_table, warn

if TYPE_CHECKING:
    from parley.decisions.planning.planner import Proposal
    from parley.workflows.plan import PlanReport


def plan_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file. Its owners need no `data`.")],
    pilot: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="A public pilot sample; left out: the terms' `public`.")
    ] = None,
    moments: Annotated[
        Path | None, typer.Option(metavar="JSON", help="Instead of a sample: second moments that owners released.")
    ] = None,
    assume: Annotated[
        Path | None,
        typer.Option(metavar="TOML", help="Instead of a sample: stated assumptions, as for `parley forecast`."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta", metavar="DELTA", help="Consider Gaussian noise at this delta too. Default: the terms' own."
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="TERMS2", help="Write terms with the best choice, ready for parley train.")
    ] = None,
    differences: Differences = None,
    seed: Annotated[int, typer.Option(help="Seed of the pilot runs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Choose how the same budgets are spent best: algorithm, rounds, step, clip and noise. No private record is looked
    at.

    The planner tries what the terms leave open on public rows, with the noise that the owners' budgets need, and says
    what each choice would be worth. Who promises which epsilon stays as it is; so does where noise is drawn.

    Example:  parley plan terms.toml --delta 1e-6 --write planned.toml
    """
    from parley.workflows.assumptions import Assumed
    from parley.workflows.plan import plan_terms

    known = Assumed(pilot, moments, assume, differences)
    report = plan_terms(terms_file, Terminal(), known, delta=delta, write=write, seed=seed)
    if as_json:
        print_json(report.to_json(), inside=False)
    else:
        show(report)
    report.require_choice()  # where there is none the job was not done


def show(report: "PlanReport") -> None:
    """What was tried and chosen, what that is worth, and where it was written."""
    from parley.decisions.knowledge.coding import coding_warning
    from parley.report.words.noise import plan_beside
    from parley.report.words.terms_comments import PSI

    show_plan(report.proposal)
    if report.verdict is not None:
        console.print(report.verdict, markup=False, soft_wrap=True)
    console.print(PSI, style="dim", markup=False)
    for sentence in plan_beside(report.content):
        console.print(sentence)
    if (coding := coding_warning(report.proposal.terms)) is not None:
        warn(coding)
    if report.written is not None:
        console.print(
            f"\n{report.written}  the planned terms. Next: parley train {report.written}", style="dim", soft_wrap=True
        )
    if report.pinned is not None:
        numbers = f"{report.pinned}  public numbers, pinned again for these terms: it travels with them"
        console.print(numbers, style="dim", soft_wrap=True)


def show_plan(proposal: "Proposal") -> None:
    """What the planner tried, and the lines to put into the terms."""
    from parley.report.words import forecast as said

    console.print()
    bold = None if proposal.best is None else proposal.choices.index(proposal.best)
    console.print(terminal_table(said.plan_rows(proposal), said.PLAN, bold=bold))
    console.print()
    console.print(said.plan_advice(proposal), markup=False)
    console.print(said.plan_rests_on(proposal), style="dim", markup=False, soft_wrap=True)
    for sentence in said.unjudged_lines(proposal):
        console.print(sentence, style="yellow", markup=False, soft_wrap=True)


def pin_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file, not yet accepted by anybody.")],
    write: Annotated[
        Path, typer.Option(metavar="TERMS2", help="Terms that pin the numbers; their file lies beside it.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write the public numbers that terms lead to beside them, so that all parties use the same, whatever their
    machines are.

    Bounds, centres, scales, principal components, whitening and the points of a basis follow from the terms and the
    public sample; but where a sample spreads equally in several directions, machines find different ones. The new terms
    have another hash: everybody accepts them anew. Nothing is asked and nothing is spent.

    Example:  parley pin terms.toml --write pinned.toml
    """
    from parley.workflows.plan import pin_terms

    report = pin_terms(terms_file, write)
    if as_json:
        print_json(report.to_json(), inside=False)
        return
    hashed = f"{report.terms_hash[:16]}…"
    console.print(f"{report.written}  the terms, which pin public numbers: terms {hashed}", soft_wrap=True)
    console.print(f"{report.pinned}  the numbers: it travels with them", soft_wrap=True)
