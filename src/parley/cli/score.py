"""`parley score`: an owner judges the joint model on its own held-out rows."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.screen import console, print_json, terminal_table
from parley.learning.owners import owner_table
from parley.outcome import load_model, score
from parley.owner import Owner
from parley.report.verdict import INSIDE, headline, verdict_rows
from parley.terms import load_terms


def score_command(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL", help="The joint model, as `parley train --save` wrote it.")],
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms it was trained by.")],
    owner: Annotated[str, typer.Option(help="Which owner judges.")],
    data: Annotated[Path | None, typer.Option(metavar="TABLE", help="Its table; left out: `data` in the terms.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Is the joint model better for us? Scored on the owner's own held-out rows, beside the model it can train alone.

    Owners differ, so a forecast for all is not a verdict for each. What this prints is computed from private rows: keep it inside.

    Example:  parley score model.json terms.toml --owner bank-a
    """
    terms, model = load_terms(terms_file), load_model(model_file)
    part = terms.owner(owner)
    verdict = score(terms, Owner(owner, str(data) if data is not None else owner_table(part)), model)
    if as_json:
        print_json(verdict.to_json())
        return
    console.print(terminal_table(verdict_rows(verdict)))
    console.print(f"\n[bold]{headline(verdict)}[/bold]")
    if verdict.target_words is not None:
        console.print(verdict.target_words, style="dim", markup=False)
    console.print(INSIDE, style="dim")
