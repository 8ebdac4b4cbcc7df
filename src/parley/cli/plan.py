"""`parley plan`: the terms that spend the same budgets best, from public knowledge."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.assumptions import Differences, read_differences
from parley.cli.forecast import show_plan, source
from parley.cli.pin import pins_beside
from parley.report.terminal import console, print_json, progress_bar, warn
from parley.terms import Terms, load_terms, write_terms
from parley.terms.file import NOTES, head_of


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
            "--delta",
            metavar="DELTA",
            help="Consider Gaussian noise at this delta too; left out: the terms' own. It weakens the promise.",
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="TERMS2", help="Write terms with the best choice, ready for parley train.")
    ] = None,
    differences: Differences = None,
    seed: Annotated[int, typer.Option(help="Of the pilot runs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Choose how the same budgets are spent best: algorithm, rounds, step, clip and noise. No private record is looked
    at.

    The planner tries what the terms leave open on public rows, with the noise that the owners' budgets need, and says
    what each choice would be worth. Who promises which epsilon stays as it is; so does where noise is drawn.

    Example:  parley plan terms.toml --delta 1e-6 --write planned.toml
    """
    from parley.decisions.knowledge.coding import coding_warning
    from parley.decisions.outlook.forecast import forecast
    from parley.decisions.planning.planner import plan
    from parley.report.words import noise as kinds
    from parley.report.words.outlook import verdict_sentence
    from parley.report.words.terms_comments import PSI, planned_line, without_plan

    terms = load_terms(terms_file)
    known, differ = source(pilot, moments, assume), read_differences(differences)
    with progress_bar("planning") as progress:
        proposal = plan(terms, known, delta, seed, progress=progress)
        progress.says("what it is worth to each owner")
        expected = None if proposal.best is None else forecast(proposal.terms, known, seed, differences=differ)
        content = proposal.to_json() | ({} if expected is None else expected.headline_json())
    if write is not None and proposal.best is not None:
        head = [*without_plan(head_of(terms_file)), planned_line(proposal)]
        made = _pinned(terms, proposal.terms, write)
        write_terms(made, write, head, NOTES)
        content |= {"terms_hash": made.hash}
    if as_json:
        print_json(content | {"written": None if write is None or proposal.best is None else str(write)}, inside=False)
        proposal.require_choice()  # where there is none the job was not done
        return
    show_plan(proposal)
    if expected is not None:
        console.print(verdict_sentence(expected.outlook, str(write or terms_file)), markup=False, soft_wrap=True)
    console.print(PSI, style="dim", markup=False)
    for sentence in kinds.plan_beside(content):
        console.print(sentence)
    if (coding := coding_warning(proposal.terms)) is not None:
        warn(coding)
    proposal.require_choice()
    if write is not None:
        console.print(f"\n{write}  the planned terms. Next: parley train {write}", style="dim", soft_wrap=True)
        if _pins_anew(terms, proposal.terms):
            numbers = f"{pins_beside(write)}  public numbers, pinned again for these terms: it travels with them"
            console.print(numbers, style="dim", soft_wrap=True)


def _pins_anew(before: Terms, planned: Terms) -> bool:
    """Whether the terms pinned numbers that are not those of the plan: it reads columns in another way, or the terms
    were edited since."""
    return before.model.preparation is not None and planned.model.preparation is None


def _pinned(before: Terms, planned: Terms, write: Path) -> Terms:
    """The planned terms, with numbers pinned again where those of before are not theirs."""
    from parley.protocol.setup import pin

    return pin(planned, pins_beside(write)) if _pins_anew(before, planned) else planned
